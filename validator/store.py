"""The validator's records on disk: SQLite, written before anything is acted on."""

import logging
import sqlite3
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

from domain.codec import decode, encode
from domain.errors import Expected
from validator.decide.records import LocalOrder

_log = logging.getLogger("assay.validator")
CACHED = 64
"""Records kept decoded: they are frozen, and read far more often than written."""


_TABLES = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS orders (
    order_id BLOB, attempt INTEGER, record BLOB NOT NULL, PRIMARY KEY (order_id, attempt));
CREATE TABLE IF NOT EXISTS verdicts (
    order_id BLOB, attempt INTEGER, round INTEGER, slot INTEGER, issue INTEGER,
    record BLOB NOT NULL, PRIMARY KEY (order_id, attempt, round, slot, issue));
CREATE TABLE IF NOT EXISTS answered (
    order_id BLOB, attempt INTEGER, round INTEGER, agreed INTEGER,
    PRIMARY KEY (order_id, attempt, round));
CREATE TABLE IF NOT EXISTS closed (order_id BLOB PRIMARY KEY, seen REAL NOT NULL);
CREATE TABLE IF NOT EXISTS chain (
    only INTEGER PRIMARY KEY CHECK (only = 1), id TEXT NOT NULL, clock INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS damaged (order_id BLOB, attempt INTEGER, record BLOB);
"""


class StoreError(Expected):
    """A database that cannot be used: which, and what to do."""


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """What this validator found about one share, for people and scripts."""

    order_id: bytes
    attempt: int
    round: int
    slot: int
    issue: int
    provider: str
    segments: int
    checked: int
    reason: int  # ShareReason; NONE: accepted
    place: int  # where it failed: a segment, or n for the update; -1 where no place is concerned


class ValidatorStore:
    """Orders and verdicts in ``validator.db``. Thread-safe; one daemon at a time."""

    def __init__(self, path: Path) -> None:
        """Open or make the database; StoreError where the file is none."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = RLock()
        self._cache: OrderedDict[tuple[bytes, int], LocalOrder] = OrderedDict()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            self._database.executescript(_TABLES)
        except sqlite3.DatabaseError as error:
            self._database.close()
            raise StoreError(f"{path} cannot be used ({error}); restore it from a backup") from None

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._database.close()

    # The chain

    def chain(self, chain_id: str) -> str:
        """Return the chain that these records are about: ``chain_id``, if there was none before."""
        with self._lock:
            self._sql("INSERT OR IGNORE INTO chain VALUES (1, ?, 0)", chain_id)
            ((known,),) = self._sql("SELECT id FROM chain")
        return str(known)

    def seen_clock(self, clock: int = 0) -> int:
        """Return the latest chain clock (seconds) that was seen, after taking note of ``clock``."""
        with self._lock:
            if clock:
                self._sql("UPDATE chain SET clock = ? WHERE clock < ?", clock, clock)
            rows = self._sql("SELECT clock FROM chain")
        return int(rows[0][0]) if rows else 0

    # Records of attempts

    def set_aside_damaged(self) -> None:
        """Move records that cannot be read out of the way, so that they cost their own orders only."""
        with self._lock:
            rows = self._sql("SELECT order_id, attempt, record FROM orders")
            for order_id, attempt, record in rows:
                try:
                    decode(LocalOrder, record)
                except (ValueError, TypeError, KeyError) as error:
                    _log.error("lost attempt %d of order %s: %s", attempt, order_id.hex(), error)
                    self._sql("INSERT INTO damaged VALUES (?, ?, ?)", order_id, attempt, record)
                    self.forget(order_id, attempt)

    def load(self, order_id: bytes, attempt: int) -> LocalOrder | None:
        """Return the record of an attempt."""
        with self._lock:
            cached = self._cache.get((order_id, attempt))
            if cached is not None:
                self._cache.move_to_end((order_id, attempt))
                return cached
            rows = self._sql(
                "SELECT record FROM orders WHERE order_id = ? AND attempt = ?", order_id, attempt
            )
            if not rows:
                return None
            local = decode(LocalOrder, rows[0][0])
            self._remember(local)
            return local

    def latest(self, order_id: bytes) -> LocalOrder | None:
        """Return the record of the last attempt that was this validator's."""
        attempts = self.attempts(order_id)
        return self.load(order_id, attempts[0]) if attempts else None

    def attempts(self, order_id: bytes) -> list[int]:
        """Return the attempts of an order that are held, the last one first."""
        rows = self._sql(
            "SELECT attempt FROM orders WHERE order_id = ? ORDER BY attempt DESC", order_id
        )
        return [row[0] for row in rows]

    def save(self, local: LocalOrder) -> None:
        """Write a record."""
        with self._lock:
            self._sql(
                "INSERT OR REPLACE INTO orders VALUES (?, ?, ?)",
                local.order_id,
                local.attempt,
                encode(local),
            )
            self._remember(local)

    def forget(self, order_id: bytes, attempt: int) -> None:
        """Delete a record; verdicts stay, they are history."""
        with self._lock:
            self._cache.pop((order_id, attempt), None)
            self._sql("DELETE FROM orders WHERE order_id = ? AND attempt = ?", order_id, attempt)
            self._sql(
                "DELETE FROM closed WHERE order_id NOT IN (SELECT order_id FROM orders)",
            )

    def all_orders(self) -> list[tuple[bytes, int]]:
        """Return what is held, as (order id, attempt)."""
        return [(row[0], row[1]) for row in self._sql("SELECT order_id, attempt FROM orders")]

    def closed_since(self, order_id: bytes, now: float) -> float:
        """Return when (chain clock) this daemon first saw that an order is closed: ``now``, if it is new."""
        with self._lock:
            self._sql("INSERT OR IGNORE INTO closed VALUES (?, ?)", order_id, now)
            ((seen,),) = self._sql("SELECT seen FROM closed WHERE order_id = ?", order_id)
        return float(seen)

    # History

    def save_verdicts(self, rows: Iterable[VerdictRow]) -> None:
        """Write or replace verdicts on shares."""
        values = [
            (row.order_id, row.attempt, row.round, row.slot, row.issue, encode(row)) for row in rows
        ]
        with self._lock:
            self._database.execute("BEGIN")
            with self._database:  # commits, or rolls back
                self._database.executemany(
                    "INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?, ?, ?)", values
                )

    def verdicts(self, order_id: bytes | None = None) -> list[VerdictRow]:
        """Return the verdicts, of one order if given, by round, slot and issue."""
        where = "" if order_id is None else " WHERE order_id = ?"
        values = () if order_id is None else (order_id,)
        order = " ORDER BY order_id, attempt, round, slot, issue"
        rows = self._sql(f"SELECT record FROM verdicts{where}{order}", *values)  # noqa: S608
        return [decode(VerdictRow, row[0]) for row in rows]

    def save_answered(self, order_id: bytes, attempt: int, round: int, agreed: bool) -> None:
        """Remember that this validator answered an audit, and whether it found what the chain has."""
        self._sql(
            "INSERT OR REPLACE INTO answered VALUES (?, ?, ?, ?)",
            order_id,
            attempt,
            round,
            int(agreed),
        )

    def answered(self) -> list[tuple[bytes, int, int, bool]]:
        """Return the audits that this validator answered: order, attempt, round, agreed."""
        rows = self._sql("SELECT order_id, attempt, round, agreed FROM answered")
        return [(row[0], row[1], row[2], bool(row[3])) for row in rows]

    # Inside

    def _remember(self, local: LocalOrder) -> None:
        self._cache[local.order_id, local.attempt] = local
        self._cache.move_to_end((local.order_id, local.attempt))
        while len(self._cache) > CACHED:
            self._cache.popitem(last=False)

    def _sql(self, text: str, *values: bytes | str | float) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(text, values).fetchall()
