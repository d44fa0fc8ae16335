"""The hand-over of a round's states: the places of chunks, their leaves and keys, and the proof that a chunk is wrong.

A hand-over round leaves a global state and the local state of each slot. The canonical chunks of all these states, one
state after another, have the numbers i = 0, 1, and so on. The validator chooses a scalar r_i and encrypts chunk i to
the order's key P_o = p_o·G. Both sides know S_i = r_i·P_o = p_o·R_i, with the chunk's point R_i = r_i·G.

The leaf of chunk i is the RFC 6962 leaf over (tag, order, leg, round, i, R_i, length, SHA-256 of the ciphertext). It
commits to the key: R_i and P_o have only one S_i, and the key is a hash of S_i and the chunk's place. Some ciphertexts
of ChaCha20-Poly1305 can be opened with two keys. Here only one key is possible, so the content is certain. The hash of
the ciphertext stands for its bytes, so that a leaf can be shown without them, and leaves can be checked before any
chunk arrives.
"""

from dataclasses import dataclass

from domain.hashing import hash_fields, merkle_leaf, u32
from domain.limits import CHUNK_TAG_BYTES, STATE_CHUNK_BYTES, STATE_HEADER_MAX
from domain.market.records import JobTerms
from domain.proof.records import SealedLeaf


@dataclass(frozen=True, slots=True)
class HandoverId:
    """The identity of a hand-over: chain, order, leg and round. The keys and leaves of a result depend on it."""

    chain_id: str
    order_id: bytes
    leg: int
    round: int

    def fields(self, index: int) -> tuple[bytes | str, ...]:
        """Return the fields on which the key of chunk ``index`` depends: the chain's id and the fields of the chunk's
        leaf.
        """
        return (self.chain_id, *self.chunk_fields(index))

    def chunk_fields(self, index: int) -> tuple[bytes, ...]:
        """Return the fields that the leaf of chunk ``index`` depends on, without the chain's id."""
        return (self.order_id, u32(self.leg), u32(self.round), u32(index))


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """The place of a chunk: chunk ``index`` of ``count`` of one state.

    State 0 is the global one, and state 1 + k the local one of the round's k-th slot.
    """

    state: int
    index: int
    count: int

    @property
    def is_header(self) -> bool:
        """True for the first chunk of a state. Anyone who has the job can compute this chunk."""
        return self.index == 0

    @property
    def largest(self) -> int:
        """Most bytes of the chunk's ciphertext."""
        return (STATE_HEADER_MAX if self.is_header else STATE_CHUNK_BYTES) + CHUNK_TAG_BYTES


@dataclass(frozen=True, slots=True)
class ChunkLayout:
    """The numbers of chunks of the states that a round hands over: the global state, and the local state of each
    slot.
    """

    global_chunks: int
    local_chunks: int
    slots: int

    @property
    def count(self) -> int:
        """Number of all chunks."""
        return self.first_chunk(1 + self.slots)

    def first_chunk(self, state: int) -> int:
        """Return the number of the first chunk of a state.

        For the number after the last state, return the number of all chunks.
        """
        return 0 if state == 0 else self.global_chunks + (state - 1) * self.local_chunks

    def locate(self, number: int) -> ChunkPlace | None:
        """Return the place of chunk ``number``, or None if there is no such chunk."""
        if not 0 <= number < self.count:
            return None
        if number < self.global_chunks:
            return ChunkPlace(0, number, self.global_chunks)
        slot, index = divmod(number - self.global_chunks, self.local_chunks)
        return ChunkPlace(1 + slot, index, self.local_chunks)


def chunk_layout(terms: JobTerms, slots: int) -> ChunkLayout:
    """Return how many chunks each state has that a round with ``slots`` slots hands over."""
    return ChunkLayout(terms.global_chunks, terms.local_chunks, slots)


def has_valid_length(place: ChunkPlace, length: int) -> bool:
    """Return whether a ciphertext of ``length`` bytes can hold the chunk at this place. Such a ciphertext is longer
    than its tag, because no chunk is empty, and has at most ``place.largest`` bytes.
    """
    return CHUNK_TAG_BYTES < length <= place.largest


def sealed_leaf(handover: HandoverId, number: int, leaf: SealedLeaf) -> bytes:
    """Return the hash of chunk ``number``'s leaf in the tree of the encrypted chunks (32 bytes)."""
    fields = (*handover.chunk_fields(number), leaf.point, u32(leaf.length), leaf.sha256)
    return merkle_leaf("assay/result/chunk", *fields)


def chunk_key(handover: HandoverId, number: int, shared: bytes) -> bytes:
    """Return the key of chunk ``number`` (32 bytes); ``shared`` is S_i, compressed."""
    return hash_fields("assay/result/key", *handover.fields(number), shared)


def chunk_statement(handover: HandoverId, number: int, leaf: bytes) -> bytes:
    """Return the message of the proof that opens chunk ``number`` with this leaf hash (32 bytes).

    The message binds the proof to chain, order, leg, round and chunk, so that no other complaint can repeat the proof.
    """
    return hash_fields("assay/result/complaint", *handover.fields(number), leaf)
