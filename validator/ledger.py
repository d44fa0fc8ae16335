"""The one place where records change: under a lock, and only while the blobs that they name are held."""

import logging
from collections.abc import Callable, Iterable
from threading import Event, RLock

from domain.proof.queries import OrderResponse
from link.blobs import BlobStore
from link.errors import ClusterError, ClusterErrorKind
from link.types import BlobRef, StateRef
from validator.decide.duties import Duty, Record, Upkeep
from validator.decide.journal import tell
from validator.decide.openings import openings_taken, states_of, wanting
from validator.decide.records import (
    LegKey,
    LocalOrder,
    LocalSeat,
    LocalUpkeep,
    SeatKey,
    SlotLocal,
    new_order,
)
from validator.store import ValidatorStore

_log = logging.getLogger("assay.validator")


class Ledger:
    """Records and their blobs, shared by the loop, its workers and the service; ``changed`` is set at each change."""

    def __init__(self, store: ValidatorStore, blobs: BlobStore, changed: Event) -> None:
        """Work on a store and the blobs beside it."""
        self.store, self.blobs = store, blobs
        self.lock = RLock()
        self._changed = changed

    def load(self, order_id: bytes, leg: int) -> LocalOrder | None:
        """Return the record of a leg."""
        return self.store.load(order_id, leg)

    def begin(self, order_id: bytes, leg: int) -> None:
        """Make the record of a leg, unless there is one."""
        with self.lock:
            if self.store.load(order_id, leg) is None:
                self.store.save(new_order(order_id, leg))

    def change(
        self,
        order_id: bytes,
        leg: int,
        change: Callable[[LocalOrder], LocalOrder],
        needs: Iterable[BlobRef] = (),
        sender: str = "",
    ) -> LocalOrder | None:
        """Apply ``change`` to the record as it is now; None if there is none.

        ``needs`` are blobs that the new record names and that must be here, sent by ``sender`` (""; by anybody): they
        are held before it is written, so that no crash and no clean-up in between can lose them. ClusterError
        WRONG_STATE where one is missing.
        """
        with self.lock:
            now = self.store.load(order_id, leg)
            if now is None or (after := change(now)) == now:
                return now
            self.hold(after, needs, sender)
            self.put(after.key, now, after)
        self._changed.set()
        return after

    def hold(self, local: LocalOrder, needs: Iterable[BlobRef], sender: str = "") -> None:
        """Hold blobs that are here for a leg; they stay until the record does not need them any more."""
        for blob in needs:
            # What is held is no longer counted as unclaimed, so nobody gets a hold by naming what is not here.
            if self.blobs.sent(blob, sender):
                self.blobs.hold(blob.sha256, str(local.key))
            if not self.blobs.sent(blob, sender):
                raise ClusterError(
                    ClusterErrorKind.WRONG_STATE,
                    "its blobs are not here",
                    "put them first",
                    field="sha256",
                )

    def hold_payload(self, local: LocalOrder) -> None:
        """Hold the files of a payload, here or still to come, and nothing that an earlier offer named."""
        digests = {file.blob.sha256 for file in local.payload.files}
        for digest in digests:
            self.blobs.hold(digest, str(local.key))
        self.blobs.keep_only(str(local.key), digests)

    def held_openings(self, orders: Iterable[OrderResponse], me: str) -> dict[bytes, StateRef]:
        """Return the states here of other legs, by root, that matched legs of ``me`` start from."""
        held: dict[bytes, StateRef] = {}
        for leg, roots in wanting(orders, me):
            for number in range(1, leg.number):
                local = self.load(leg.order_id, number)
                for state in states_of(local) if local else ():
                    if state.root in roots and self.blobs.status(state.blob).complete:
                        held[state.root] = state
        return held

    def take_openings(self, leg: LegKey, opening: StateRef | None, slots: tuple[SlotLocal, ...]) -> None:
        """Hold states of another leg for this one; without them it is declined at the next look."""
        needs = [item.state.blob for item in slots]
        if opening is not None:
            needs.append(opening.blob)
        try:
            self.change(leg.order_id, leg.leg, lambda now: openings_taken(now, opening, slots), needs)
        except ClusterError as error:
            _log.warning("%s: the states that it starts from are gone: %s", leg, error)

    def tidy(self, leg: LegKey, needed: frozenset[bytes]) -> None:
        """Release the blobs that a leg does not need any more."""
        self.blobs.keep_only(str(leg), needed)

    def forget(self, leg: LegKey) -> None:
        """Forget a leg and all its blobs."""
        with self.lock:
            self.blobs.release(str(leg))
            self.store.forget(leg.order_id, leg.leg)

    # Seats in panels of others

    def change_seat(self, key: SeatKey, change: Callable[[LocalSeat], LocalSeat]) -> None:
        """Apply ``change`` to the record of a seat as it is now, if it is still there."""
        with self.lock:
            now = self.store.seat(key)
            if now is None or (after := change(now)) == now:
                return
            self.put(key, now, after)
        self._changed.set()

    def hold_for(self, key: SeatKey, blobs: Iterable[BlobRef]) -> None:
        """Hold blobs, here or still to come, for a seat; ClusterError WRONG_STATE where it is over."""
        with self.lock:
            if self.store.seat(key) is None:
                raise ClusterError(ClusterErrorKind.WRONG_STATE, "the seat is over")
            for blob in blobs:
                self.blobs.hold(blob.sha256, str(key))

    def end_seat(self, key: SeatKey) -> None:
        """Forget a seat and all that was fetched for it."""
        with self.lock:
            self.blobs.release(str(key))
            self.store.forget_seat(key)

    # Any duty

    @property
    def standing(self) -> LocalUpkeep:
        """What there is to see to whatever the orders are, as far as it is known."""
        known = self.store.get(Upkeep())
        return known if isinstance(known, LocalUpkeep) else LocalUpkeep()

    def get(self, duty: Duty) -> Record | None:
        """Return the record of a duty."""
        return self.store.get(duty)

    def put(self, duty: Duty, before: Record | None, after: Record) -> None:
        """Write a record and tell the operator what is new; the caller holds ``lock`` since it read ``before``."""
        self.store.put(duty, after)
        for line in tell(before, after):
            _log.info(line)
