"""A unique signature with a proof: a key and a message have exactly one value, and anyone can check it.

The value is Γ = x·H on secp256k1, where H is the message hashed to the curve. The proof (c, s) shows that
log_G X = log_H Γ, after the verifiable random function ECVRF of RFC 9381. The owner of x cannot choose Γ, and no one
else can compute it. The proof's nonce comes from key and message, so the same message always gives the same bytes.

The code uses coincurve's public functions only. The time of ``prove`` depends on the secret. This is safe, because a
node proves only once per proposal and never at the request of another party that could measure it.
"""

from coincurve import PrivateKey, PublicKey

from domain.hashing import hash_fields, u32

POINT_BYTES = 33
SCALAR_BYTES = 32
PROOF_BYTES = POINT_BYTES + 2 * SCALAR_BYTES
GROUP_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_TRIES = 256  # each finds a point with a chance of one half


def prove(secret: bytes, message: bytes) -> bytes:
    """Return Γ, c and s for ``message``: 33 + 32 + 32 bytes, always the same.

    ``secret`` is the 32 bytes of a private key; ValueError if it is not one.
    """
    key = PrivateKey(secret)
    x = int.from_bytes(secret, "big")
    hashed = hash_to_curve(message)
    public = key.public_key.format()
    gamma = hashed.multiply(secret).format()
    nonce = _scalar(hash_fields("assay/vrf/nonce", secret, message))
    commitments = PrivateKey(nonce).public_key.format(), hashed.multiply(nonce).format()
    c = _challenge(public, hashed.format(), gamma, *commitments)
    s = (int.from_bytes(nonce, "big") + int.from_bytes(c, "big") * x) % GROUP_ORDER
    return gamma + c + s.to_bytes(SCALAR_BYTES, "big")


def verify(pub_key: bytes, message: bytes, proof: bytes) -> bool:
    """Return whether ``proof`` proves the value of ``message`` under a compressed key; any bytes are safe as arguments.

    Each point and scalar has one encoding: points are compressed, and scalars are from 1 to the group's order - 1.
    """
    if len(pub_key) != POINT_BYTES or len(proof) != PROOF_BYTES:
        return False
    gamma, c = proof[:POINT_BYTES], proof[POINT_BYTES:-SCALAR_BYTES]
    s = proof[-SCALAR_BYTES:]
    hashed = hash_to_curve(message)
    try:  # coincurve refuses bytes that are not a point or scalar, and never returns the point at infinity
        first = _difference(PrivateKey(s).public_key, PublicKey(pub_key).multiply(c))
        second = _difference(hashed.multiply(s), PublicKey(gamma).multiply(c))
    except ValueError:
        return False
    return c == _challenge(pub_key, hashed.format(), gamma, first.format(), second.format())


def value_of(proof: bytes) -> bytes:
    """Return Γ (33 bytes) of a valid proof."""
    return proof[:POINT_BYTES]


def is_point(encoded: bytes) -> bool:
    """Return whether bytes are a compressed point of the curve, and so a public key."""
    try:
        return len(encoded) == POINT_BYTES and PublicKey(encoded).format() == encoded
    except ValueError:
        return False


def hash_to_curve(message: bytes) -> PublicKey:
    """Return the point with an even y whose x is the first hash of the message that lies on the curve.

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
    """Return a digest as a number below the group's order; its bias is 2^-127."""
    return (int.from_bytes(digest, "big") % GROUP_ORDER).to_bytes(SCALAR_BYTES, "big")


def _difference(first: PublicKey, second: PublicKey) -> PublicKey:
    """Return ``first`` - ``second``; ValueError if that is the point at infinity."""
    encoded = second.format()
    negated = PublicKey(bytes([encoded[0] ^ 1]) + encoded[1:])
    return PublicKey.combine_keys([first, negated])
