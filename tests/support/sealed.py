"""The encrypted chunks of a result that a validator hands over, for tests."""

from collections.abc import Sequence

from domain.proof.records import SealedLeaf
from link.handover import Sealed


def split(data: bytes, leaves: Sequence[SealedLeaf]) -> list[Sealed]:
    """Return the encrypted chunks whose bytes come one after the other."""
    chunks, at = [], 0
    for leaf in leaves:
        chunks.append(Sealed(leaf.point, data[at : at + leaf.length]))
        at += leaf.length
    assert at == len(data)
    return chunks
