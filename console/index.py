"""What the chain's numbered events tell, in an SQLite file: all that ever happened, long after it left the state.

Events are kept as they came, those of an order under its id, and beside them sums that lists need: a row for each
order, what each address earned, how many shares of a provider stood, and in which pot coins are.
"""

import fcntl
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import singledispatchmethod
from pathlib import Path
from threading import RLock
from typing import IO, Any, Final
from zlib import crc32

from console.traces import Reached, Replayed, ShareTrace
from domain.events import Change, Counts
from domain.keys import ShareKey
from domain.ledger.events import BondDeposited, BondReleased, BondWithdrawing, PaymentMade
from domain.ledger.moves import BONDS_POT, BURNT_POT, COMMUNITY_POT
from domain.legs.events import OrderAccepted, OrderMatched, OrderProven
from domain.market.events import (
    DeadlineMoved,
    OrderClosed,
    OrderOpened,
    OrderSubmitted,
    OrderUnmatched,
)
from domain.market.records import Order, OrderState
from domain.node.queries import LoggedEvent
from domain.proof.events import (
    AnswerCommitted,
    PanelEnded,
    RoundClosed,
    RoundVerified,
    SeatDiffered,
    SeatPaid,
    SeatRevealed,
    SeatSilent,
    ShareAccepted,
    ShareCommitted,
    ShareCompared,
    ShareFoundWrong,
    ShareRejected,
)
from domain.proof.reasons import ShareReason
from domain.registry.events import (
    BeaconKeySet,
    EndpointSet,
    ProviderCertified,
    ProviderLeft,
    ProviderRegistered,
)
from domain.vocabulary import MOVES, read_event
from pol.rules.schedule import total_work

EARNINGS: Final = ("provider", "validator", "auditor", "compensation", "held_compensation")
"""Kinds of payments by which somebody earns."""
POTS: Final = ("escrows", "bonds", "audits", "community", "burnt")
"""Where coins are, as far as numbered events tell; stakes are validators' own, and fees are outside of these events."""
_DEEDS: Final = (
    AnswerCommitted,
    BeaconKeySet,
    BondDeposited,
    BondWithdrawing,
    EndpointSet,
    OrderSubmitted,
    ProviderCertified,
    ProviderLeft,
    ProviderRegistered,
    SeatRevealed,
    ShareCommitted,
)
"""Events by which an address shows that it is there: what it signed, or was measured by."""
_ACTORS: Final = ("provider", "auditor", "operator", "owner", "consumer")
_SCHEMA: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE events (
    number INTEGER PRIMARY KEY, height INTEGER NOT NULL, kind TEXT NOT NULL, order_id BLOB,
    attributes TEXT NOT NULL
);
CREATE INDEX events_of_height ON events (height, number);
CREATE INDEX events_of_order ON events (order_id, number) WHERE order_id IS NOT NULL;
CREATE TABLE blocks (height INTEGER PRIMARY KEY, time_ns INTEGER, proposer BLOB);
CREATE INDEX blocks_unknown ON blocks (height) WHERE time_ns IS NULL;
CREATE TABLE orders (
    order_id BLOB PRIMARY KEY, number INTEGER NOT NULL, consumer TEXT NOT NULL, job_id BLOB NOT NULL,
    state INTEGER NOT NULL, reason INTEGER NOT NULL DEFAULT 0, leg INTEGER NOT NULL DEFAULT 0,
    validator TEXT NOT NULL DEFAULT '', work TEXT NOT NULL, price_limit INTEGER NOT NULL,
    price INTEGER NOT NULL DEFAULT 0, deposit INTEGER NOT NULL, paid INTEGER NOT NULL DEFAULT 0,
    refunded INTEGER NOT NULL DEFAULT 0, rounds INTEGER NOT NULL, closed INTEGER NOT NULL DEFAULT 0,
    verified INTEGER NOT NULL DEFAULT 0, rejected INTEGER NOT NULL DEFAULT 0,
    deadline INTEGER NOT NULL, height INTEGER NOT NULL,
    unmatched TEXT NOT NULL DEFAULT '[]'
) WITHOUT ROWID;
CREATE INDEX orders_by_number ON orders (number);
CREATE TABLE validators_of (order_id BLOB, validator TEXT, PRIMARY KEY (order_id, validator)) WITHOUT ROWID;
CREATE TABLE earnings (
    address TEXT, kind TEXT, amount INTEGER NOT NULL, PRIMARY KEY (address, kind)
) WITHOUT ROWID;
CREATE TABLE earned_of (address TEXT, order_id BLOB, amount INTEGER NOT NULL, PRIMARY KEY (address, order_id))
    WITHOUT ROWID;
CREATE TABLE providers (
    address TEXT PRIMARY KEY, accepted INTEGER NOT NULL DEFAULT 0, rejected INTEGER NOT NULL DEFAULT 0,
    wrong INTEGER NOT NULL DEFAULT 0, height INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE seen (address TEXT PRIMARY KEY, height INTEGER NOT NULL, kind TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE jobs (job_id BLOB PRIMARY KEY, name TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE pots (name TEXT PRIMARY KEY, amount INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE traces (
    order_id BLOB, leg INTEGER, round INTEGER, slot INTEGER, issue INTEGER,
    change INTEGER NOT NULL, trace TEXT NOT NULL, PRIMARY KEY (order_id, leg, round, slot, issue)
) WITHOUT ROWID;
CREATE INDEX traces_by_change ON traces (change);
"""
# Names of jobs stay: a job is the same on every chain.
_TABLES: Final = (
    "meta",
    "events",
    "blocks",
    "orders",
    "validators_of",
    "earnings",
    "earned_of",
    "providers",
    "seen",
    "pots",
    "traces",
)


FORM: Final = crc32(_SCHEMA.encode()) & 0x7FFF_FFFF
"""Changes with the tables: an index of before is then built again."""


class Gap(Exception):
    """Events are a log without gaps, and one is missing: the index has to be built again."""


@dataclass(frozen=True, slots=True)
class OrderRow:
    """An order in a list."""

    order_id: bytes
    number: int
    consumer: str
    job_id: bytes
    state: OrderState
    # CloseReason, 0 while it lives.
    reason: int
    leg: int
    validator: str
    work: int
    price_limit: int
    price: int
    deposit: int
    paid: int
    refunded: int
    rounds: int
    closed: int
    verified: int
    rejected: int
    deadline: int
    height: int
    # How many bids failed on which condition at the last auction, while it waits, or as it closed.
    unmatched: Counts


@dataclass(frozen=True, slots=True)
class BlockRow:
    """A block: when, and by whom (consensus address)."""

    height: int
    time_ns: int
    proposer: bytes


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """What became of a provider's shares, over its whole life."""

    address: str
    accepted: int
    rejected: int
    wrong: int
    height: int


class EventIndex:
    """An index in a file, or in memory where none is given or another program uses the file. Thread-safe."""

    def __init__(self, path: Path | None = None) -> None:
        """Open what is there, and begin anew where that is of another form or no index."""
        self._lock = RLock()
        self._held: IO[bytes] | None = None
        self.in_memory = path is None or not self._hold(path)
        self._database = self._open(None if self.in_memory else path)

    def _hold(self, path: Path) -> bool:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = path.with_suffix(".lock").open("ab")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.close()
            return False
        self._held = handle
        return True

    def _open(self, path: Path | None) -> sqlite3.Connection:
        database = self._connect(path)
        try:
            (form,) = database.execute("PRAGMA user_version").fetchone()
            if form == FORM:
                return database
        except sqlite3.DatabaseError:
            form = -1
        if form:
            database.close()
            # It holds nothing that the chain has not.
            for name in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))) if path else ():
                name.unlink(missing_ok=True)
            database = self._connect(path)
        database.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {FORM}; COMMIT;")
        return database

    @staticmethod
    def _connect(path: Path | None) -> sqlite3.Connection:
        database = sqlite3.connect(
            path or ":memory:", check_same_thread=False, isolation_level=None, cached_statements=256
        )
        if path is not None:
            path.chmod(0o600)
            with_wal = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL")
            try:
                for pragma in with_wal:
                    database.execute(pragma)
            except sqlite3.DatabaseError:
                # What lies there is no database; whoever opens it sees that next.
                return database
        return database

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()
            if self._held is not None:
                self._held.close()
                self._held = None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def _all(self, sql: str, *values: object) -> list[Any]:
        with self._lock:
            return self._database.execute(sql, values).fetchall()

    def _do(self, sql: str, *values: object) -> None:
        self._database.execute(sql, values)

    # --- whose events ------------------------------------------------------------------------

    @property
    def next(self) -> int:
        """The number of the next event that it needs."""
        ((last,),) = self._all("SELECT COALESCE(MAX(number), 0) FROM events")
        return int(last) + 1

    @property
    def chain(self) -> tuple[str, str]:
        """The chain that it is of: chain id, and a fingerprint of its first event; empty at first."""
        rows = dict(self._all("SELECT name, value FROM meta"))
        return rows.get("chain_id", ""), rows.get("first", "")

    def begin(self, chain_id: str, first: str) -> None:
        """Forget everything, and begin with a chain."""
        with self._writing():
            for table in _TABLES:
                self._do(f"DELETE FROM {table}")
            self._do("INSERT INTO meta VALUES ('chain_id', ?), ('first', ?)", chain_id, first)

    # --- writing -----------------------------------------------------------------------------

    def add(self, events: Sequence[LoggedEvent]) -> None:
        """Take events in, all of them or none; Gap where the next one is not the first of them, or any is missing."""
        expected = self.next
        with self._writing():
            for event in events:
                if event.number != expected:
                    raise Gap(f"event {expected} is missing: the node goes on with {event.number}")
                expected += 1
                self._add(event)

    def _add(self, event: LoggedEvent) -> None:
        change = read_event(event)
        order_id = order_of(change)
        self._do(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?)",
            event.number,
            event.height,
            event.type,
            order_id,
            json.dumps(event.attributes, separators=(",", ":")),
        )
        self._do("INSERT OR IGNORE INTO blocks (height) VALUES (?)", event.height)
        if change is None:
            return
        if isinstance(change, _DEEDS):
            self._see(change, event)
        self._take(change, event)

    def _see(self, change: Change, event: LoggedEvent) -> None:
        address = next(filter(None, (getattr(change, name, "") for name in _ACTORS)), "")
        self._do("INSERT OR REPLACE INTO seen VALUES (?, ?, ?)", address, event.height, event.type)

    @singledispatchmethod
    def _take(self, change: Change, event: LoggedEvent) -> None:
        """Change no sum: most events change none."""

    def _order(self, order_id: bytes, **values: Any) -> None:
        names = ", ".join(f"{name} = ?" for name in values)
        self._do(f"UPDATE orders SET {names} WHERE order_id = ?", *values.values(), order_id)

    def _count(self, order_id: bytes, column: str, amount: int = 1) -> None:
        self._do(
            f"UPDATE orders SET {column} = {column} + ? WHERE order_id = ?",
            amount,
            order_id,
        )

    def _pot(self, **amounts: int) -> None:
        for name, amount in amounts.items():
            self._do(
                "INSERT INTO pots VALUES (?, ?) ON CONFLICT DO UPDATE SET amount = amount + excluded.amount",
                name,
                amount,
            )

    def _provider(self, address: str, height: int, **counts: int) -> None:
        self._do("INSERT OR IGNORE INTO providers (address, height) VALUES (?, ?)", address, height)
        for column, amount in counts.items():
            self._do(
                f"UPDATE providers SET {column} = {column} + ? WHERE address = ?",
                amount,
                address,
            )

    @_take.register
    def _(self, change: OrderSubmitted, event: LoggedEvent) -> None:
        order = change.record
        self._do(
            "INSERT INTO orders (order_id, number, consumer, job_id, state, work, price_limit, deposit, rounds, "
            "deadline, height) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            change.order,
            event.number,
            change.consumer,
            order.terms.job_id,
            int(OrderState.OPEN),
            str(total_work(order.terms)),
            order.price_limit,
            change.deposit,
            order.terms.rounds,
            order.deadline,
            event.height,
        )
        self._pot(escrows=change.deposit)

    @_take.register
    def _(self, change: OrderOpened, event: LoggedEvent) -> None:
        self._order(change.order, state=int(OrderState.OPEN), unmatched="[]")

    @_take.register
    def _(self, change: OrderUnmatched, event: LoggedEvent) -> None:
        self._order(change.order, unmatched=json.dumps(change.failed))

    @_take.register
    def _(self, change: OrderMatched, event: LoggedEvent) -> None:
        # Rounds are those of the current leg.
        self._order(
            change.order,
            state=int(OrderState.MATCHED),
            leg=change.leg,
            validator=change.validator,
            price=change.price,
            closed=0,
            verified=0,
            unmatched="[]",
        )
        self._do("INSERT OR IGNORE INTO validators_of VALUES (?, ?)", change.order, change.validator)
        self._pot(escrows=change.job_bond, bonds=-change.job_bond)

    @_take.register
    def _(self, change: OrderAccepted, event: LoggedEvent) -> None:
        self._order(change.order, state=int(OrderState.RUNNING))

    @_take.register
    def _(self, change: OrderProven, event: LoggedEvent) -> None:
        self._order(change.order, state=int(OrderState.PROVEN))

    @_take.register
    def _(self, change: DeadlineMoved, event: LoggedEvent) -> None:
        self._order(change.order, deadline=change.deadline)

    @_take.register
    def _(self, change: OrderClosed, event: LoggedEvent) -> None:
        self._order(
            change.order,
            state=int(OrderState.CLOSED),
            reason=change.reason,
            unmatched=json.dumps(change.failed),
        )

    @_take.register
    def _(self, change: RoundClosed, event: LoggedEvent) -> None:
        self._count(change.round.order_id, "closed")

    @_take.register
    def _(self, change: RoundVerified, event: LoggedEvent) -> None:
        self._count(change.round.order_id, "verified")

    @_take.register
    def _(self, change: ShareCommitted, event: LoggedEvent) -> None:
        self._provider(change.provider, event.height)
        self._pot(escrows=change.bond, bonds=-change.bond)

    @_take.register
    def _(self, change: ShareAccepted, event: LoggedEvent) -> None:
        self._provider(change.provider, event.height, accepted=1)

    @_take.register
    def _(self, change: ShareRejected, event: LoggedEvent) -> None:
        if change.reason != ShareReason.LEG_ENDED:
            self._provider(change.provider, event.height, rejected=1)
            self._count(change.share.order_id, "rejected")

    @_take.register
    def _(self, change: ShareCompared, event: LoggedEvent) -> None:
        counts = {"rejected": -1} if change.right else {"wrong": 1}
        self._provider(change.provider, event.height, **counts)
        if change.right:
            self._count(change.share.order_id, "rejected", -1)
        self._pot(burnt=change.burnt_from_stake)

    @_take.register
    def _(self, change: ShareFoundWrong, event: LoggedEvent) -> None:
        self._provider(change.provider, event.height, accepted=-1, rejected=1, wrong=1)

    @_take.register
    def _(self, change: PaymentMade, event: LoggedEvent) -> None:
        if not change.leg:
            column = "refunded" if change.kind == "refund" else "paid"
            self._count(change.order, column, change.amount)
        target = MOVES[change.kind].target
        self._pot(
            escrows=-change.amount,
            bonds=change.amount if target is BONDS_POT else 0,
            burnt=change.amount if target is BURNT_POT else 0,
            community=change.amount if target is COMMUNITY_POT else 0,
        )
        if change.kind in EARNINGS:
            self._earn(change.to, change.kind, change.amount, change.order)

    @_take.register
    def _(self, change: SeatPaid, event: LoggedEvent) -> None:
        beside = change.from_pot + change.from_pool
        self._earn(change.auditor, "auditor", beside, change.round.order_id)
        self._pot(audits=-change.from_pot, community=-change.from_pool)

    @_take.register
    def _(self, change: SeatSilent | SeatDiffered, event: LoggedEvent) -> None:
        self._pot(audits=change.cut)

    @_take.register
    def _(self, change: PanelEnded, event: LoggedEvent) -> None:
        self._pot(audits=-change.burnt, burnt=change.burnt)

    @_take.register
    def _(self, change: BondDeposited, event: LoggedEvent) -> None:
        self._pot(bonds=change.amount)

    @_take.register
    def _(self, change: BondReleased, event: LoggedEvent) -> None:
        self._pot(bonds=-change.amount)

    def _earn(self, address: str, kind: str, amount: int, order_id: bytes) -> None:
        if not amount:
            return
        self._do(
            "INSERT INTO earned_of VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET amount = amount + excluded.amount",
            address,
            order_id,
            amount,
        )
        self._do(
            "INSERT INTO earnings VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET amount = amount + excluded.amount",
            address,
            kind,
            amount,
        )

    def add_blocks(self, blocks: Iterable[BlockRow]) -> None:
        """Remember when blocks were made, and by whom."""
        with self._writing():
            for block in blocks:
                self._do(
                    "INSERT OR REPLACE INTO blocks VALUES (?, ?, ?)",
                    block.height,
                    block.time_ns,
                    block.proposer,
                )

    def forget_blocks(self, before: int) -> None:
        """Drop blocks below a height in which nothing happened."""
        with self._writing():
            self._do(
                "DELETE FROM blocks WHERE height < ? AND height NOT IN (SELECT height FROM events)",
                before,
            )

    def put_trace(self, key: ShareKey, trace: ShareTrace) -> None:
        """Keep what is known of the trace of a share, in the place of what was."""
        value = {
            "boundaries": [(b.step, b.root.hex(), b.metrics) for b in trace.boundaries],
            "replayed": [(r.segment, r.reason, r.root.hex()) for r in trace.replayed],
            "picks": trace.picks,
            "verdict": trace.verdict,
            "claimed": trace.claimed,
        }
        with self._writing():
            self._do(
                "INSERT OR REPLACE INTO traces VALUES (?, ?, ?, ?, ?, ?, ?)",
                *key,
                self.traced(0)[1] + 1,
                json.dumps(value, separators=(",", ":")),
            )

    # --- reading -----------------------------------------------------------------------------

    def trace(self, key: ShareKey) -> ShareTrace:
        """Return what is known of the trace of a share, which may be nothing."""
        rows = self._all(
            "SELECT trace FROM traces WHERE (order_id, leg, round, slot, issue) = (?, ?, ?, ?, ?)",
            *key,
        )
        return _trace(rows[0][0]) if rows else ShareTrace()

    def traces(self, order_id: bytes, leg: int) -> dict[ShareKey, ShareTrace]:
        """Return the traces of a leg."""
        rows = self._all(
            "SELECT round, slot, issue, trace FROM traces WHERE order_id = ? AND leg = ?",
            order_id,
            leg,
        )
        return {
            ShareKey(order_id=order_id, leg=leg, round=round, slot=slot, issue=issue): _trace(text)
            for round, slot, issue, text in rows
        }

    def traced(self, since: int) -> tuple[list[bytes], int]:
        """Return the orders of which traces changed after change number ``since``, and the number of the last one."""
        rows = self._all("SELECT DISTINCT order_id FROM traces WHERE change > ?", since)
        ((last,),) = self._all("SELECT COALESCE(MAX(change), 0) FROM traces")
        return [row[0] for row in rows], int(last)

    def unknown_blocks(self, limit: int) -> list[int]:
        """Return heights at which something happened and of which the time is not known, the newest first."""
        rows = self._all("SELECT height FROM blocks WHERE time_ns IS NULL ORDER BY height DESC LIMIT ?", limit)
        return [height for (height,) in rows]

    def blocks(self, limit: int, most: int = 2**62) -> list[BlockRow]:
        """Return the newest blocks up to the height ``most``, the newest first."""
        rows = self._all(
            "SELECT height, time_ns, proposer FROM blocks WHERE height <= ? AND time_ns IS NOT NULL "
            "ORDER BY height DESC LIMIT ?",
            most,
            limit,
        )
        return [BlockRow(*row) for row in rows]

    def block(self, height: int) -> BlockRow | None:
        """Return a block of which the time is known."""
        return next((row for row in self.blocks(1, height) if row.height == height), None)

    def events_at(self, height: int) -> tuple[int, int]:
        """Return the number of the first event of a block, and how many it has; (0, 0) without any.

        Events are numbered without gaps, so that no block is too full to be counted.
        """
        ((first, last),) = self._all(
            "SELECT (SELECT number FROM events WHERE height = ?1 ORDER BY number LIMIT 1), "
            "(SELECT number FROM events WHERE height = ?1 ORDER BY number DESC LIMIT 1)",
            height,
        )
        return (int(first), int(last) - int(first) + 1) if first else (0, 0)

    def last_seen(self, address: str) -> tuple[int, str]:
        """Return the height at which an address last did something, and what kind of event it was; (0, "") if never."""
        rows = self._all("SELECT height, kind FROM seen WHERE address = ?", address)
        return (int(rows[0][0]), rows[0][1]) if rows else (0, "")

    def seen(self) -> dict[str, int]:
        """Return the height at which each address last did something."""
        return dict(self._all("SELECT address, height FROM seen"))

    def block_time(self, height: int) -> int:
        """Return when a block was made (ns since the epoch), 0 where that is not known."""
        rows = self._all("SELECT time_ns FROM blocks WHERE height = ?", height)
        return int(rows[0][0] or 0) if rows else 0

    def events(self, since: int, limit: int) -> list[LoggedEvent]:
        """Return events from a number on."""
        rows = self._all(
            "SELECT number, height, kind, attributes FROM events WHERE number >= ? ORDER BY number LIMIT ?",
            since,
            limit,
        )
        return [_event(row) for row in rows]

    def latest(self, limit: int, order_id: bytes | None = None) -> list[LoggedEvent]:
        """Return the newest events, of an order if given, the newest first."""
        where, values = ("WHERE order_id = ?", (order_id,)) if order_id is not None else ("", ())
        rows = self._all(
            f"SELECT number, height, kind, attributes FROM events {where} ORDER BY number DESC LIMIT ?",
            *values,
            limit,
        )
        return [_event(row) for row in rows]

    def events_of(self, order_id: bytes, since: int = 0) -> list[LoggedEvent]:
        """Return the events of an order from a number on."""
        rows = self._all(
            "SELECT number, height, kind, attributes FROM events WHERE order_id = ? AND number >= ? ORDER BY number",
            order_id,
            since,
        )
        return [_event(row) for row in rows]

    def orders(
        self,
        *,
        state: int = 0,
        reason: int = 0,
        consumer: str = "",
        validator: str = "",
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[list[OrderRow], int]:
        """Return orders, the newest first, and how many there are; a filter that is empty lets all through."""
        parts: list[tuple[str, object]] = [
            (sql, value)
            for sql, value in (
                ("state = ?", state),
                ("reason = ?", reason),
                ("consumer = ?", consumer),
                ("order_id IN (SELECT order_id FROM validators_of WHERE validator = ?)", validator),
            )
            if value
        ]
        where = f"WHERE {' AND '.join(sql for sql, _ in parts)}" if parts else ""
        values = [value for _, value in parts]
        ((count,),) = self._all(f"SELECT COUNT(*) FROM orders {where}", *values)
        rows = self._all(
            f"SELECT {_COLUMNS} FROM orders {where} ORDER BY number DESC LIMIT ? OFFSET ?",
            *values,
            limit,
            offset,
        )
        return [_order_row(row) for row in rows], int(count)

    def spent(self, consumer: str) -> tuple[int, int]:
        """Return what a consumer's orders have paid, and what they still have locked (uassay)."""
        ((paid, locked),) = self._all(
            "SELECT COALESCE(SUM(paid), 0), COALESCE(SUM(deposit - paid - refunded), 0) FROM orders WHERE consumer = ?",
            consumer,
        )
        return int(paid), int(locked)

    def order(self, order_id: bytes) -> OrderRow | None:
        """Return an order's row."""
        rows = self._all(f"SELECT {_COLUMNS} FROM orders WHERE order_id = ?", order_id)
        return _order_row(rows[0]) if rows else None

    def find_orders(self, prefix: str, limit: int = 2) -> list[bytes]:
        """Return the ids that begin with so many hex digits."""
        low, high = (bytes.fromhex(prefix.ljust(64, digit)) for digit in "0f")
        rows = self._all("SELECT order_id FROM orders WHERE order_id BETWEEN ? AND ? LIMIT ?", low, high, limit)
        return [order_id for (order_id,) in rows]

    def count_reasons(self) -> dict[int, int]:
        """Return how many orders closed for which reason."""
        return dict(
            self._all(
                "SELECT reason, COUNT(*) FROM orders WHERE state = ? GROUP BY reason",
                int(OrderState.CLOSED),
            )
        )

    def submitted(self, order_id: bytes) -> Order | None:
        """Return an order as it was submitted."""
        rows = self._all(
            "SELECT e.number, e.height, e.kind, e.attributes FROM orders JOIN events AS e USING (number) "
            "WHERE orders.order_id = ?",
            order_id,
        )
        change = read_event(_event(rows[0])) if rows else None
        return change.record if isinstance(change, OrderSubmitted) else None

    def unnamed_orders(self, limit: int) -> list[tuple[bytes, bytes]]:
        """Return the newest orders of whose job no name is known: id and job."""
        return self._all(
            "SELECT order_id, job_id FROM orders WHERE job_id NOT IN (SELECT job_id FROM jobs) "
            "ORDER BY number DESC LIMIT ?",
            limit,
        )

    def name_jobs(self, names: Mapping[bytes, str]) -> None:
        """Keep the names of jobs."""
        with self._writing():
            for job_id, name in names.items():
                self._do("INSERT OR REPLACE INTO jobs VALUES (?, ?)", job_id, name)

    def job_name(self, job_id: bytes) -> str:
        """Return the name that a job's document gives it; empty where that is not known here."""
        rows = self._all("SELECT name FROM jobs WHERE job_id = ?", job_id)
        return str(rows[0][0]) if rows else ""

    def find_named(self, text: str, limit: int) -> list[tuple[bytes, str]]:
        """Return the newest orders whose job has a name with ``text`` in it: id and name."""
        return self._all(
            "SELECT order_id, name FROM orders JOIN jobs USING (job_id) WHERE instr(lower(name), ?) "
            "ORDER BY number DESC LIMIT ?",
            text.lower(),
            limit,
        )

    def count_states(self) -> dict[OrderState, int]:
        """Return how many orders are in each state."""
        rows = self._all("SELECT state, COUNT(*) FROM orders GROUP BY state")
        return {OrderState(state): count for state, count in rows}

    def earnings(self) -> dict[str, dict[str, int]]:
        """Return what each address earned (uassay), by the kind of payment."""
        found: dict[str, dict[str, int]] = {}
        for address, kind, amount in self._all("SELECT address, kind, amount FROM earnings"):
            found.setdefault(address, {})[kind] = amount
        return found

    def earned_of(self, address: str, limit: int) -> list[tuple[bytes, int]]:
        """Return the orders by which an address earned most, with the amount."""
        return self._all(
            "SELECT order_id, amount FROM earned_of WHERE address = ? ORDER BY amount DESC LIMIT ?",
            address,
            limit,
        )

    def providers(self) -> dict[str, ProviderRow]:
        """Return what became of the shares of each provider that committed one."""
        rows = self._all("SELECT address, accepted, rejected, wrong, height FROM providers")
        return {row[0]: ProviderRow(*row) for row in rows}

    def pots(self) -> dict[str, int]:
        """Return how many coins lie where (uassay), of what numbered events tell."""
        return dict.fromkeys(POTS, 0) | dict(self._all("SELECT name, amount FROM pots"))

    @property
    def size(self) -> int:
        """Bytes of the index."""
        ((pages,),) = self._all("PRAGMA page_count")
        ((page,),) = self._all("PRAGMA page_size")
        return int(pages) * int(page)


_COLUMNS: Final = ", ".join(OrderRow.__slots__)


def _order_row(row: Sequence[Any]) -> OrderRow:
    values = dict(zip(OrderRow.__slots__, row, strict=True))
    values["state"], values["work"] = OrderState(values["state"]), int(values["work"])
    values["unmatched"] = tuple(map(tuple, json.loads(values["unmatched"])))
    return OrderRow(**values)


def _trace(text: str) -> ShareTrace:
    value = json.loads(text)
    return ShareTrace(
        boundaries=tuple(
            Reached(index=index, step=step, root=bytes.fromhex(root), metrics=tuple(metrics))
            for index, (step, root, metrics) in enumerate(value["boundaries"], 1)
        ),
        replayed=tuple(Replayed(segment, reason, bytes.fromhex(root)) for segment, reason, root in value["replayed"]),
        picks=tuple(value["picks"]),
        verdict=value["verdict"],
        claimed=value["claimed"],
    )


def _event(row: Sequence[Any]) -> LoggedEvent:
    number, height, kind, attributes = row
    return LoggedEvent(
        number=number,
        height=height,
        type=kind,
        attributes=tuple(map(tuple, json.loads(attributes))),
    )


def order_of(change: Change | None) -> bytes | None:
    """Return the order that a change is about, None where it is about none."""
    for name in ("order", "round", "share"):
        value = getattr(change, name, None)
        if isinstance(value, bytes):
            return value
        if value is not None and hasattr(value, "order_id"):
            found: bytes = value.order_id
            return found
    return None
