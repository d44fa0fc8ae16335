"""Hand-over of a result: chunks encrypted one by one to the consumer's per-order key (protocol section 6).

A hand-over round leaves a global state and the local state of each slot; their canonical chunks, one state after the
other, are numbered i. Each has its own point R_i = r_i·G. Both sides know S_i = r_i·P_o = p_o·R_i (ElGamal key
agreement on secp256k1), and the chunk's key is k_i = SHA-256 over (tag, chain, order, leg, round, i, S_i
compressed). The cipher is libsodium's ChaCha20-Poly1305 (RFC 8439) with a zero nonce: each key is used once, because
r_i is made from the place and the chunk's own hash, so that a restart repeats it and another content never does.
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
    """A chunk that is not what its root or key promises; ``chunk`` is its index (-1: the whole result).

    Example::

        try:
            result = order.result()
        except assay.HandoverError as error:
            print("chunk", error.chunk, error.reason)
    """

    def __init__(self, chunk: int, reason: str) -> None:
        """Keep the index and the reason."""
        super().__init__(reason, field=f"result chunk {chunk}" if chunk >= 0 else "result")
        self.chunk = chunk


@dataclass(frozen=True, slots=True)
class HandoverId:
    """What binds a result's keys and leaves: one round of one leg of one order on one chain."""

    chain_id: str
    order_id: bytes
    leg: int
    round: int

    def fields(self, index: int) -> tuple[bytes | str, ...]:
        """Return the fields that bind chunk ``index``."""
        return (self.chain_id, *self.place(index))

    def place(self, index: int) -> tuple[bytes, ...]:
        """Return the fields that bind chunk ``index`` on one chain."""
        return (self.order_id, u32(self.leg), u32(self.round), u32(index))


@dataclass(frozen=True, slots=True)
class Sealed:
    """One encrypted chunk: its point R_i (33 bytes, compressed) and the ciphertext with its tag."""

    point: bytes
    ciphertext: bytes


def derive_scalar(secret: bytes, tag: str, *fields: bytes | str) -> bytes:
    """Return a secret scalar in 1..n-1 (32 bytes) by HMAC-SHA-256, so that a restart repeats it."""
    message = encode_fields(tag, *fields)
    for counter in range(256):  # a draw is outside the group's order once in 2^127
        digest = hmac.new(secret, message + u32(counter), sha256).digest()
        if 0 < int.from_bytes(digest, "big") < _GROUP_ORDER:
            return digest
    raise AssertionError("256 draws outside the group order")


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
    """Encrypt chunk ``index`` to the per-order key ``order_key`` (P_o, compressed)."""
    place = (*handover.fields(index), sha256(chunk).digest())
    scalar = derive_scalar(validator_secret, "assay/result/point", *place)
    key = _chunk_key(handover, index, _shared(scalar, order_key))
    ciphertext = crypto_aead_chacha20poly1305_ietf_encrypt(chunk, b"", _NONCE, key)
    return Sealed(public_point(scalar), ciphertext)


def open_chunk(handover: HandoverId, index: int, sealed: Sealed, secret: bytes) -> bytes:
    """Decrypt chunk ``index`` with the per-order secret; HandoverError if it was not sealed for it."""
    try:
        shared = _shared(secret, sealed.point)
        key = _chunk_key(handover, index, shared)
        return crypto_aead_chacha20poly1305_ietf_decrypt(sealed.ciphertext, b"", _NONCE, key)
    except (CryptoError, ValueError) as error:
        raise HandoverError(index, "it does not decrypt with this order's key") from error


def sealed_leaf(handover: HandoverId, index: int, sealed: Sealed) -> bytes:
    """Return the Merkle leaf of an encrypted chunk."""
    return merkle_leaf(
        "assay/result/chunk",
        *handover.place(index),
        sealed.point,
        u32(len(sealed.ciphertext)),
        sealed.ciphertext,
    )


def ciphertext_root(handover: HandoverId, sealed: Iterable[Sealed]) -> bytes:
    """Return the RFC 6962 root over all encrypted chunks, of which each is held only while it is hashed."""
    return merkle_root([sealed_leaf(handover, i, chunk) for i, chunk in enumerate(sealed)])


def seal_result(
    handover: HandoverId, chunks: Iterable[bytes], order_key: bytes, validator_secret: bytes
) -> Iterator[Sealed]:
    """Encrypt the chunks of a result in order, each when it is asked for."""
    return (seal_chunk(handover, i, chunk, order_key, validator_secret) for i, chunk in enumerate(chunks))


def split_ciphertext(file: BinaryIO, parts: Sequence[tuple[bytes, int]], chunk_size_max: int) -> Iterator[Sealed]:
    """Read concatenated ciphertexts by (point, length), one after another; HandoverError where they do not fit."""
    for index, (point, length) in enumerate(parts):
        if len(point) != POINT_SIZE:
            raise HandoverError(index, f"its point has {len(point)} bytes instead of {POINT_SIZE}")
        if not TAG_SIZE <= length <= chunk_size_max + TAG_SIZE:
            raise HandoverError(index, f"its length {length} is out of bounds")
        ciphertext = file.read(length)
        if len(ciphertext) != length:
            raise HandoverError(index, "the ciphertext ends inside it")
        yield Sealed(point, ciphertext)
    if file.read(1):
        raise HandoverError(-1, "more bytes follow the last chunk")
