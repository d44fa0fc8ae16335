"""The function that carries out a mirror's action: fetch the data of a drawn place from the winner."""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from link.blobs import BlobStore
from link.client import ClusterClient
from link.errors import ClusterError, ClusterErrorKind
from link.types import GET_OPENING, BlobRef, OpeningRequest
from validator.decide import actions as do
from validator.decide.mirrors import find_mirror_fault, mirrored_opening
from validator.decide.seats import blob_awaited
from validator.ledger import Ledger
from validator.work.perform import Table

_log = logging.getLogger("assay.validator.mirrors")
RETRY_SECONDS = 1.0
TURN_SECONDS = 60.0
"""Longest time (seconds) that a mirror takes for a place before other places have their turn."""


@dataclass(frozen=True, slots=True)
class MirrorKeeper:
    """The records, blobs and connections that a mirror needs. ``connect`` returns a client of a validator."""

    ledger: Ledger
    blobs: BlobStore
    connect: Callable[[str], ClusterClient]
    now: Callable[[], float] = time.monotonic  # seconds

    def table(self) -> Table:
        """Return the function that carries out the action of a mirror, by the action's class."""
        return {do.MirrorPlace: self.mirror}

    def mirror(self, action: do.MirrorPlace) -> float | None:
        """Fetch the opening of a place, check it, and fetch its files and blobs by their hashes.

        Return the pause (seconds) before the next try if something is missing. What has arrived is not fetched again.
        """
        try:
            return self._fetch(action)
        except ClusterError as error:
            _log.debug("%s: %s; trying again", action.key, error)
            return RETRY_SECONDS

    def _fetch(self, action: do.MirrorPlace) -> float | None:
        ends = self.now() + TURN_SECONDS
        key, subject = action.seat, action.subject
        seat = self.ledger.store.seat(key)
        if seat is None:
            return None
        client = self.connect(subject.validator)
        if not seat.places[action.index].accepted:
            request = OpeningRequest(
                order_id=key.order_id,
                leg=key.leg,
                round=key.round,
                dispute=key.dispute,
                place_index=action.number,
            )
            opening = client.call(GET_OPENING, request)
            if not opening.ready:
                return max(RETRY_SECONDS, opening.retry_after_ms / 1e3)
            why = find_mirror_fault(action.place, opening, subject.terms, subject, seat)
            self.ledger.change_seat(key, lambda now: mirrored_opening(now, action.index, opening, why))
            seat = self.ledger.store.seat(key)
        place = seat.places[action.index] if seat is not None else None
        if seat is None or place is None or place.opening is None or not place.accepted:
            return None
        blobs = [file.blob for file in seat.files]
        for state in place.opening.states:
            blobs += [state.global_state, state.local_state]
        blobs += [item.update.blob for item in place.opening.updates]
        self._take(action, client, blobs, ends)
        self.ledger.change_seat(key, partial(blob_awaited, index=action.index, blob=b""))
        return None

    def _take(self, action: do.MirrorPlace, client: ClusterClient, blobs: Iterable[BlobRef], ends: float) -> None:
        """Fetch blobs by their hashes; ClusterError if the winner does not send one of them before ``ends``."""

        def go_on(_done: int, _size: int) -> None:
            # This raises once the record is deleted, because the panel is over.
            self.ledger.hold_for(action.seat, ())
            if self.now() >= ends:
                raise ClusterError(ClusterErrorKind.TIMED_OUT, "the turn of this place is over", "try again")

        for blob in blobs:
            self.ledger.hold_for(action.seat, (blob,))
            client.fetch(blob, self.blobs, go_on)
