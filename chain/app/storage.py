"""The node's database: one LevelDB, one atomic batch per commit, and snapshots for reading.

A batch contains the state's changes, the tree's changed pages, the head (height, app hash, time), the transactions by
hash, and the numbered events. So after a crash the database has either the whole block or no part of it. A batch is not
synced to the disk, so a power failure may lose the last commits. The store is then older but consistent, and consensus
replays the lost blocks.

Every read compares the checksums that LevelDB keeps, and a file that differs from its checksum is an error. Otherwise a
damaged file could become another state. An error of the disk is a StorageError, which names the directory and the
remedy.
"""

import errno
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

import plyvel

from chain.app import smt
from chain.app.homes import comet_home
from chain.app.interfaces import ChainHead, CommittedBlock, StoredTx
from chain.app.tree_page import Page, decode_page
from domain import codec
from domain.block import TxResult
from domain.errors import Expected
from domain.events import Event
from domain.node.queries import LoggedEvent

# --- encoding of heads, transactions and events --------------------------------------------------

# Transactions and events have an encoding of their own, because thousands of them are encoded between two blocks. It
# takes a fifth of the time of :mod:`domain.codec`.


_write_json: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
NO_HEAD = ChainHead("", CommittedBlock(height=0, time_ns=0, hash=b"", proposer=b"", app_hash=b""), 1)
"""The head of a store without a block."""


def encode_tx(tx: StoredTx) -> bytes:
    """Return the bytes of a transaction with its result. Two values are left out: the time, which its block has, and
    the hash, which is its key.
    """
    result = tx.result
    record = (
        tx.height,
        tx.index,
        tx.raw.hex(),
        result.code,
        result.codespace,
        result.log,
        result.gas_wanted,
        result.gas_used,
        [(event.type, event.attributes, event.number) for event in result.events],
        [(name, value.hex()) for name, value in result.responses],
    )
    return _write_json(record).encode()


def decode_tx_height(data: bytes) -> int:
    """Return the height of an encoded transaction."""
    height: int = json.loads(data)[0]
    return height


def decode_tx(tx_hash: bytes, data: bytes, time_ns: int) -> StoredTx:
    """Return the transaction that :func:`encode_tx` wrote; ``tx_hash`` is its key, ``time_ns`` its block's time."""
    height, index, raw, code, space, log, wanted, used, events, responses = json.loads(data)
    result = TxResult(
        code=code,
        codespace=space,
        log=log,
        gas_wanted=wanted,
        gas_used=used,
        events=tuple(
            Event(kind, tuple((name, value) for name, value in attributes), number)
            for kind, attributes, number in events
        ),
        responses=tuple((name, bytes.fromhex(value)) for name, value in responses),
    )
    return StoredTx(
        hash=tx_hash,
        height=height,
        index=index,
        time_ns=time_ns,
        raw=bytes.fromhex(raw),
        result=result,
    )


def encode_event(event: Event, height: int) -> bytes:
    """Return the bytes of a numbered event; its number is its key."""
    return _write_json((height, event.type, event.attributes)).encode()


def decode_event(number: int, data: bytes) -> LoggedEvent:
    """Return the event that :func:`encode_event` wrote."""
    height, kind, attributes = json.loads(data)
    return LoggedEvent(
        number=number,
        height=height,
        type=kind,
        attributes=tuple((name, value) for name, value in attributes),
    )


# --- the store -----------------------------------------------------------------------------------


FORMAT = b"2"
_STATE: Final = b"s"
_PAGE: Final = b"n"
_BLOCK: Final = b"b"
_TX: Final = b"t"
_BLOCK_TXS: Final = b"h"
_EVENT: Final = b"e"
_PARTS: Final = {"state": _STATE, "tree": _PAGE, "blocks": _BLOCK, "txs": _TX, "events": _EVENT}
_HASH_BYTES: Final = 32
_HEAD: Final = b"mhead"
_FORMAT_KEY: Final = b"mformat"
_MAKER: Final = b"mmaker"
LARGE_COMMIT: Final = 100_000
"""The most keys of a commit that stays in the log; a larger one, such as a genesis, is moved into a table at once.

LevelDB would read the whole log at the next start, with twice its size in memory.
"""


class Maker(StrEnum):
    """The program that makes the blocks of a store."""

    COMETBFT = "cometbft"
    SOLO = "solo"


_CONFLICTS: Final = {
    Maker.COMETBFT: (
        "has blocks of a solo node, which CometBFT lacks",
        "start the node with --solo, or use another --home for CometBFT",
    ),
    Maker.SOLO: (
        "has blocks of CometBFT, and solo blocks would fork this chain for good",
        "start the node without --solo, or use another --home for --solo",
    ),
}


class StorageError(Expected):
    """An error about a database that cannot be used."""


class StoreSnapshot:
    """A read-only copy of the store as of one commit. Any thread may read it."""

    def __init__(self, snapshot: Any, path: Path) -> None:
        """Use a LevelDB snapshot of the store in ``path``; ``head`` is read from it, so it belongs to the same
        commit.
        """
        self._snapshot = snapshot
        self._path = path
        head = _get(snapshot, _HEAD, path)
        self.head = NO_HEAD if head is None else codec.decode(ChainHead, head)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key of the state, or None."""
        return _get(self._snapshot, _STATE + key, self._path)

    def scan(self, prefix: bytes, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield the state's keys with ``prefix``, and their values, ascending; only keys above ``after`` if given."""
        start = _STATE + max(prefix, after)
        include = not after or after < prefix
        for key, value in _rows(self._snapshot, self._path, start, _end_of(_STATE + prefix), include):
            yield key[1:], value

    def page(self, prefix: str) -> Page | None:
        """Return a page of the state's Merkle tree by its prefix, or None."""
        return _page(self._snapshot, prefix, self._path)


class Storage:
    """The open database. One thread commits; any thread takes snapshots and reads."""

    def __init__(self, path: Path) -> None:
        """Open or create the database in ``path``; StorageError has the reason if that is impossible."""
        self.path = path
        self._db = _open(path)
        # The upper pages of the newest tree that a commit has changed since the start.
        self._upper: dict[str, Page] = {}
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        try:
            self._check_format()
        except StorageError:
            self._db.close()
            raise

    def _check_format(self) -> None:
        stored = self._get(_FORMAT_KEY)
        if stored is None and self._get(_HEAD) is None:
            self._put(_FORMAT_KEY, FORMAT)
        elif stored != FORMAT:
            raise StorageError(
                f"{self.path} has format {(stored or b'unknown').decode(errors='replace')}, but this"
                f" version reads format {FORMAT.decode()}",
                f"use the version of Assay that wrote it, or {_again(self.path, 'old')}",
            )

    @classmethod
    def temporary(cls) -> Self:
        """Return a database that is deleted when it is closed."""
        directory = tempfile.TemporaryDirectory(prefix="assay-db-")
        storage = cls(Path(directory.name) / "db")
        storage._temporary = directory
        return storage

    def close(self) -> None:
        """Close the database; snapshots taken from it end too."""
        self._db.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def claim(self, maker: Maker) -> None:
        """Record that ``maker`` makes the next blocks.

        Raise StorageError if the store has blocks of another maker.

        CometBFT knows only its own blocks, not the blocks that a solo node made. A store without blocks may change its
        maker.
        """
        previous = self._get(_MAKER)
        has_blocks = self._get(_HEAD) is not None
        if has_blocks and previous is not None and previous != maker.encode():
            reason, remedy = _CONFLICTS[maker]
            raise StorageError(f"{self.path} {reason}", remedy)
        if previous != maker.encode():
            self._put(_MAKER, maker.encode())

    def snapshot(self) -> StoreSnapshot:
        """Return the newest committed state."""
        return StoreSnapshot(self._db.snapshot(), self.path)

    def page(self, prefix: str) -> Page | None:
        """Return a page of the newest committed tree by its prefix, or None. Only the thread that commits calls it."""
        return self._upper.get(prefix) or _page(self._db, prefix, self.path)

    def commit(
        self,
        head: ChainHead,
        changes: Mapping[bytes, bytes | None],
        tree: smt.TreeUpdate = smt.UNCHANGED,
        txs: Sequence[StoredTx] = (),
        events: Sequence[Event] = (),
    ) -> None:
        """Write a block as one atomic batch."""
        batch = self._db.write_batch(transaction=False)
        for key, value in changes.items():
            if value is None:
                batch.delete(_STATE + key)
            else:
                batch.put(_STATE + key, value)
        for prefix, page in tree.pages.items():
            if page is None:
                batch.delete(_PAGE + prefix.encode())
            else:
                batch.put(_PAGE + prefix.encode(), page)
        height = head.block.height
        batch.put(_BLOCK + height.to_bytes(8, "big"), codec.encode(head.block))
        batch.put(_BLOCK_TXS + height.to_bytes(8, "big"), b"".join(tx.hash for tx in txs))
        for tx in self._indexed(txs):
            batch.put(_TX + tx.hash, encode_tx(tx))
        for event in events:
            batch.put(_EVENT + event.number.to_bytes(8, "big"), encode_event(event, height))
        batch.put(_HEAD, codec.encode(head))
        self._write(batch)
        for prefix, page in tree.pages.items():
            if page is None:
                self._upper.pop(prefix, None)
        self._upper.update(tree.upper)
        if len(changes) > LARGE_COMMIT:
            self._empty_log()

    def _indexed(self, txs: Sequence[StoredTx]) -> Iterator[StoredTx]:
        """Yield the transactions of a block that must be stored under their hash.

        If a transaction with the same bytes is stored already, the stored one is kept if it succeeded, and replaced if
        it failed.
        """
        seen: dict[bytes, StoredTx] = {}
        for tx in txs:
            earlier = seen.get(tx.hash) or self.tx(tx.hash)
            if earlier is None or earlier.result.code != 0:
                seen[tx.hash] = tx
        yield from seen.values()

    def _write(self, batch: Any) -> None:
        """Write the batch atomically; this commits the block."""
        try:
            batch.write()
        except plyvel.Error as error:
            raise _unwritten(self.path, error) from None

    def _empty_log(self) -> None:
        """Move the log's content into a table; the next start has nothing to read again."""
        try:
            # No key is in this range: only the memory beside the log is written, and no other table is read.
            self._db.compact_range(start=b"\xff", stop=b"\xff")
        except plyvel.Error as error:
            raise _unwritten(self.path, error) from None

    def _get(self, key: bytes) -> bytes | None:
        return _get(self._db, key, self.path)

    def _put(self, key: bytes, value: bytes) -> None:
        try:
            self._db.put(key, value)
        except plyvel.Error as error:
            raise _unwritten(self.path, error) from None

    def sizes(self) -> dict[str, int]:
        """Return the approximate bytes on disk of each part of the database; the newest data may be missing."""
        return {name: int(self._db.approximate_size(prefix, _end_of(prefix))) for name, prefix in _PARTS.items()}

    def block(self, height: int) -> CommittedBlock | None:
        """Return a committed block by its height, or None."""
        if not 0 < height < 2**63:
            return None
        data = self._get(_BLOCK + height.to_bytes(8, "big"))
        return None if data is None else codec.decode(CommittedBlock, data)

    def tx(self, tx_hash: bytes) -> StoredTx | None:
        """Return a committed transaction by the SHA-256 of its bytes, or None."""
        data = self._get(_TX + tx_hash)
        if data is None:
            return None
        block = self.block(decode_tx_height(data))
        return decode_tx(tx_hash, data, 0 if block is None else block.time_ns)

    def block_txs(self, height: int) -> tuple[bytes, ...] | None:
        """Return the hashes of a block's transactions in order; None if an earlier version wrote the block."""
        if not 0 < height < 2**63:
            return None
        data = self._get(_BLOCK_TXS + height.to_bytes(8, "big"))
        if data is None:
            return None
        return tuple(data[at : at + _HASH_BYTES] for at in range(0, len(data), _HASH_BYTES))

    def events(self, since: int, until: int, limit: int) -> tuple[LoggedEvent, ...]:
        """Return at most ``limit`` events with numbers from ``since`` to below ``until``."""
        first = max(since, 1)
        return tuple(decode_event(number, data) for number, data in self.event_rows(first, min(until, first + limit)))

    def event_rows(self, since: int, until: int) -> Iterator[tuple[int, bytes]]:
        """Yield the numbers and bytes (:func:`encode_event`) of events from ``since`` to below ``until``."""
        first = max(since, 1)
        if first >= until:
            return
        start, end = (_EVENT + number.to_bytes(8, "big") for number in (first, until))
        for key, data in _rows(self._db, self.path, start, end):
            yield int.from_bytes(key[1:], "big"), data


_SETTINGS: Final = {
    "bloom_filter_bits": 10,  # about one of 100 reads of an absent key looks into a table in vain
    "lru_cache_size": 64 << 20,  # bytes of decompressed blocks
    "write_buffer_size": 16 << 20,  # bytes of a log, and of the memory beside it; two exist for a moment
    "max_file_size": 8 << 20,
}
"""The settings of LevelDB. They hold for what is written from now on, so that they may change without a new format."""


def _open(path: Path) -> Any:
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not (path / "CURRENT").exists() and (any(path.glob("*.ldb")) or any(path.glob("*.log"))):
            # LevelDB would begin a new database with a part of the old one.
            raise _damaged(path, "CURRENT is missing")
        return plyvel.DB(str(path), create_if_missing=True, paranoid_checks=True, **_SETTINGS)
    except (plyvel.Error, OSError) as error:
        raise _unopened(path, error) from None


def _get(reader: Any, key: bytes, path: Path) -> bytes | None:
    """Return the value of a key in a database or snapshot, or None; StorageError if its file is damaged."""
    try:
        value: bytes | None = reader.get(key, verify_checksums=True)
    except plyvel.Error as error:
        raise _unread(path, error) from None
    return value


def _page(reader: Any, prefix: str, path: Path) -> Page | None:
    """Return a page of the tree in a database or snapshot; StorageError if it is damaged or missing.

    An empty tree has no page at its root, and None is returned. The tree looks for no other page that is not there.
    """
    data = _get(reader, _PAGE + prefix.encode(), path)
    if data is None and prefix:
        raise _damaged(path, f"the tree lacks the page at {prefix}")
    try:
        return None if data is None else decode_page(data)
    except ValueError as error:
        raise _damaged(path, str(error)) from None


def _rows(
    reader: Any, path: Path, start: bytes, stop: bytes, include_start: bool = True
) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values of a database or snapshot, ascending; StorageError if a file is damaged."""
    try:
        with reader.iterator(start=start, stop=stop, include_start=include_start, verify_checksums=True) as rows:
            yield from rows
    except plyvel.Error as error:
        raise _unread(path, error) from None


def _damaged(path: Path, reason: str) -> StorageError:
    return StorageError(
        f"{path} is damaged ({reason})",
        _again(path, "damaged"),
    )


def _again(path: Path, word: str) -> str:
    """Return the remedy for a database that this version cannot read."""
    return (
        f"move it away (mv {path} {path}.{word}) and start the node: it computes its state again from CometBFT's"
        " blocks, see docs/operate/upkeep.md; a node started with --solo has no other blocks, so it starts again in"
        " an empty home or from a copy"
    )


def _unopened(path: Path, error: Exception) -> StorageError:
    """Return the error for a database that cannot be opened."""
    if isinstance(error, plyvel.CorruptionError) or _is_cut(error):
        return _damaged(path, _words(error))
    if "already held by process" in _words(error) or os.strerror(errno.EAGAIN) in _words(error):
        return StorageError(
            f"{path} is in use by another process",
            "stop the node that runs with this home, or use another --home",
        )
    return StorageError(f"{path} cannot be opened ({_words(error)})", _remedy(error))


def _unread(path: Path, error: Exception) -> StorageError:
    """Return the error for a database whose files cannot be read."""
    if isinstance(error, plyvel.CorruptionError) or _is_cut(error):
        return _damaged(path, _words(error))
    return StorageError(f"{path} cannot be read ({_words(error)})", _remedy(error))


def _unwritten(path: Path, error: Exception) -> StorageError:
    """Return the error for a block that could not be written."""
    if isinstance(error, plyvel.CorruptionError) or _is_cut(error):
        return _damaged(path, _words(error))
    return StorageError(f"{path} cannot be written ({_words(error)})", _remedy(error))


def _is_cut(error: Exception) -> bool:
    """Return whether a table of the database is shorter than its index says; LevelDB calls this an invalid argument."""
    return _words(error).endswith(os.strerror(errno.EINVAL))


_REMEDIES: Final = (
    (errno.ENOSPC, "free some space on its disk, and start the node again"),
    (errno.EDQUOT, "free some space of the disk quota, and start the node again"),
    (errno.EROFS, "mount its disk so that it can be written (mount -o remount,rw), and start the node again"),
    (errno.EIO, "replace its disk, and restore the home from a copy, see docs/operate/backup.md"),
    (errno.EMFILE, "raise the limit of open files (ulimit -n), and start the node again"),
)


def _remedy(error: Exception) -> str:
    """Return the remedy for an error of the operating system, which LevelDB reports as text."""
    words = _words(error)
    fitting = (remedy for number, remedy in _REMEDIES if os.strerror(number) in words)
    return next(fitting, "let this user read and write it, or use another --home")


def _words(error: Exception) -> str:
    """Return the text of an error of LevelDB, which may be bytes."""
    text = error.args[0] if error.args else ""
    return text.decode(errors="replace") if isinstance(text, bytes) else str(error)


def _end_of(prefix: bytes) -> bytes:
    """Return the first key that comes after all keys with ``prefix``.

    The first byte of ``prefix`` must be below 0xFF.
    """
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes((trimmed[-1] + 1,))


# --- export --------------------------------------------------------------------------------------


def export_state(home: Path) -> dict[str, Any]:
    """Return chain id, height, app hash and every key with its value (hex), from the store of a stopped node.

    The app hash is computed again from the keys and values, so the export is verified. StorageError if the store cannot
    be opened (a running node holds it), is empty, or does not match its own app hash.
    """
    path = comet_home(home) / "data" / "assay.db"
    if not path.exists():
        raise StorageError(f"{path} does not exist", "start the node once, or use another --home")
    storage = Storage(path)
    try:
        snapshot = storage.snapshot()
        block = snapshot.head.block
        entries = dict(snapshot.scan(b""))
    finally:
        storage.close()
    if not block.height:
        raise StorageError(f"{path} has no block yet", "start the node first")
    root = smt.update(lambda _prefix: None, {**entries}).root
    if root != block.app_hash:
        reason = f"{path} is damaged: its state does not match the app hash of its head"
        raise StorageError(reason, "restore the home from a copy, see docs/operate/backup.md")
    return {
        "chain_id": snapshot.head.chain_id,
        "height": block.height,
        "time_ns": block.time_ns,
        "app_hash": block.app_hash.hex(),
        "state": [{"key": key.hex(), "value": value.hex()} for key, value in entries.items()],
    }
