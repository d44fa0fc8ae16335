"""The encryption of a round's final states: chunk by chunk from disk to disk, so that states of any size fit."""

from collections.abc import Iterable, Iterator
from hashlib import sha256

from domain.hashing import merkle_root
from link.blobs import BlobStore
from link.handover import HandoverId, seal_result, sealed_leaf
from validator.decide.records import SealedResult


def seal_into(
    blobs: BlobStore,
    handover: HandoverId,
    chunks: Iterable[bytes],
    order_key: bytes,
    secret: bytes,
) -> SealedResult:
    """Encrypt chunks with an order's public key and store the ciphertext; ClusterError if there is no space for it."""
    points, lengths, hashes, leaves = [], [], [], []

    def ciphertexts() -> Iterator[bytes]:
        for index, sealed in enumerate(seal_result(handover, chunks, order_key, secret)):
            points.append(sealed.point)
            lengths.append(len(sealed.ciphertext))
            hashes.append(sha256(sealed.ciphertext).digest())
            leaves.append(sealed_leaf(handover, index, sealed))
            yield sealed.ciphertext

    blob = blobs.gather(ciphertexts())
    return SealedResult(
        ciphertext_root=merkle_root(leaves),
        blob=blob,
        points=tuple(points),
        lengths=tuple(lengths),
        hashes=tuple(hashes),
    )
