"""Typed records on disk: one SQLite database, with a table per kind of record, and each record under a tuple of keys.

A record is always written as a whole, so data that grow or change separately need a table of their own. If the process
is killed, either all writes of a transaction are in the file, or none of them is.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, Generic, Protocol, TypeVar

from host.disks import disk_error

R = TypeVar("R")
T = TypeVar("T")
Part = bytes | int | str
Key = tuple[Any, ...]
"""The parts of a record's key. They have the types that the record's table names."""
_TYPES = {bytes: "BLOB", int: "INTEGER", str: "TEXT"}
_BUSY_SECONDS = 30.0
"""Longest wait of a write for another program's write."""


class Unusable(Exception):
    """An error about a file whose records this program cannot use. The text has the reason and the remedy."""


def unusable(path: Path, error: sqlite3.Error) -> Exception:
    """Return the error for a database file: OSError if its disk is full or read-only, and otherwise Unusable."""
    reason = f"{path} cannot be used ({error})"
    return disk_error(path) or Unusable(f"{reason}; let this user read and write it, or restore it from a backup")


class Codec(Protocol):
    """The encoding of records; reading raises ValueError, TypeError or KeyError."""

    def encode(self, value: Any, /) -> bytes:
        """Return the bytes of a record."""
        ...

    def decode(self, cls: type[T], data: bytes, /) -> T:
        """Return the record of the class ``cls`` that ``data`` encodes."""
        ...


@dataclass(frozen=True, slots=True)
class RecordTable(Generic[R]):
    """A kind of record: the table's name, the record's class, and the types of its key's parts (bytes, int, str)."""

    name: str
    record: type[R]
    key: tuple[type[Part], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the key's columns."""
        return tuple(f"k{number}" for number in range(len(self.key)))


@dataclass(frozen=True, slots=True)
class Lost:
    """A record that could not be read and was set aside: its table, its key, and the reason."""

    table: str
    key: Key
    reason: str


class Records:
    """The records in a file. Thread-safe; other programs may read while one writes."""

    def __init__(
        self,
        path: Path,
        tables: Iterable[RecordTable[Any]],
        codec: Codec,
        form: int,
        *,
        read_only: bool = False,
    ) -> None:
        """Open the file, or make it; Unusable if it does not hold records of these tables, or has another ``form``.

        Raise OSError if its disk is full or read-only.

        ``form`` (1 or more) is the version of the records. It is increased whenever the program can no longer read
        older records. A ``read_only`` file must exist, and is never written.
        """
        self._path = path
        self._tables = tuple(tables)
        self._codec = codec
        self._lock = RLock()
        self._depth = 0
        if not read_only:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        elif not path.is_file():
            raise Unusable(f"{path} is not there; start the program that writes it first")
        try:
            self._database = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}",
                timeout=_BUSY_SECONDS,
                check_same_thread=False,
                isolation_level=None,
                uri=True,
            )
        except sqlite3.Error as error:
            raise unusable(path, error) from None
        try:
            if read_only:
                self._check(form)
            else:
                self._prepare(form)
        except sqlite3.DatabaseError as error:
            self._database.close()
            raise unusable(path, error) from None
        except Unusable:
            self._database.close()
            raise

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    # Records

    def get(self, table: RecordTable[R], *key: Part) -> R | None:
        """Return the record under a key, or None."""
        rows = self._sql(f"SELECT record FROM {table.name}{_where(table, key)}", *key)
        return self._codec.decode(table.record, rows[0][0]) if rows else None

    def scan(self, table: RecordTable[R], *prefix: Part) -> Iterator[tuple[Key, R]]:
        """Yield the records whose keys begin with these parts, in the order of their keys, as they are now."""
        columns = ", ".join(table.columns)
        rows = self._sql(
            f"SELECT record, {columns} FROM {table.name}{_where(table, prefix)} ORDER BY {columns}",
            *prefix,
        )
        for record, *key in rows:
            yield tuple(key), self._codec.decode(table.record, record)

    def keys(self, table: RecordTable[Any], *prefix: Part) -> list[Key]:
        """Return the keys that begin with these parts, in their order."""
        columns = ", ".join(table.columns)
        return self._sql(f"SELECT {columns} FROM {table.name}{_where(table, prefix)} ORDER BY {columns}", *prefix)

    def put(self, table: RecordTable[R], record: R, *key: Part) -> None:
        """Write a record under its whole key, replacing an existing one."""
        if len(key) != len(table.key):
            raise ValueError(f"a key of {table.name} has {len(table.key)} parts, not {len(key)}")
        marks = ", ".join("?" * (len(key) + 1))
        self._sql(
            f"INSERT OR REPLACE INTO {table.name} VALUES ({marks})",
            *key,
            self._codec.encode(record),
        )

    def delete(self, table: RecordTable[Any], *prefix: Part) -> None:
        """Delete the records whose keys begin with these parts."""
        self._sql(f"DELETE FROM {table.name}{_where(table, prefix)}", *prefix)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Carry out all writes of the block together, or none of them if the block raises an exception.

        Other writers wait meanwhile.
        """
        with self._lock:
            self._depth += 1
            try:
                if self._depth == 1:
                    self._database.execute("BEGIN IMMEDIATE")
                yield
                if self._depth == 1:
                    self._database.execute("COMMIT")
            except BaseException:
                if self._depth == 1 and self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1

    def set_aside_damaged(self) -> list[Lost]:
        """Move records that cannot be read into the table ``damaged``, and return them."""
        lost: list[Lost] = []
        for table in self._tables:
            for key in self.keys(table):
                try:
                    self.get(table, *key)
                except (ValueError, TypeError, KeyError) as error:
                    self._set_aside(table, key)
                    lost.append(Lost(table.name, key, str(error)))
        return lost

    def _set_aside(self, table: RecordTable[Any], key: Key) -> None:
        where = _where(table, key)
        name = f"{table.name} {key!r}"
        with self.transaction():
            self._sql(f"INSERT INTO damaged SELECT ?, record FROM {table.name}{where}", name, *key)
            self.delete(table, *key)

    @property
    def version(self) -> int:
        """A number that changes after each write by another program."""
        ((number,),) = self._sql("PRAGMA data_version")
        return int(number)

    # Inside

    def _check(self, form: int) -> None:
        ((known,),) = self._sql("PRAGMA user_version")
        if known != form:
            raise Unusable(
                f"{self._path} has records of version {known}, but this program reads version {form};"
                " use the program that wrote them"
            )

    def _prepare(self, form: int) -> None:
        self._sql("PRAGMA journal_mode = WAL")
        self._sql("PRAGMA synchronous = FULL")
        with self.transaction():
            ((known,),) = self._sql("PRAGMA user_version")
            if known == form:
                return
            if self._sql("SELECT 1 FROM sqlite_master LIMIT 1"):
                raise Unusable(
                    f"{self._path} has records of version {known}, but this program needs version {form};"
                    " move the file away, or use another home"
                )
            for table in self._tables:
                columns = (f"{c} {_TYPES[t]}" for c, t in zip(table.columns, table.key, strict=True))
                primary = ", ".join(table.columns)
                self._sql(
                    f"CREATE TABLE {table.name} ({', '.join(columns)}, record BLOB NOT NULL, PRIMARY KEY ({primary}))"
                )
            self._sql("CREATE TABLE damaged (name TEXT NOT NULL, record BLOB NOT NULL)")
            self._sql(f"PRAGMA user_version = {form}")

    def _sql(self, text: str, *values: Part) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._database.execute(text, values).fetchall()
            except sqlite3.OperationalError as error:
                # SQLite's text does not name the file, and calls a full disk an I/O error.
                raise disk_error(self._path) or error from None


def _where(table: RecordTable[Any], parts: Key) -> str:
    columns = table.columns[: len(parts)]
    return " WHERE " + " AND ".join(f"{column} = ?" for column in columns) if columns else ""
