"""A unique signature with a proof: for a key and a message there is one value, and anybody can check it.

The value is Γ = x·H on secp256k1, where H is the message hashed to the curve; the proof (c, s) shows that
log_G X = log_H Γ, after the verifiable random function ECVRF of RFC 9381. Whoever holds x cannot choose Γ, and nobody
else can compute it. The proof's nonce comes from key and message, so that the same message makes the same bytes.

Only coincurve's public names are used. What proves multiplies by its secret in a time that depends on it: a node
proves for itself, once a proposal, and answers nobody who could measure it.
"""

from coincurve import PrivateKey, PublicKey

from domain.hashing import hash_fields, u32

POINT_BYTES = 33
SCALAR_BYTES = 32
PROOF_BYTES = POINT_BYTES + 2 * SCALAR_BYTES
GROUP_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_TRIES = 256  # of which each finds a point with a chance of one half


def prove(secret: bytes, message: bytes) -> bytes:
    """Return Γ, c and s of ``message``: 33 + 32 + 32 bytes, the same every time.

    ``secret`` is the 32 bytes of a key; ValueError where they are none.
    """
    key = PrivateKey(secret)
    x = int.from_bytes(secret, "big")
    hashed = hash_to_curve(message)
    public, gamma = key.public_key.format(), hashed.multiply(secret).format()
    nonce = _scalar(hash_fields("assay/vrf/nonce", secret, message))
    commitments = PrivateKey(nonce).public_key.format(), hashed.multiply(nonce).format()
    c = _challenge(public, hashed.format(), gamma, *commitments)
    s = (int.from_bytes(nonce, "big") + int.from_bytes(c, "big") * x) % GROUP_ORDER
    return gamma + c + s.to_bytes(SCALAR_BYTES, "big")


def verify(pub_key: bytes, message: bytes, proof: bytes) -> bool:
    """Tell whether ``proof`` holds the value of a compressed key for ``message``; never raises for what it is given.

    Every point and scalar has one encoding: compressed, and from 1 to the group's order - 1.
    """
    if len(pub_key) != POINT_BYTES or len(proof) != PROOF_BYTES:
        return False
    gamma, c = proof[:POINT_BYTES], proof[POINT_BYTES:-SCALAR_BYTES]
    s = proof[-SCALAR_BYTES:]
    hashed = hash_to_curve(message)
    try:  # coincurve refuses what is no point or scalar, and never returns the point at infinity
        first = _difference(PrivateKey(s).public_key, PublicKey(pub_key).multiply(c))
        second = _difference(hashed.multiply(s), PublicKey(gamma).multiply(c))
    except ValueError:
        return False
    return c == _challenge(pub_key, hashed.format(), gamma, first.format(), second.format())


def value_of(proof: bytes) -> bytes:
    """Return Γ (33 bytes) of a proof that holds."""
    return proof[:POINT_BYTES]


def is_point(encoded: bytes) -> bool:
    """Tell whether bytes are a compressed point of the curve, and so a public key."""
    try:
        return len(encoded) == POINT_BYTES and PublicKey(encoded).format() == encoded
    except ValueError:
        return False


def hash_to_curve(message: bytes) -> PublicKey:
    """Return the point with an even y whose x is the first of a message's hashes to lie on the curve.

    The time depends on the message, which is public.
    """
    for number in range(_TRIES):
        x = hash_fields("assay/vrf/point", message, u32(number))
        try:
            return PublicKey(b"\x02" + x)
        except ValueError:  # no point has this x
            continue
    raise LookupError("no hash of the message is on the curve")  # one in 2^256


def _challenge(*points: bytes) -> bytes:
    return _scalar(hash_fields("assay/vrf/challenge", *points))


def _scalar(digest: bytes) -> bytes:
    """Return a digest as a number below the group's order; the bias is one in 2^127."""
    return (int.from_bytes(digest, "big") % GROUP_ORDER).to_bytes(SCALAR_BYTES, "big")


def _difference(first: PublicKey, second: PublicKey) -> PublicKey:
    """Return ``first`` - ``second``; ValueError where that is the point at infinity."""
    encoded = second.format()
    negated = PublicKey(bytes([encoded[0] ^ 1]) + encoded[1:])
    return PublicKey.combine_keys([first, negated])
