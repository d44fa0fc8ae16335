"""The validator's records on disk, written before anything is acted on.

The record of a leg lies in pieces: what grows or changes by itself has rows of its own, so that a change writes
what changed, however many leaves and places the record has. In memory it is one value again.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import RLock

from domain import codec
from domain.errors import Expected
from domain.keys import ShareKey
from host import lock
from host.records import Key, Records, RecordTable, Unusable
from link.types import ShareDelivery
from validator.decide.duties import Duty, Record
from validator.decide.records import (
    CheckedSegment,
    LegKey,
    LocalOrder,
    LocalRound,
    LocalSeat,
    Opening,
    SeatKey,
    SlotWork,
    VerdictRow,
    seat_key,
)

_log = logging.getLogger("assay.validator")
FORM = 9
"""Of the records; another number for every change after which those of before cannot be read."""
COMPUTING = "computing"
"""The file beside the database that says what computes, as of the daemon's last start."""
CACHED = 64
"""Records kept whole in memory: they are frozen, and read far more often than written."""

# Each record here without those that have a table of their own. A work is found by its position in its round.
_ORDERS = RecordTable("orders", LocalOrder, (bytes, int))
_ROUNDS = RecordTable("rounds", LocalRound, (bytes, int, int))
_WORKS = RecordTable("works", SlotWork, (bytes, int, int, int))
_PACKETS = RecordTable("packets", ShareDelivery, (bytes, int, int, int))
_OPENINGS = RecordTable("openings", Opening, (bytes, int, int, int, int))
_CHECKED = RecordTable("checked", CheckedSegment, (bytes, int, int, int, int))
_OF_WORKS = (_WORKS, _PACKETS, _OPENINGS, _CHECKED)
_OF_LEGS = (_ORDERS, _ROUNDS, *_OF_WORKS)

_SEATS = RecordTable("seats", LocalSeat, (bytes, int, int, int))
_VERDICTS = RecordTable("verdicts", VerdictRow, (bytes, int, int, int, int))
# Seats that have shown their answers: whether everything was found as the chain has it.
_ANSWERED = RecordTable("answered", bool, (bytes, int, int))
# What its operator said of single providers: true to admit, false to dismiss.
_NAMED = RecordTable("named", bool, (str,))
_CHAIN = RecordTable("chain", str, (str,))
_CLOCK = RecordTable("clock", int, (str,))


class StoreError(Expected):
    """A database that cannot be used: which, and what to do."""


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other daemons out of ``directory``, until this process ends in whatever way; StoreError."""

    def refused(other: int) -> StoreError:
        return StoreError(
            f"a validator's daemon runs in {directory} already, as process {other or '?'}",
            "stop it, or use another home",
        )

    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with lock.held(directory / "validator.lock", refused):
        yield


class ValidatorStore:
    """Orders and verdicts in ``validator.db``. Thread-safe; one daemon at a time."""

    def __init__(self, path: Path) -> None:
        """Open or make the database; StoreError where the file is none, or of another form."""
        tables = (*_OF_LEGS, _SEATS, _VERDICTS, _ANSWERED, _NAMED, _CHAIN, _CLOCK)
        try:
            self._records = Records(path, tables, codec, FORM)
        except Unusable as error:
            raise StoreError(str(error)) from None
        self._lock = RLock()
        self._cache: OrderedDict[tuple[bytes, int], LocalOrder] = OrderedDict()
        # Of duties that begin anew with each start.
        self._unstored: dict[Duty, Record] = {}
        self._known_seats: dict[Key, LocalSeat] | None = None

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._records.close()

    # The chain

    def chain(self, chain_id: str) -> str:
        """Return the chain that these records are about: ``chain_id``, if there was none before."""
        with self._lock:
            known = self._records.get(_CHAIN, "id")
            if known is None:
                self._records.put(_CHAIN, chain_id, "id")
        return known or chain_id

    def seen_clock(self, clock: int = 0) -> int:
        """Return the latest chain clock (seconds) that was seen, after taking note of ``clock``."""
        with self._lock:
            known = self._records.get(_CLOCK, "seen") or 0
            if clock > known:
                self._records.put(_CLOCK, clock, "seen")
        return max(known, clock)

    # Records of duties

    def get(self, duty: Duty) -> Record | None:
        """Return the record of a duty."""
        match duty:
            case LegKey(order_id, leg):
                return self.load(order_id, leg)
            case SeatKey():
                return self.seat(duty)
            case _:
                return self._unstored.get(duty)

    def put(self, duty: Duty, record: Record) -> None:
        """Write the record of a duty."""
        match record:
            case LocalOrder():
                self.save(record)
            case LocalSeat():
                self.save_seat(record)
            case _:
                self._unstored[duty] = record

    # Records of legs

    def set_aside_damaged(self) -> None:
        """Move records that cannot be read out of the way, so that they cost their own orders only."""
        with self._lock:
            lost = self._records.set_aside_damaged()
            for damage in lost:
                _log.error("lost a record of %s: %s", damage.table, damage.reason)
            names = {table.name for table in _OF_LEGS}
            for order_id, leg in {d.key[:2] for d in lost if d.table in names}:
                _log.error("lost leg %d of order %s", leg, order_id.hex())
                self.forget(order_id, leg)

    def load(self, order_id: bytes, leg: int) -> LocalOrder | None:
        """Return the record of a leg."""
        with self._lock:
            cached = self._cache.get((order_id, leg))
            if cached is not None:
                self._cache.move_to_end((order_id, leg))
                return cached
            local = self._read(order_id, leg)
            if local is not None:
                self._remember(local)
            return local

    def latest(self, order_id: bytes) -> LocalOrder | None:
        """Return the record of the last leg that was this validator's."""
        legs = self.legs(order_id)
        return self.load(order_id, legs[0]) if legs else None

    def legs(self, order_id: bytes) -> list[int]:
        """Return the legs of an order that are held, the last one first."""
        return sorted((leg for o, leg in self.all_orders(order_id)), reverse=True)

    def save(self, local: LocalOrder) -> None:
        """Write what is new or changed in a record, all or nothing."""
        with self._lock:
            before = self.load(local.order_id, local.leg)
            with self._records.transaction():
                self._write(before, local)
            self._remember(local)

    def forget(self, order_id: bytes, leg: int) -> None:
        """Delete a record; verdicts stay, they are history."""
        with self._lock, self._records.transaction():
            self._cache.pop((order_id, leg), None)
            for table in _OF_LEGS:
                self._records.delete(table, order_id, leg)

    def all_orders(self, *order_id: bytes) -> list[tuple[bytes, int]]:
        """Return what is held, of one order if given, as (order id, leg)."""
        return [(o, leg) for o, leg in self._records.keys(_ORDERS, *order_id)]

    # Seats in panels of others

    def seats(self) -> tuple[SeatKey, ...]:
        """Return the seats that there are records of."""
        with self._lock:
            return tuple(seat_key(seat.duty) for seat in self._seats().values())

    def seat(self, key: SeatKey) -> LocalSeat | None:
        """Return the record of a seat."""
        return self._seats().get(_key_of(key))

    def save_seat(self, seat: LocalSeat) -> None:
        """Write the record of a seat."""
        with self._lock:
            key = _key_of(seat_key(seat.duty))
            self._records.put(_SEATS, seat, *key)
            self._seats()[key] = seat

    def forget_seat(self, key: SeatKey) -> None:
        """Delete the record of a seat."""
        with self._lock:
            self._records.delete(_SEATS, *_key_of(key))
            self._seats().pop(_key_of(key), None)

    # History

    def save_verdicts(self, rows: Iterable[VerdictRow]) -> None:
        """Write or replace verdicts on shares."""
        with self._records.transaction():
            for row in rows:
                key = (row.order_id, row.leg, row.round, row.slot, row.issue)
                self._records.put(_VERDICTS, row, *key)

    def verdicts(self, *order_id: bytes) -> list[VerdictRow]:
        """Return the verdicts, of one order if given, by round, slot and issue."""
        return [row for _, row in self._records.scan(_VERDICTS, *order_id)]

    def save_answered(self, order_id: bytes, leg: int, round: int, agreed: bool) -> None:
        """Remember that this validator showed the answers of a seat, and whether it found what the chain has."""
        self._records.put(_ANSWERED, agreed, order_id, leg, round)

    def answered(self) -> list[tuple[bytes, int, int, bool]]:
        """Return the panels that this validator answered in: order, leg, round, agreed."""
        return [(*key, agreed) for key, agreed in self._records.scan(_ANSWERED)]

    # Providers

    def name(self, address: str, admit: bool) -> None:
        """Remember that a provider is to be admitted, or dismissed; the daemon sees it at its next look."""
        self._records.put(_NAMED, admit, address)

    def named(self) -> dict[str, bool]:
        """Return what was said of single providers."""
        return {str(address): admit for (address,), admit in self._records.scan(_NAMED)}

    # A record and its pieces

    def _read(self, order_id: bytes, leg: int) -> LocalOrder | None:
        local = self._records.get(_ORDERS, order_id, leg)
        if local is None:
            return None
        rounds = (
            replace(found, works=tuple(self._works(order_id, leg, found.round)))
            for _, found in self._records.scan(_ROUNDS, order_id, leg)
        )
        return replace(local, rounds=tuple(rounds))

    def _works(self, *key: bytes | int) -> Iterator[SlotWork]:
        for where, work in self._records.scan(_WORKS, *key):
            yield replace(
                work,
                packet=self._records.get(_PACKETS, *where),
                openings=tuple(opening for _, opening in self._records.scan(_OPENINGS, *where)),
                checked=tuple(checked for _, checked in self._records.scan(_CHECKED, *where)),
            )

    def _write(self, before: LocalOrder | None, after: LocalOrder) -> None:
        key = (after.order_id, after.leg)
        bare = replace(after, rounds=())
        if before is None or replace(before, rounds=()) != bare:
            self._records.put(_ORDERS, bare, *key)
        old = {known.round: known for known in before.rounds} if before else {}
        for current in after.rounds:
            known = old.pop(current.round, None)
            if current is not known:
                self._write_round(known, current, *key)
        for round in old:
            for table in (_ROUNDS, *_OF_WORKS):
                self._records.delete(table, *key, round)

    def _write_round(self, before: LocalRound | None, after: LocalRound, *key: bytes | int) -> None:
        key = (*key, after.round)
        bare = replace(after, works=())
        if before is None or replace(before, works=()) != bare:
            self._records.put(_ROUNDS, bare, *key)
        old = before.works if before else ()
        for position, work in enumerate(after.works):
            known = old[position] if position < len(old) else None
            if work is not known:
                self._write_work(known, work, *key, position)

    def _write_work(self, before: SlotWork | None, after: SlotWork, *key: bytes | int) -> None:
        bare = _bare(after)
        if before is None or _bare(before) != bare:
            self._records.put(_WORKS, bare, *key)
        if after.packet is not None and (before is None or before.packet != after.packet):
            self._records.put(_PACKETS, after.packet, *key)
        checked = {done.segment: done for done in before.checked} if before else {}
        for done in after.checked:
            if checked.get(done.segment) != done:
                self._records.put(_CHECKED, done, *key, done.segment)
        openings = {held.index: held for held in before.openings} if before else {}
        for held in after.openings:
            if openings.pop(held.index, None) != held:
                self._records.put(_OPENINGS, held, *key, held.index)
        for index in openings:
            self._records.delete(_OPENINGS, *key, index)

    def _seats(self) -> dict[Key, LocalSeat]:
        """Return the records of seats, which are few, small, and asked for all the time."""
        with self._lock:
            if self._known_seats is None:
                self._known_seats = dict(self._records.scan(_SEATS))
            return self._known_seats

    def _remember(self, local: LocalOrder) -> None:
        self._cache[local.order_id, local.leg] = local
        self._cache.move_to_end((local.order_id, local.leg))
        while len(self._cache) > CACHED:
            self._cache.popitem(last=False)


class TraceReader:
    """Reads the traces that a validator of this machine holds, beside its daemon, and writes nothing. Thread-safe."""

    def __init__(self, path: Path) -> None:
        """Open the daemon's database; StoreError where there is none, or one of another form."""
        try:
            self._records = Records(path, (), codec, FORM, read_only=True)
        except Unusable as error:
            raise StoreError(str(error)) from None

    def close(self) -> None:
        """Close the database."""
        self._records.close()

    @property
    def version(self) -> int:
        """A number that is another one whenever the daemon has written."""
        return self._records.version

    def shares(self, known: Callable[[ShareKey], bool]) -> Iterator[tuple[ShareKey, SlotWork]]:
        """Yield all shares of rounds that go on, without the trace of those of which it is ``known``."""
        for where, work in self._records.scan(_WORKS):
            order_id, leg, round, _ = where
            key = ShareKey(order_id=order_id, leg=leg, round=round, slot=work.slot, issue=work.issue)
            packet = None if known(key) else self._records.get(_PACKETS, *where)
            checked = tuple(found for _, found in self._records.scan(_CHECKED, *where))
            yield key, replace(work, packet=packet, checked=checked)


def _key_of(key: SeatKey) -> Key:
    return key.order_id, key.leg, key.round, key.stage


def _bare(work: SlotWork) -> SlotWork:
    """Return a work without what has rows of its own."""
    return replace(work, packet=None, openings=(), checked=())
