"""The database file of the index, used by many threads and rebuilt for another table format or another chain."""

import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import IO, Any, Final
from zlib import crc32

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
CREATE TABLE policies (
    name TEXT PRIMARY KEY, technology TEXT NOT NULL, valid_for INTEGER NOT NULL, added_at INTEGER NOT NULL,
    withdrawn_at INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE credentials (
    credential BLOB PRIMARY KEY, owner TEXT NOT NULL, policy TEXT NOT NULL, since INTEGER NOT NULL,
    ends_at INTEGER NOT NULL, banned_at INTEGER NOT NULL DEFAULT 0, number INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX credentials_by_number ON credentials (number);
CREATE TABLE judgements (
    owner TEXT PRIMARY KEY, policy TEXT NOT NULL, credential BLOB NOT NULL, asked_at INTEGER NOT NULL,
    wanted INTEGER NOT NULL, seats INTEGER NOT NULL DEFAULT 0, committed INTEGER NOT NULL DEFAULT 0,
    revealed INTEGER NOT NULL DEFAULT 0, until INTEGER NOT NULL DEFAULT 0, verdict INTEGER NOT NULL DEFAULT 0,
    reason INTEGER NOT NULL DEFAULT 0, number INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX judgements_by_number ON judgements (number);
CREATE TABLE traces (
    order_id BLOB, leg INTEGER, round INTEGER, slot INTEGER, issue INTEGER,
    change INTEGER NOT NULL, trace TEXT NOT NULL, PRIMARY KEY (order_id, leg, round, slot, issue)
) WITHOUT ROWID;
CREATE INDEX traces_by_change ON traces (change);
"""
# Tables that are cleared when the node follows another chain than before. Names of jobs stay: a job is the same on
# every chain.
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
    "policies",
    "credentials",
    "judgements",
    "traces",
)


FORM: Final = crc32(_SCHEMA.encode()) & 0x7FFF_FFFF
"""Version of the table format, a checksum of the schema; an index of another version is rebuilt."""


class Database:
    """A thread-safe database in a file. It is in memory if no path is given or another program uses the file."""

    def __init__(self, path: Path | None = None) -> None:
        """Open the index. If the file is not a database, or has another table format, replace it by an empty index."""
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
            # The index can be deleted, because the chain has all of its data.
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
                # The file is not a database, which the caller notices with its first query.
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

    # --- chain ------------------------------------------------------------------------------

    @property
    def next(self) -> int:
        """The number of the next event that the index needs."""
        ((last,),) = self._all("SELECT COALESCE(MAX(number), 0) FROM events")
        return int(last) + 1

    @property
    def chain(self) -> tuple[str, str]:
        """The chain id and the hash of the chain's first event; both empty in a new index."""
        rows = dict(self._all("SELECT name, value FROM meta"))
        return rows.get("chain_id", ""), rows.get("first", "")

    def begin(self, chain_id: str, first: str) -> None:
        """Clear the index, and set the chain whose events it will store: its id and the hash of its first event."""
        with self._writing():
            for table in _TABLES:
                self._do(f"DELETE FROM {table}")
            self._do("INSERT INTO meta VALUES ('chain_id', ?), ('first', ?)", chain_id, first)

    @property
    def size(self) -> int:
        """Size of the index in bytes."""
        ((pages,),) = self._all("PRAGMA page_count")
        ((page,),) = self._all("PRAGMA page_size")
        return int(pages) * int(page)
