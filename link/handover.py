"""Hand-over of a result: chunks encrypted one by one to the consumer's per-order key (protocol section 6).

A hand-over round leaves a global state and the local state of each slot. Their canonical chunks, one state after the
other, are numbered i. Chunk i has its own point R_i = r_i·G. Both sides know S_i = r_i·P_o = p_o·R_i (ElGamal key
agreement on secp256k1). The chunk's key is k_i = SHA-256 over (tag, chain, order, leg, round, i, S_i compressed). The
cipher is libsodium's ChaCha20-Poly1305 (RFC 8439) with a zero nonce, which is safe because each key is used once:
r_i is derived from the chunk's number and hash, so only the same chunk gets the same r_i again, after a restart.
The ciphertext root is the RFC 6962 root over the leaves (tag, order, leg, round, i, R_i, length, ciphertext).
"""

import hmac
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import BinaryIO

from coincurve import PrivateKey, PublicKey
from nacl.bindings import (
    crypto_aead_chacha20poly1305_ietf_ABYTES as TAG_SIZE,
)
from nacl.bindings import (
    crypto_aead_chacha20poly1305_ietf_decrypt,
    crypto_aead_chacha20poly1305_ietf_encrypt,
)
from nacl.exceptions import CryptoError

from domain.errors import Expected
from domain.hashing import encode_fields, hash_fields, merkle_leaf, merkle_root, u32, u64

POINT_SIZE = 33
_NONCE = bytes(12)
_GROUP_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


class HandoverError(Expected):
    """A chunk that does not match its root or key; ``chunk`` is its index (-1: the whole result).

    Example::

        try:
            result = order.result()
        except assay.HandoverError as error:
            print("chunk", error.chunk, error.reason)
    """

    def __init__(self, chunk: int, reason: str) -> None:
        """Keep the index with the reason."""
        super().__init__(reason, field=f"result chunk {chunk}" if chunk >= 0 else "result")
        self.chunk = chunk


@dataclass(frozen=True, slots=True)
class HandoverId:
    """The identity of a hand-over: chain, order, leg and round. The keys and leaves of a result depend on it."""

    chain_id: str
    order_id: bytes
    leg: int
    round: int

    def fields(self, index: int) -> tuple[bytes | str, ...]:
        """Return the fields that the key of chunk ``index`` depends on: the chain's id and the fields of its leaf."""
        return (self.chain_id, *self.chunk_fields(index))

    def chunk_fields(self, index: int) -> tuple[bytes, ...]:
        """Return the fields that the leaf of chunk ``index`` depends on, without the chain's id."""
        return (self.order_id, u32(self.leg), u32(self.round), u32(index))


@dataclass(frozen=True, slots=True)
class Sealed:
    """One encrypted chunk: its point R_i (33 bytes, compressed) and the ciphertext with its tag."""

    point: bytes
    ciphertext: bytes


def derive_scalar(secret: bytes, tag: str, *fields: bytes | str) -> bytes:
    """Return a scalar in 1..n-1 (32 bytes), derived from ``secret``, ``tag`` and ``fields`` by HMAC-SHA-256.

    The same arguments give the same scalar, even after a restart.
    """
    message = encode_fields(tag, *fields)
    for counter in range(256):  # a digest is outside the group's order once in 2^127
        digest = hmac.new(secret, message + u32(counter), sha256).digest()
        if 0 < int.from_bytes(digest, "big") < _GROUP_ORDER:
            return digest
    raise AssertionError("256 digests are outside the group's order")


def order_secret(account_secret: bytes, chain_id: str, job_id: bytes, sequence: int) -> bytes:
    """Return the per-order secret p_o, recoverable from the account key, the job id and the sequence."""
    return derive_scalar(account_secret, "assay/order-key", chain_id, job_id, u64(sequence))


def public_point(secret: bytes) -> bytes:
    """Return secret·G, compressed (33 bytes)."""
    return PrivateKey(secret).public_key.format(compressed=True)


def _shared(secret: bytes, point: bytes) -> bytes:
    return PublicKey(point).multiply(secret).format(compressed=True)


def _chunk_key(handover: HandoverId, index: int, shared: bytes) -> bytes:
    return hash_fields("assay/result/key", *handover.fields(index), shared)


def seal_chunk(handover: HandoverId, index: int, chunk: bytes, order_key: bytes, validator_secret: bytes) -> Sealed:
    """Return chunk ``index``, encrypted to the per-order key ``order_key`` (P_o, compressed)."""
    fields = (*handover.fields(index), sha256(chunk).digest())
    scalar = derive_scalar(validator_secret, "assay/result/point", *fields)
    key = _chunk_key(handover, index, _shared(scalar, order_key))
    ciphertext = crypto_aead_chacha20poly1305_ietf_encrypt(chunk, b"", _NONCE, key)
    return Sealed(public_point(scalar), ciphertext)


def open_chunk(handover: HandoverId, index: int, sealed: Sealed, secret: bytes) -> bytes:
    """Return chunk ``index``, decrypted with the per-order secret; HandoverError if it was not sealed for this key."""
    try:
        shared = _shared(secret, sealed.point)
        key = _chunk_key(handover, index, shared)
        return crypto_aead_chacha20poly1305_ietf_decrypt(sealed.ciphertext, b"", _NONCE, key)
    except (CryptoError, ValueError) as error:
        raise HandoverError(index, "does not decrypt with this order's key") from error


def sealed_leaf(handover: HandoverId, index: int, sealed: Sealed) -> bytes:
    """Return the Merkle leaf of an encrypted chunk."""
    return merkle_leaf(
        "assay/result/chunk",
        *handover.chunk_fields(index),
        sealed.point,
        u32(len(sealed.ciphertext)),
        sealed.ciphertext,
    )


def ciphertext_root(handover: HandoverId, sealed: Iterable[Sealed]) -> bytes:
    """Return the RFC 6962 root over all encrypted chunks; only one chunk at a time is in memory."""
    return merkle_root([sealed_leaf(handover, i, chunk) for i, chunk in enumerate(sealed)])


def seal_result(
    handover: HandoverId, chunks: Iterable[bytes], order_key: bytes, validator_secret: bytes
) -> Iterator[Sealed]:
    """Yield the encrypted chunks of a result in order; each is encrypted when it is asked for."""
    return (seal_chunk(handover, i, chunk, order_key, validator_secret) for i, chunk in enumerate(chunks))


def split_ciphertext(file: BinaryIO, parts: Sequence[tuple[bytes, int]], chunk_size_max: int) -> Iterator[Sealed]:
    """Yield the encrypted chunks of a file that has their ciphertexts one after the other.

    ``parts`` has each chunk's point and length. HandoverError if they do not fit the file.
    """
    for index, (point, length) in enumerate(parts):
        if len(point) != POINT_SIZE:
            raise HandoverError(index, f"has a point of {len(point)} bytes instead of {POINT_SIZE}")
        if not TAG_SIZE <= length <= chunk_size_max + TAG_SIZE:
            raise HandoverError(index, f"has the length {length}, which is out of bounds")
        ciphertext = file.read(length)
        if len(ciphertext) != length:
            raise HandoverError(index, "is cut off by the end of the ciphertext")
        yield Sealed(point, ciphertext)
    if file.read(1):
        raise HandoverError(-1, "has more bytes after its last chunk")
