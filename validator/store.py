"""The validator's records on disk. A record is written before any action that follows from it.

The record of a leg is stored in pieces. Each part that grows or changes has its own rows, so that a change writes only
what changed, however many leaves and places the record has. In memory, the record is one value.
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
from validator.decide.admission import Backing
from validator.decide.duties import Duty, Record
from validator.decide.records import (
    AttestKey,
    CheckedSegment,
    LegKey,
    LocalOrder,
    LocalRound,
    LocalSeat,
    Opening,
    SeatKey,
    SlotWork,
    VerdictRow,
    WitnessKey,
    seat_key,
)

_log = logging.getLogger("assay.validator")
FORM = 10
"""Version of the records' format. It is increased with each change after which older records can no longer be read."""
COMPUTING = "computing"
"""The name of the file, beside the database, with the name of the back end that the daemon loaded at its last start."""
"""The name of the file, beside the database, with the nodes of the cluster that the daemon uses."""
CACHED = 64
"""Largest number of records of legs that are kept in memory. Such records are frozen, and are read far more often than
written.
"""

# Each table stores its records without the parts that have their own tables. A work's key is its position in its round.
_ORDERS = RecordTable("orders", LocalOrder, (bytes, int))
_ROUNDS = RecordTable("rounds", LocalRound, (bytes, int, int))
_WORKS = RecordTable("works", SlotWork, (bytes, int, int, int))
_PACKETS = RecordTable("packets", ShareDelivery, (bytes, int, int, int))
_OPENINGS = RecordTable("openings", Opening, (bytes, int, int, int, int))
_CHECKED = RecordTable("checked", CheckedSegment, (bytes, int, int, int, int))
_OF_WORKS = (_WORKS, _PACKETS, _OPENINGS, _CHECKED)
_OF_LEGS = (_ORDERS, _ROUNDS, *_OF_WORKS)

_SEATS = RecordTable("seats", LocalSeat, (bytes, int, int, int, int))
_VERDICTS = RecordTable("verdicts", VerdictRow, (bytes, int, int, int, int))
# Panels that this validator answered in: True if all its results agree with the chain.
_ANSWERED = RecordTable("answered", bool, (bytes, int, int))
# The operator's decision about single providers: True to admit, False to dismiss.
_NAMED = RecordTable("named", bool, (str,))
# The numbers about bonds in the tasks for single providers.
_BACKINGS = RecordTable("backings", Backing, (str,))
_CHAIN = RecordTable("chain", str, (str,))
_CLOCK = RecordTable("clock", int, (str,))


class StoreError(Expected):
    """The error that is raised if the validator's home or its database cannot be used."""


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lock ``directory`` against other daemons; StoreError if one runs there.

    The lock ends with the process, even if it is killed.
    """

    def refused(other: int) -> StoreError:
        return StoreError(
            f"a validator's daemon already runs in {directory}: process {other or '?'}",
            "stop that daemon, or use another --home",
        )

    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with lock.held(directory / "validator.lock", refused):
        yield


class ValidatorStore:
    """The records of legs, seats, verdicts and providers in ``validator.db``. Thread-safe; one daemon at a time."""

    def __init__(self, path: Path) -> None:
        """Open or create the database; StoreError if the file is not a database or its format differs."""
        tables = (*_OF_LEGS, _SEATS, _VERDICTS, _ANSWERED, _NAMED, _BACKINGS, _CHAIN, _CLOCK)
        try:
            self._records = Records(path, tables, codec, FORM)
        except Unusable as error:
            raise StoreError(str(error)) from None
        self._lock = RLock()
        self._cache: OrderedDict[tuple[bytes, int], LocalOrder] = OrderedDict()
        # Records that are not stored, because their duties start again with each process.
        self._unstored: dict[Duty, Record] = {}
        self._known_seats: dict[Key, LocalSeat] | None = None

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._records.close()

    # The chain

    def chain(self, chain_id: str) -> str:
        """Return the id of the chain that these records belong to; the first call sets it to ``chain_id``."""
        with self._lock:
            known = self._records.get(_CHAIN, "id")
            if known is None:
                self._records.put(_CHAIN, chain_id, "id")
        return known or chain_id

    def seen_clock(self, clock: int = 0) -> int:
        """Record ``clock`` (chain seconds), and return the latest clock ever recorded."""
        with self._lock:
            known = self._records.get(_CLOCK, "seen") or 0
            if clock > known:
                self._records.put(_CLOCK, clock, "seen")
        return max(known, clock)

    # Records of duties

    def get(self, duty: Duty) -> Record | None:
        """Return the record of a duty; None if there is none."""
        match duty:
            case LegKey(order_id, leg):
                return self.load(order_id, leg)
            case SeatKey():
                return self.seat(duty)
            case _:
                return self._unstored.get(duty)

    def witnesses(self) -> tuple[WitnessKey, ...]:
        """Return the deliveries to witness that have a record."""
        return tuple(sorted(key for key in list(self._unstored) if isinstance(key, WitnessKey)))

    def attests(self) -> tuple[AttestKey, ...]:
        """Return the seats that judge evidence and have a record."""
        return tuple(sorted(key for key in list(self._unstored) if isinstance(key, AttestKey)))

    def forget_attest(self, key: AttestKey) -> None:
        """Delete the record of a seat that judged evidence."""
        self._unstored.pop(key, None)

    def forget_witness(self, key: WitnessKey) -> None:
        """Delete the record of a delivery to witness."""
        self._unstored.pop(key, None)

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
        """Move unreadable records away, so that only their own legs are lost; log each loss."""
        with self._lock:
            lost = self._records.set_aside_damaged()
            for damage in lost:
                _log.error("lost a record of table %s: %s", damage.table, damage.reason)
            names = {table.name for table in _OF_LEGS}
            for order_id, leg in {d.key[:2] for d in lost if d.table in names}:
                _log.error("lost the record of leg %d of order %s", leg, order_id.hex())
                self.forget(order_id, leg)

    def load(self, order_id: bytes, leg: int) -> LocalOrder | None:
        """Return the record of a leg; None if there is none."""
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
        """Return the record of this validator's last leg of an order; None if there is none."""
        legs = self.legs(order_id)
        return self.load(order_id, legs[0]) if legs else None

    def legs(self, order_id: bytes) -> list[int]:
        """Return the numbers of an order's legs that have a record, the last leg first."""
        return sorted((leg for o, leg in self.all_orders(order_id)), reverse=True)

    def save(self, local: LocalOrder) -> None:
        """Write the new and changed parts of a record in one transaction."""
        with self._lock:
            before = self.load(local.order_id, local.leg)
            with self._records.transaction():
                self._write(before, local)
            self._remember(local)

    def forget(self, order_id: bytes, leg: int) -> None:
        """Delete the record of a leg. Its verdicts stay, as history."""
        with self._lock, self._records.transaction():
            self._cache.pop((order_id, leg), None)
            for table in _OF_LEGS:
                self._records.delete(table, order_id, leg)

    def all_orders(self, *order_id: bytes) -> list[tuple[bytes, int]]:
        """Return the keys (order id, leg) of all records, or only of the records of one order."""
        return [(o, leg) for o, leg in self._records.keys(_ORDERS, *order_id)]

    # Seats in panels about others' rounds

    def seats(self) -> tuple[SeatKey, ...]:
        """Return the keys of the seats that have a record."""
        with self._lock:
            return tuple(seat_key(seat.duty) for seat in self._seats().values())

    def seat(self, key: SeatKey) -> LocalSeat | None:
        """Return the record of a seat; None if there is none."""
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
        """Return all verdicts, or the verdicts of one order, sorted by round, slot and issue."""
        return [row for _, row in self._records.scan(_VERDICTS, *order_id)]

    def save_answered(self, order_id: bytes, leg: int, round: int, agreed: bool) -> None:
        """Record that this validator revealed its answers in a panel, and whether they agree with the chain."""
        self._records.put(_ANSWERED, agreed, order_id, leg, round)

    def answered(self) -> list[tuple[bytes, int, int, bool]]:
        """Return the panels that this validator answered in, as (order id, leg, round, agreed)."""
        return [(*key, agreed) for key, agreed in self._records.scan(_ANSWERED)]

    # Providers

    def name(self, address: str, admit: bool) -> None:
        """Record the operator's decision to admit or to dismiss a provider; the daemon reads this decision at its next
        look.
        """
        self._records.put(_NAMED, admit, address)

    def named(self) -> dict[str, bool]:
        """Return the operator's decisions about single providers: True to admit, False to dismiss."""
        return {str(address): admit for (address,), admit in self._records.scan(_NAMED)}

    def save_backing(self, address: str, backing: Backing) -> None:
        """Record what tasks for a provider state about the bonds behind its shares."""
        self._records.put(_BACKINGS, backing, address)

    def backings(self) -> dict[str, Backing]:
        """Return what tasks for single providers state about the bonds behind their shares, by address."""
        return {str(address): backing for (address,), backing in self._records.scan(_BACKINGS)}

    # A record and its pieces

    def _read(self, order_id: bytes, leg: int) -> LocalOrder | None:
        local = self._records.get(_ORDERS, order_id, leg)
        if local is None:
            return None
        rounds = (
            replace(stored, works=tuple(self._works(order_id, leg, stored.round)))
            for _, stored in self._records.scan(_ROUNDS, order_id, leg)
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
        old_openings = {opening.index: opening for opening in before.openings} if before else {}
        for opening in after.openings:
            if old_openings.pop(opening.index, None) != opening:
                self._records.put(_OPENINGS, opening, *key, opening.index)
        for index in old_openings:
            self._records.delete(_OPENINGS, *key, index)

    def _seats(self) -> dict[Key, LocalSeat]:
        """Return the records of all seats. They stay in memory: they are few, small, and read in every look."""
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
    """A read-only view of the traces in a validator's database; its daemon may run meanwhile. Thread-safe."""

    def __init__(self, path: Path) -> None:
        """Open the daemon's database; StoreError if there is no database or its format differs."""
        try:
            self._records = Records(path, (), codec, FORM, read_only=True)
        except Unusable as error:
            raise StoreError(str(error)) from None

    def close(self) -> None:
        """Close the database."""
        self._records.close()

    @property
    def version(self) -> int:
        """A number that changes whenever the daemon writes to its records."""
        return self._records.version

    def shares(self, known: Callable[[ShareKey], bool]) -> Iterator[tuple[ShareKey, SlotWork]]:
        """Yield the shares of all recorded rounds; a share whose trace is ``known`` comes without its trace."""
        for where, work in self._records.scan(_WORKS):
            order_id, leg, round, _ = where
            key = ShareKey(order_id=order_id, leg=leg, round=round, slot=work.slot, issue=work.issue)
            packet = None if known(key) else self._records.get(_PACKETS, *where)
            checked = tuple(segment for _, segment in self._records.scan(_CHECKED, *where))
            yield key, replace(work, packet=packet, checked=checked)


def _key_of(key: SeatKey) -> Key:
    return key.order_id, key.leg, key.round, key.dispute, key.stage


def _bare(work: SlotWork) -> SlotWork:
    """Return the work of a slot without the parts that have tables of their own."""
    return replace(work, packet=None, openings=(), checked=())
