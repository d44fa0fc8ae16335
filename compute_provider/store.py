"""What a provider remembers on disk, so that kill -9 in the middle of a round loses nothing."""

import fcntl
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from compute_provider.config import ProviderError
from compute_provider.decide.shares import State, Work
from domain import codec
from domain.records import ShareKey
from pol.work.records import Boundary


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other providers out of ``directory``, until this process ends in whatever way; ProviderError."""
    handle = os.open(directory / "provider.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ProviderError(
                f"a provider runs in {directory} already", "stop it, or use another home"
            ) from None
        yield
    finally:
        os.close(handle)


class Store:
    """A database and a folder for each share. Thread-safe; one process at a time."""

    def __init__(self, directory: Path) -> None:
        """Open what is in ``directory``, or start anew there."""
        self._shares = directory / "shares"
        self._shares.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = Lock()
        self._database = sqlite3.connect(
            directory / "provider.db", check_same_thread=False, isolation_level=None
        )
        self._database.executescript(
            """
            PRAGMA journal_mode = WAL;
            PRAGMA synchronous = FULL;
            CREATE TABLE IF NOT EXISTS works (key TEXT PRIMARY KEY, record BLOB NOT NULL);
            CREATE TABLE IF NOT EXISTS boundaries (
                key TEXT NOT NULL, number INTEGER NOT NULL, record BLOB NOT NULL,
                PRIMARY KEY (key, number));
            CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
            """
        )

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._database.close()

    # Shares

    def load(self) -> State:
        """Return the state as it was saved last."""
        rows = self._sql("SELECT record FROM works")
        works = [codec.decode(Work, record) for (record,) in rows]
        return State(tuple(sorted(works, key=lambda work: work.key)))

    def save(self, before: State, after: State) -> None:
        """Write what differs between two states, all or nothing."""
        old = {work.key: work for work in before.works}
        new = {work.key: work for work in after.works}
        with self._lock, self._transaction() as database:
            for key in old.keys() - new.keys():
                database.execute("DELETE FROM works WHERE key = ?", (name_of(key),))
            for key, work in new.items():
                if old.get(key) != work:
                    row = (name_of(key), codec.encode(work))
                    database.execute("INSERT OR REPLACE INTO works VALUES (?, ?)", row)

    def folder(self, key: ShareKey) -> Path:
        """Return the share's folder, which is made if need be."""
        folder = self._shares / name_of(key)
        folder.mkdir(exist_ok=True, mode=0o700)
        return folder

    def put_boundary(self, key: ShareKey, boundary: Boundary) -> None:
        """Remember a boundary whose states are on disk."""
        row = (name_of(key), boundary.index, codec.encode(boundary))
        self._sql("INSERT OR REPLACE INTO boundaries VALUES (?, ?, ?)", *row)

    def boundaries(self, key: ShareKey) -> tuple[Boundary, ...]:
        """Return the boundaries so far, without gaps from 0 on."""
        rows = self._sql(
            "SELECT record FROM boundaries WHERE key = ? ORDER BY number", name_of(key)
        )
        found = [codec.decode(Boundary, record) for (record,) in rows]
        whole = [b for index, b in enumerate(found) if b.index == index]
        return tuple(whole)

    def forget(self, key: ShareKey) -> None:
        """Delete all that is known of a share."""
        name = name_of(key)
        self._sql("DELETE FROM boundaries WHERE key = ?", name)
        shutil.rmtree(self._shares / name, ignore_errors=True)

    def leftovers(self, state: State) -> list[str]:
        """Return the names of shares that a crash has left here and that are not in the state."""
        known = {name_of(work.key) for work in state.works}
        return [folder.name for folder in self._shares.iterdir() if folder.name not in known]

    def sweep(self, state: State) -> None:
        """Delete what a crash has left of shares that are not in the state."""
        for name in self.leftovers(state):
            self._sql("DELETE FROM boundaries WHERE key = ?", name)
            shutil.rmtree(self._shares / name, ignore_errors=True)

    # Facts

    def fact(self, name: str) -> Any:
        """Return a remembered JSON value, or None."""
        rows = self._sql("SELECT value FROM facts WHERE name = ?", name)
        return json.loads(rows[0][0]) if rows else None

    def total(self, prefix: str) -> int:
        """Return the sum of the numbers whose names start with ``prefix``."""
        rows = self._sql("SELECT name, value FROM facts")
        return sum(json.loads(value) for name, value in rows if name.startswith(prefix))

    def put_fact(self, name: str, value: Any) -> None:
        """Remember a JSON value."""
        self._sql("INSERT OR REPLACE INTO facts VALUES (?, ?)", name, json.dumps(value))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield self._database
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:  # a full disk may have ended it already
                self._database.execute("ROLLBACK")
            raise

    def _sql(self, text: str, *values: bytes | str | int) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(text, values).fetchall()


def name_of(key: ShareKey) -> str:
    """Return a name for files and rows."""
    return f"{key.order_id.hex()}-{key.attempt}-{key.round}-{key.slot}-{key.issue}"
