"""The encryption of a round's final states, chunk by chunk from disk to disk, and the opening of a chunk for seats."""

from collections.abc import Iterable, Iterator

from domain.hashing import merkle_path
from domain.limits import STATE_HEADER_MAX
from domain.proof.records import SealedLeaf
from link.blobs import BlobStore
from link.handover import ciphertext_root, derive_chunk_scalar, seal_chunk
from link.types import BlobRef, ChunkOpening
from pol.rules.commitment import chunk_leaf
from pol.rules.handover import ChunkLayout, HandoverId, sealed_leaf
from pol.state.layout import chunk_sizes, parse_header
from validator.decide.records import LocalRound, SealedResult, accepted_works


def seal_into(
    blobs: BlobStore,
    handover: HandoverId,
    chunks: Iterable[bytes],
    order_key: bytes,
    secret: bytes,
) -> SealedResult:
    """Encrypt chunks with an order's public key and store the ciphertext; ClusterError if there is no space for it."""
    leaves: list[SealedLeaf] = []
    state_leaves: list[bytes] = []

    def ciphertexts() -> Iterator[bytes]:
        for index, chunk in enumerate(chunks):
            sealed = seal_chunk(handover, index, chunk, order_key, secret)
            leaves.append(sealed.leaf)
            state_leaves.append(chunk_leaf(chunk))
            yield sealed.ciphertext

    blob = blobs.gather(ciphertexts())
    return SealedResult(
        ciphertext_root=ciphertext_root(handover, leaves),
        blob=blob,
        leaves=tuple(leaves),
        state_leaves=tuple(state_leaves),
    )


def states_of(current: LocalRound) -> list[BlobRef]:
    """Return the states that a round leaves: the global one, then the local ones in slot order."""
    packets = (work.packet for work in accepted_works(current))
    local_states = (packet.local_out for packet in packets if packet is not None)
    first = current.next_global.blob if current.next_global is not None else None
    return [blob for blob in (first, *local_states) if blob is not None]


def open_for_seat(
    blobs: BlobStore, handover: HandoverId, current: LocalRound, layout: ChunkLayout, number: int, secret: bytes
) -> ChunkOpening | None:
    """Return the opening of encrypted chunk ``number`` for a seat; None if the round has no such chunk."""
    place = layout.locate(number)
    states = states_of(current)
    if place is None or current.sealed is None or len(states) != 1 + layout.slots:
        return None
    state = states[place.state]
    header, specs = parse_header(blobs.read(state.sha256, 0, STATE_HEADER_MAX))
    lengths = (header, *chunk_sizes(specs))
    chunk = blobs.read(state.sha256, sum(lengths[: place.index]), lengths[place.index])
    first = layout.first_chunk(place.state)
    leaves = [sealed_leaf(handover, at, leaf) for at, leaf in enumerate(current.sealed.leaves)]
    return ChunkOpening(
        leaf=current.sealed.leaves[number],
        path=tuple(merkle_path(leaves, number)),
        scalar=derive_chunk_scalar(handover, number, chunk, secret),
        data=chunk,
        state_path=tuple(merkle_path(current.sealed.state_leaves[first : first + place.count], place.index)),
    )
