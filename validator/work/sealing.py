"""The encryption of a round's final states: chunk by chunk from disk to disk, so that states of any size fit."""

from collections.abc import Iterable, Iterator

from domain.proof.records import SealedLeaf
from link.blobs import BlobStore
from link.handover import ciphertext_root, seal_chunk
from pol.rules.commitment import chunk_leaf
from pol.rules.handover import HandoverId
from validator.decide.records import SealedResult


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
