"""A proof that two points have the same discrete logarithm, in the form of BIP-374.

For A = a·G and C = a·B, the proof (e, s) shows that log_G A = log_B C, but does not reveal a. The nonce comes from a,
fresh random bytes, A, C and the message, so that neither a bad random generator nor a repeated message reveals a. G is
the generator of secp256k1 everywhere in Assay; the published vectors also use other generators.

The code uses coincurve's public functions only. The running time of ``prove`` depends on the secret. This is safe,
because a consumer makes proofs only on its own machine, and only for a complaint.
"""

from collections.abc import Iterable
from hashlib import sha256

from coincurve import PrivateKey, PublicKey

from wire.vrf import GROUP_ORDER, POINT_BYTES, SCALAR_BYTES

PROOF_BYTES = 2 * SCALAR_BYTES
GENERATOR = PrivateKey((1).to_bytes(SCALAR_BYTES, "big")).public_key.format()


def prove(secret: bytes, point: bytes, message: bytes, randomness: bytes, generator: bytes = GENERATOR) -> bytes:
    """Return the proof (e, s) that secret·``generator`` and secret·``point`` have the same secret (64 bytes).

    ``randomness`` is 32 fresh random bytes. ValueError if ``secret`` is not a scalar from 1 to the group's order - 1,
    or if ``point`` is not a compressed point.
    """
    base, other = _point(generator), _point(point)
    public, shared = (each.multiply(secret).format() for each in (base, other))
    masked = _xor(secret, _tagged_hash("BIP0374/aux", randomness))
    nonce = int.from_bytes(_tagged_hash("BIP0374/nonce", masked + public + shared + message), "big") % GROUP_ORDER
    first, second = (each.multiply(_scalar(nonce)).format() for each in (base, other))
    e = _challenge(public, point, shared, generator, first, second, message)
    s = (nonce + int.from_bytes(e, "big") * int.from_bytes(secret, "big")) % GROUP_ORDER
    proof = e + _scalar(s)
    if not verify(public, point, shared, proof, message, generator):
        raise ValueError("the proof that was just made is not valid")
    return proof


def verify(
    public: bytes,
    point: bytes,
    shared: bytes,
    proof: bytes,
    message: bytes,
    generator: bytes = GENERATOR,
) -> bool:
    """Return whether ``proof`` shows that ``shared`` is ``point`` times the secret of ``public``.

    Any bytes are safe as arguments. Each value has only one accepted encoding: points are compressed and not at
    infinity, and ``s`` is from 0 to the group's order - 1.
    """
    if len(proof) != PROOF_BYTES:
        return False
    e, s = proof[:SCALAR_BYTES], int.from_bytes(proof[SCALAR_BYTES:], "big")
    if s >= GROUP_ORDER:
        return False
    minus_e = -int.from_bytes(e, "big") % GROUP_ORDER
    try:  # coincurve refuses bytes that are not a point, and never returns the point at infinity
        base, key, other, product = (_point(each) for each in (generator, public, point, shared))
        first = _sum(((s, base), (minus_e, key)))
        second = _sum(((s, other), (minus_e, product)))
    except ValueError:
        return False
    return e == _challenge(public, point, shared, generator, first, second, message)


def _point(encoded: bytes) -> PublicKey:
    """Return the point of a compressed encoding; ValueError for all other bytes."""
    if len(encoded) != POINT_BYTES:
        raise ValueError("a point has 33 bytes")
    return PublicKey(encoded)


def _sum(terms: Iterable[tuple[int, PublicKey]]) -> bytes:
    """Return the sum of scalar·point, compressed; ValueError if it is the point at infinity."""
    products = [point.multiply(_scalar(scalar)) for scalar, point in terms if scalar]
    if not products:  # libsecp256k1 would abort the process
        raise ValueError("the sum of no points is the point at infinity")
    return PublicKey.combine_keys(products).format()


def _challenge(
    public: bytes, point: bytes, shared: bytes, generator: bytes, first: bytes, second: bytes, message: bytes
) -> bytes:
    return _tagged_hash("BIP0374/challenge", public + point + shared + generator + first + second + message)


def _tagged_hash(tag: str, data: bytes) -> bytes:
    """Return the tagged hash of BIP-340."""
    prefix = sha256(tag.encode()).digest()
    return sha256(prefix + prefix + data).digest()


def _scalar(value: int) -> bytes:
    return value.to_bytes(SCALAR_BYTES, "big")


def _xor(one: bytes, two: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, two, strict=True))
