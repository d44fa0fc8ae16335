"""A unique signature with a proof: a key and a message have exactly one value, and anyone can check this value.

The value is Γ = x·H on secp256k1, where x is the secret and H is the message hashed to the curve. The proof (c, s)
shows that log_G X = log_H Γ for the public key X, as in the verifiable random function ECVRF of RFC 9381. The owner of
x cannot choose Γ, and no one else can compute it. The proof's nonce is derived from key and message, so the same
message always gives the same bytes.

The code uses coincurve's public functions only. The time of ``prove`` depends on the secret. This is safe, because a
node makes only one proof per proposal, and never at the request of another party that could measure the time.
"""

from coincurve import PrivateKey, PublicKey

from domain.hashing import hash_fields, u32

POINT_BYTES = 33
SCALAR_BYTES = 32
PROOF_BYTES = POINT_BYTES + 2 * SCALAR_BYTES
GROUP_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_TRIES = 256  # number of tries; each finds a point with a chance of one half


def prove(secret: bytes, message: bytes) -> bytes:
    """Return the proof for ``message``: Γ, c and s, joined to 33 + 32 + 32 bytes.

    The same arguments always give the same proof. ValueError if ``secret`` is not a private key of 32 bytes.
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
    """Return whether ``proof`` is valid for ``message`` and the compressed public key ``pub_key``.

    The arguments may be any bytes, even of a wrong length. Each point and scalar has one encoding: points are
    compressed, and scalars are from 1 to the group's order - 1.
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
    """Return the value that a valid proof proves: the point Γ (33 bytes)."""
    return proof[:POINT_BYTES]


def is_point(encoded: bytes) -> bool:
    """Return whether ``encoded`` is a compressed point of the curve; every such point is a public key."""
    try:
        return len(encoded) == POINT_BYTES and PublicKey(encoded).format() == encoded
    except ValueError:
        return False


def hash_to_curve(message: bytes) -> PublicKey:
    """Return the point that belongs to a message. The point's y is even, and its x is a hash of the message.

    Each try hashes the message with a counter. The first hash that lies on the curve is x. The running time depends on
    the message, which is public.
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
    """Return a digest modulo the group's order, as 32 bytes; its bias is 2^-127."""
    return (int.from_bytes(digest, "big") % GROUP_ORDER).to_bytes(SCALAR_BYTES, "big")


def _difference(first: PublicKey, second: PublicKey) -> PublicKey:
    """Return ``first`` - ``second``; ValueError if that is the point at infinity."""
    encoded = second.format()
    negated = PublicKey(bytes([encoded[0] ^ 1]) + encoded[1:])
    return PublicKey.combine_keys([first, negated])
