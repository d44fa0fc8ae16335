"""Hand-over of a result: chunks encrypted one by one to the consumer's per-order key (:mod:`pol.rules.handover`).

Chunk i has its own scalar r_i, which the validator derives from its secret, the chunk's place and the chunk's hash. So
the same chunk gets the same r_i again, even after a restart, and any other chunk gets another r_i. Each key therefore
encrypts only one chunk.
"""

import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256

from coincurve import PrivateKey, PublicKey

from domain.errors import Expected
from domain.hashing import encode_fields, hash_fields, merkle_root, root_from_path, u32, u64, verify_path
from domain.proof.messages import MsgComplain
from domain.proof.records import SealedLeaf
from link.types import ChunkOpening
from pol.rules.commitment import chunk_leaf
from pol.rules.handover import (
    ChunkLayout,
    HandoverId,
    chunk_key,
    chunk_statement,
    has_valid_length,
    sealed_leaf,
)
from wire import cipher, dleq
from wire.vrf import GROUP_ORDER, is_point


class HandoverError(Expected):
    """A chunk that does not match its root or key; ``chunk`` is its index (-1: the whole result).

    ``complaint`` is the message that proves the validator's fault to the chain; None if no fault can be proven.

    Example::

        try:
            result = order.result()
        except assay.HandoverError as error:
            print("chunk", error.chunk, error.reason)
    """

    def __init__(self, chunk: int, reason: str, remedy: str = "", complaint: MsgComplain | None = None) -> None:
        """Keep the index and the complaint with the reason."""
        super().__init__(reason, remedy, field=f"result chunk {chunk}" if chunk >= 0 else "result")
        self.chunk = chunk
        self.complaint = complaint


@dataclass(frozen=True, slots=True)
class Sealed:
    """One encrypted chunk: its point R_i (33 bytes, compressed) and the ciphertext with its tag."""

    point: bytes
    ciphertext: bytes

    @property
    def leaf(self) -> SealedLeaf:
        """The chunk's leaf in the tree of the ciphertext."""
        return SealedLeaf(self.point, len(self.ciphertext), sha256(self.ciphertext).digest())


def derive_scalar(secret: bytes, tag: str, *fields: bytes | str) -> bytes:
    """Return a scalar in 1..n-1 (32 bytes), derived from ``secret``, ``tag`` and ``fields`` by HMAC-SHA-256.

    The same arguments give the same scalar, even after a restart.
    """
    message = encode_fields(tag, *fields)
    for counter in range(256):  # a digest is outside the group's order once in 2^127
        digest = hmac.new(secret, message + u32(counter), sha256).digest()
        if is_scalar(digest):
            return digest
    raise AssertionError("256 digests are outside the group's order")


def is_scalar(number: bytes) -> bool:
    """Return whether 32 bytes are a scalar from 1 to the group's order - 1."""
    return 0 < int.from_bytes(number, "big") < GROUP_ORDER


def order_secret(account_secret: bytes, chain_id: str, job_id: bytes, sequence: int) -> bytes:
    """Return the per-order secret p_o, recoverable from the account key, the job id and the sequence."""
    return derive_scalar(account_secret, "assay/order-key", chain_id, job_id, u64(sequence))


def public_point(secret: bytes) -> bytes:
    """Return secret·G, compressed (33 bytes)."""
    return PrivateKey(secret).public_key.format(compressed=True)


def _shared(secret: bytes, point: bytes) -> bytes:
    return PublicKey(point).multiply(secret).format(compressed=True)


def derive_chunk_scalar(handover: HandoverId, index: int, chunk: bytes, validator_secret: bytes) -> bytes:
    """Return r_i of a chunk (32 bytes). The validator shows r_i to the seats of a panel that rebuild the chunk's
    leaf.
    """
    fields = (*handover.fields(index), sha256(chunk).digest())
    return derive_scalar(validator_secret, "assay/result/point", *fields)


def seal_with_scalar(handover: HandoverId, index: int, chunk: bytes, order_key: bytes, scalar: bytes) -> Sealed:
    """Return chunk ``index``, encrypted with r_i = ``scalar`` to the per-order key ``order_key`` (P_o, compressed).

    ValueError if ``scalar`` is not from 1 to the group's order - 1.
    """
    key = chunk_key(handover, index, _shared(scalar, order_key))
    return Sealed(public_point(scalar), cipher.encrypt(key, chunk))


def rebuild_leaf(handover: HandoverId, index: int, chunk: bytes, order_key: bytes, scalar: bytes) -> bytes:
    """Return the leaf of chunk ``index`` in the tree of the ciphertext, encrypted with r_i = ``scalar``.

    ValueError if ``scalar`` is not from 1 to the group's order - 1.
    """
    return sealed_leaf(handover, index, seal_with_scalar(handover, index, chunk, order_key, scalar).leaf)


@dataclass(frozen=True, slots=True)
class SealedState:
    """The roots that the chain has for an encrypted chunk, and the key to which the chunk is encrypted.

    ``state_root`` is the root of the state that the chunk belongs to, and ``root`` is the round's ciphertext root.
    """

    handover: HandoverId
    layout: ChunkLayout
    state_root: bytes
    root: bytes
    order_key: bytes


def rebuild_root(asked: SealedState, index: int, opening: ChunkOpening) -> bytes:
    """Return the ciphertext root that the round would have if chunk ``index`` were encrypted correctly.

    If the validator did encrypt the chunk correctly, this is the round's own root. All openings that raise no
    HandoverError give the same root: the chain fixes the leaf and the chunk, and the leaf's point fixes the scalar. If
    the leaf cannot be that of any chunk, the result is a hash that is not the root of any tree. HandoverError if the
    opening does not belong to the round, so that nothing can be recomputed.
    """
    place = asked.layout.locate(index)
    if place is None:
        raise HandoverError(index, "is not a chunk of the round")
    leaf = sealed_leaf(asked.handover, index, opening.leaf)
    if not verify_path(leaf, index, asked.layout.count, opening.path, asked.root):
        raise HandoverError(index, "has a leaf that is not under the round's ciphertext root")
    if not is_point(opening.leaf.point) or not has_valid_length(place, opening.leaf.length):
        return hash_fields("assay/result/no-chunk", leaf)
    if not verify_path(chunk_leaf(opening.data), place.index, place.count, opening.state_path, asked.state_root):
        raise HandoverError(index, "differs from the chunk at this position of the state whose root is on chain")
    if not is_scalar(opening.scalar) or public_point(opening.scalar) != opening.leaf.point:
        raise HandoverError(index, "has a scalar that does not give its point")
    rebuilt = rebuild_leaf(asked.handover, index, opening.data, asked.order_key, opening.scalar)
    root = root_from_path(rebuilt, index, asked.layout.count, opening.path)
    if root is None:
        raise AssertionError("the leaf's path was valid in the first check, but has no root now")
    return root


def seal_chunk(handover: HandoverId, index: int, chunk: bytes, order_key: bytes, validator_secret: bytes) -> Sealed:
    """Return chunk ``index``, encrypted to the per-order key ``order_key`` (P_o, compressed)."""
    scalar = derive_chunk_scalar(handover, index, chunk, validator_secret)
    return seal_with_scalar(handover, index, chunk, order_key, scalar)


def open_chunk(handover: HandoverId, index: int, sealed: Sealed, secret: bytes) -> bytes:
    """Return chunk ``index``, decrypted with the per-order secret.

    HandoverError if the chunk was not encrypted to this order's key.
    """
    try:
        shared = _shared(secret, sealed.point)
    except ValueError:
        raise HandoverError(index, "has a point that is not on the curve") from None
    chunk = cipher.decrypt(chunk_key(handover, index, shared), sealed.ciphertext)
    if chunk is None:
        raise HandoverError(index, "does not decrypt with this order's key")
    return chunk


def prove_chunk(
    handover: HandoverId, index: int, leaf: SealedLeaf, secret: bytes, randomness: bytes
) -> tuple[bytes, bytes]:
    """Return S_i and the proof that opens chunk ``index`` to the chain; ``randomness`` is 32 fresh random bytes.

    ValueError if the leaf's point is not on the curve.
    """
    statement = chunk_statement(handover, index, sealed_leaf(handover, index, leaf))
    return _shared(secret, leaf.point), dleq.prove(secret, leaf.point, statement, randomness)


def ciphertext_root(handover: HandoverId, leaves: Iterable[SealedLeaf]) -> bytes:
    """Return the RFC 6962 root over the leaves of all encrypted chunks."""
    return merkle_root([sealed_leaf(handover, i, leaf) for i, leaf in enumerate(leaves)])


def seal_result(
    handover: HandoverId, chunks: Iterable[bytes], order_key: bytes, validator_secret: bytes
) -> Iterator[Sealed]:
    """Yield the encrypted chunks of a result in order; each is encrypted when it is asked for."""
    return (seal_chunk(handover, i, chunk, order_key, validator_secret) for i, chunk in enumerate(chunks))
