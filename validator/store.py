"""The validator's records on disk: SQLite, written before anything is acted on."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from threading import RLock

from chain.types.codec import decode, encode
from validator.records import LocalOrder


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
        """Open or make the database."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = RLock()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.executescript(
            """
            PRAGMA journal_mode = WAL;
            CREATE TABLE IF NOT EXISTS orders (
                order_id BLOB, attempt INTEGER, record BLOB NOT NULL, PRIMARY KEY (order_id, attempt));
            CREATE TABLE IF NOT EXISTS verdicts (
                order_id BLOB, attempt INTEGER, round INTEGER, slot INTEGER, issue INTEGER,
                record BLOB NOT NULL, PRIMARY KEY (order_id, attempt, round, slot, issue));
            CREATE TABLE IF NOT EXISTS answered (
                order_id BLOB, attempt INTEGER, round INTEGER, agreed INTEGER,
                PRIMARY KEY (order_id, attempt, round));
            """
        )

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._database.close()

    def load(self, order_id: bytes, attempt: int) -> LocalOrder | None:
        """Return the record of an attempt."""
        rows = self._sql(
            "SELECT record FROM orders WHERE order_id = ? AND attempt = ?", order_id, attempt
        )
        return decode(LocalOrder, rows[0][0]) if rows else None

    def latest(self, order_id: bytes) -> LocalOrder | None:
        """Return the record of the last attempt that was this validator's."""
        rows = self._sql(
            "SELECT record FROM orders WHERE order_id = ? ORDER BY attempt DESC LIMIT 1", order_id
        )
        return decode(LocalOrder, rows[0][0]) if rows else None

    def save(self, local: LocalOrder) -> None:
        """Write a record."""
        self._sql(
            "INSERT OR REPLACE INTO orders VALUES (?, ?, ?)",
            local.order_id,
            local.attempt,
            encode(local),
        )

    def all_orders(self) -> list[tuple[bytes, int]]:
        """Return what is held, as (order id, attempt)."""
        return [(row[0], row[1]) for row in self._sql("SELECT order_id, attempt FROM orders")]

    def save_verdict(self, row: VerdictRow) -> None:
        """Write or replace the verdict on a share."""
        key = (row.order_id, row.attempt, row.round, row.slot, row.issue)
        self._sql("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?, ?, ?)", *key, encode(row))

    def verdicts(self, order_id: bytes | None = None) -> list[VerdictRow]:
        """Return the verdicts, of one order if given, by round, slot and issue."""
        where = "" if order_id is None else " WHERE order_id = ?"
        values = () if order_id is None else (order_id,)
        order = " ORDER BY order_id, attempt, round, slot, issue"
        rows = self._sql(f"SELECT record FROM verdicts{where}{order}", *values)  # noqa: S608
        return [decode(VerdictRow, row[0]) for row in rows]

    def save_answered(self, order_id: bytes, attempt: int, round: int, agreed: bool) -> None:
        """Remember that this validator answered an audit."""
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

    def _sql(self, text: str, *values: bytes | int) -> list[tuple[bytes, int, int, int]]:
        with self._lock:
            return self._database.execute(text, values).fetchall()
