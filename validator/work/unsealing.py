"""The decryption of a delivery, from blob to blobs."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from domain.keys import ShareKey
from domain.market.records import JobTerms
from domain.proof.reasons import ShareReason
from link.blobs import BlobStore
from link.delivery import DeliveryReader, WrongPiece, show_piece
from link.types import BlobRef, ShareDelivery, TraceBoundary
from pol.rules.commitment import chunk_leaf
from pol.rules.delivery import delivery_layout
from validator.decide.records import Opening, SlotWork, WrongPieces
from validator.work.numerics import JobHeaders


@dataclass(frozen=True, slots=True)
class OpenedDelivery:
    """The content of a delivery whose pieces all have their hashes.

    ``reason`` is a mismatch if a state does not begin with the header of the job's states. The commitment is then
    wrong, because it binds the header.
    """

    packet: ShareDelivery
    openings: tuple[Opening, ...]
    reason: ShareReason


def unseal(
    blobs: BlobStore, share: ShareKey, terms: JobTerms, work: SlotWork, headers: JobHeaders
) -> OpenedDelivery | WrongPieces:
    """Decrypt the delivery of a share, whose key and roots are in the record; return its content, or a wrong piece."""
    offer, roots = work.offer, work.roots
    if offer is None or roots is None:
        raise AssertionError("a delivery is decrypted after its key was shown")
    layout = delivery_layout(terms, offer.manifest)
    with blobs.open(offer.ciphertext.sha256) as file:
        reader = DeliveryReader(layout, work.secret, roots, file)
        try:
            entries = reader.entries()
            states = _States(blobs, reader)
            ends = [states.read(header) for header in (headers.update, headers.local_state)] if roots.is_whole else []
            openings = [
                Opening(index, states.read(headers.global_state), states.read(headers.local_state), verified=True)
                for index in layout.boundaries
            ]
        except WrongPiece as wrong:
            piece = layout.locate(wrong.number)
            file.seek(0)
            shown = show_piece(share, file, wrong.number)
            if piece is None or piece.parent < 0:
                return WrongPieces(shown, None)
            file.seek(0)
            return WrongPieces(shown, show_piece(share, file, piece.parent))
    update, local_out = ends or (None, None)
    packet = ShareDelivery(
        key=share,
        roots=roots,
        boundaries=tuple(TraceBoundary(entry.step, entry.boundary_root, entry.metrics) for entry in entries),
        update=update,
        local_out=local_out,
    )
    return OpenedDelivery(packet, tuple(openings), states.reason)


@dataclass
class _States:
    """The states of a delivery, which are read one after the other."""

    blobs: BlobStore
    reader: DeliveryReader
    reason: ShareReason = ShareReason.NONE

    def read(self, header: bytes) -> BlobRef:
        """Store the next state and return its blob."""
        if self.reader.header_leaf() != chunk_leaf(header):
            self.reason = ShareReason.UPDATE_MISMATCH
        return self.blobs.gather(self._pieces(header))

    def _pieces(self, header: bytes) -> Iterator[bytes]:
        return chain((header,), self.reader.chunks())
