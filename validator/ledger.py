"""All changes to the records. Each change is made under a lock, and only while the blobs that the record names are
held.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from threading import Event, RLock

from domain.proof.queries import OrderResponse
from link.blobs import BlobStore
from link.errors import ClusterError, ClusterErrorKind
from link.types import BlobRef, DeliveryOffer, StateRef
from validator.decide.admission import Backing
from validator.decide.duties import Duty, Record, Upkeep
from validator.decide.initial import initial_states_taken, states_of, wanting
from validator.decide.journal import tell
from validator.decide.records import (
    AttestKey,
    LegKey,
    LocalAttest,
    LocalOrder,
    LocalSeat,
    LocalUpkeep,
    LocalWitness,
    PayloadStage,
    SeatKey,
    SlotLocal,
    WitnessKey,
    continued,
    new_order,
)
from validator.decide.retention import blobs_of
from validator.decide.witness import witnessed_offered
from validator.store import ValidatorStore

_log = logging.getLogger("assay.validator")


class Ledger:
    """The records and their blobs, shared by the loop, its threads and the service; a change sets ``changed``."""

    def __init__(self, store: ValidatorStore, blobs: BlobStore, changed: Event) -> None:
        """Use a store of records and the blobs that belong to it."""
        self.store = store
        self.blobs = blobs
        self.lock = RLock()
        self._changed = changed

    def load(self, order_id: bytes, leg: int) -> LocalOrder | None:
        """Return the record of a leg; None if there is none."""
        return self.store.load(order_id, leg)

    def begin(self, order_id: bytes, leg: int) -> None:
        """Create the record of a leg if there is none.

        If an earlier leg of the order has its payload here, the new leg takes it over, with the excluded providers.
        """
        with self.lock:
            if self.store.load(order_id, leg) is not None:
                return
            local = new_order(order_id, leg)
            for number in reversed(range(1, leg)):
                before = self.store.load(order_id, number)
                if before is not None and before.payload.stage is PayloadStage.LOADED:
                    local = continued(local, before)
                    for file in local.payload.files:
                        self.blobs.hold(file.blob.sha256, str(local.key))
                    for blob in {blob.sha256 for known in local.left for blob in blobs_of(known)}:
                        if self.blobs.has(blob):
                            self.blobs.hold(blob, str(local.key))
                    break
            self.store.save(local)

    def keep_backing(self, address: str, backing: Backing) -> None:
        """Record the backing that a provider's invitation states; the daemon reads it at its next look."""
        with self.lock:
            if self.store.backings().get(address) != backing:
                self.store.save_backing(address, backing)

    def change(
        self,
        order_id: bytes,
        leg: int,
        change: Callable[[LocalOrder], LocalOrder],
        needs: Iterable[BlobRef] = (),
        sender: str = "",
    ) -> LocalOrder | None:
        """Apply ``change`` to the current record of a leg and return the new one; None if there is no record.

        ``needs`` are blobs that the new record names. The blobs must have arrived here from ``sender`` (from anyone if
        ``sender`` is empty). They are held before the record is written, so that neither a crash nor a clean-up before
        that can lose them. ClusterError WRONG_STATE if one of them is missing.
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
        """Hold blobs for a leg until its record no longer needs them; ClusterError WRONG_STATE if one is missing."""
        self._hold(str(local.key), needs, sender)

    def _hold(self, holder: str, needs: Iterable[BlobRef], sender: str) -> None:
        for blob in needs:
            # A held blob no longer counts against its sender's quota, so only blobs that have arrived are held.
            if self.blobs.sent(blob, sender):
                self.blobs.hold(blob.sha256, holder)
            if not self.blobs.sent(blob, sender):
                raise ClusterError(
                    ClusterErrorKind.WRONG_STATE,
                    "a blob that this call names has not been uploaded",
                    "upload all blobs that the call names, then repeat the call",
                    field="sha256",
                )

    def hold_payload(self, local: LocalOrder) -> None:
        """Hold the files of a payload, whether they have arrived or not, and release the files of an earlier offer.

        States of an earlier leg that the consumer offered, or that were fetched, stay held.
        """
        digests = {file.blob.sha256 for file in local.payload.files}
        for digest in digests:
            self.blobs.hold(digest, str(local.key))
        states = {state.blob.sha256 for state in (*local.fetched, *local.offered)}
        self.blobs.keep_only(str(local.key), digests | states)

    def held_initial_states(self, orders: Iterable[OrderResponse], me: str) -> dict[bytes, StateRef]:
        """Return the states of earlier legs from which matched legs of ``me`` start, by root.

        Only states that are complete on this machine are returned.
        """
        states: dict[bytes, StateRef] = {}
        for leg, roots in wanting(orders, me):
            own = self.load(leg.order_id, leg.number)
            known = [*self._states_here(leg.order_id, range(1, leg.number)), *(own.fetched if own else ())]
            for state in known:
                if state.root in roots and self.blobs.status(state.blob).complete:
                    states[state.root] = state
        return states

    def find_states(self, order_id: bytes, legs: int, roots: Collection[bytes]) -> tuple[StateRef, ...]:
        """Return the states with these roots that the records of an order's first ``legs`` legs have, each once."""
        found = {state.root: state for state in self._states_here(order_id, range(1, legs + 1))}
        return tuple(found[root] for root in roots if root in found and self.blobs.status(found[root].blob).complete)

    def _states_here(self, order_id: bytes, legs: Iterable[int]) -> Iterator[StateRef]:
        for number in legs:
            local = self.load(order_id, number)
            if local is not None:
                yield from local.fetched
                yield from states_of(local)

    def take_initial_states(self, leg: LegKey, earlier_global: StateRef | None, slots: tuple[SlotLocal, ...]) -> None:
        """Record and hold the states of an earlier leg from which ``leg`` starts.

        If these states are no longer here, the leg is declined after the next look.
        """
        needs = [item.state.blob for item in slots]
        if earlier_global is not None:
            needs.append(earlier_global.blob)
        try:
            self.change(leg.order_id, leg.leg, lambda now: initial_states_taken(now, earlier_global, slots), needs)
        except ClusterError as error:
            _log.warning("%s: the initial states of the leg are gone: %s", leg, error)

    def tidy(self, leg: LegKey, needed: frozenset[bytes]) -> None:
        """Release the blobs of a leg, except those that it needs."""
        self.blobs.keep_only(str(leg), needed)

    def forget(self, leg: LegKey) -> None:
        """Delete the record of a leg and release its blobs."""
        with self.lock:
            self.blobs.release(str(leg))
            self.store.forget(leg.order_id, leg.leg)

    # Seats in panels about others' rounds

    def change_seat(self, key: SeatKey, change: Callable[[LocalSeat], LocalSeat]) -> None:
        """Apply ``change`` to the present record of a seat, if the seat still has a record."""
        with self.lock:
            now = self.store.seat(key)
            if now is None or (after := change(now)) == now:
                return
            self.put(key, now, after)
        self._changed.set()

    def hold_for(self, key: SeatKey, blobs: Iterable[BlobRef]) -> None:
        """Hold blobs for a seat, whether they have arrived or not; ClusterError WRONG_STATE if the seat is over."""
        with self.lock:
            if self.store.seat(key) is None:
                raise ClusterError(ClusterErrorKind.WRONG_STATE, "the seat's stage is over")
            for blob in blobs:
                self.blobs.hold(blob.sha256, str(key))

    def end_seat(self, key: SeatKey) -> None:
        """Delete the record of a seat and release its blobs."""
        with self.lock:
            self.blobs.release(str(key))
            self.store.forget_seat(key)

    # Deliveries to witness

    def change_witness(self, key: WitnessKey, change: Callable[[LocalWitness], LocalWitness]) -> None:
        """Apply ``change`` to the record of a delivery to witness, if it has one."""
        with self.lock:
            now = self.store.get(key)
            if not isinstance(now, LocalWitness) or (after := change(now)) == now:
                return
            self.put(key, now, after)
        self._changed.set()

    def offer_witness(self, key: WitnessKey, offer: DeliveryOffer, sender: str) -> None:
        """Record the delivery that ``sender`` has sent to this witness; ClusterError WRONG_STATE if it is not here."""
        with self.lock:
            now = self.store.get(key)
            before = now if isinstance(now, LocalWitness) else LocalWitness()
            after = witnessed_offered(before, offer)
            if after == before:
                return
            self._hold(str(key), (offer.ciphertext,), sender)
            self.put(key, now, after)
        self._changed.set()

    def end_witness(self, key: WitnessKey) -> None:
        """Delete the record of a delivery to witness, and release its blob."""
        with self.lock:
            self.blobs.release(str(key))
            self.store.forget_witness(key)

    # Seats that judge evidence

    def change_attest(self, key: AttestKey, change: Callable[[LocalAttest], LocalAttest]) -> None:
        """Apply ``change`` to the record of a seat that judges evidence, if it has one."""
        with self.lock:
            now = self.store.get(key)
            if not isinstance(now, LocalAttest) or (after := change(now)) == now:
                return
            self.put(key, now, after)
        self._changed.set()

    def end_attest(self, key: AttestKey) -> None:
        """Delete the record of a seat that judged evidence."""
        with self.lock:
            self.store.forget_attest(key)

    # Any duty

    @property
    def standing(self) -> LocalUpkeep:
        """The record of the upkeep, the duty that does not depend on orders."""
        record = self.store.get(Upkeep())
        return record if isinstance(record, LocalUpkeep) else LocalUpkeep()

    def get(self, duty: Duty) -> Record | None:
        """Return the record of a duty."""
        return self.store.get(duty)

    def put(self, duty: Duty, before: Record | None, after: Record) -> None:
        """Write a record, and log its differences from the record before. The caller must have held ``lock`` since it
        read ``before``.
        """
        self.store.put(duty, after)
        for line in tell(before, after):
            _log.info(line)
