"""A store of content-addressed blobs on disk: resumable, verified, within quotas, and kept while they are held.

A blob's name is the SHA-256 of its bytes. The bytes of an incomplete blob are in ``partial/``, in a file whose name
contains the blob's name, its declared size and its owner. So no owner can damage another owner's upload. A complete
file is hashed, and then renamed into place or deleted. The files decide which bytes are stored; a small database next
to them records owners and holds.

Only bytes that have arrived count against a quota; announced bytes do not. An owner sends the whole blob even if other
owners have sent it before. So no caller can find out which blobs the other owners have sent.
"""

import os
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from threading import Lock, RLock
from typing import Any, BinaryIO

from host.records import Unusable, unusable
from link.errors import BlobStoreError, ClusterError, ClusterErrorKind
from link.types import BlobRef, BlobStatus

_READ_BYTES = 1 << 20
_LOCKS = 64


class BlobStore:
    """The blobs in a directory. Thread-safe; only one process may use a directory at a time."""

    def __init__(self, directory: Path, quota: int, owner_quota: int | None = None, kept_free: int = 0) -> None:
        """Open the store, with ``quota`` bytes in all and ``owner_quota`` for each owner except this machine.

        Raise OSError if its disk is full or read-only, and BlobStoreError if its database is damaged.

        ``kept_free`` bytes are reserved for blobs made here (owner ""); other owners can fill only the rest.
        """
        self._complete = directory / "complete"
        self._partial = directory / "partial"
        for folder in (self._complete, self._partial):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._quota = quota
        self._kept_free = kept_free
        self.owner_quota = quota if owner_quota is None else owner_quota
        self._locks = [RLock() for _ in range(_LOCKS)]
        self._database_lock = Lock()
        # This lock is taken before the locks of names. It prevents a new hold on a blob between the check for holds and
        # the blob's deletion.
        self._hold_lock = Lock()
        # Owner and number of received bytes of each incomplete blob, by name. The database's lock guards this attribute
        # and the next one.
        self._arrived: dict[str, tuple[str, int]] = {}
        # Total size of the whole blobs per owner. Under the key None, each blob counts once. The attribute is None if
        # the sizes must be counted again.
        self._whole: Counter[str | None] | None = None
        self._database = _open_database(directory / "blobs.db")
        try:
            self._reconcile()
        except sqlite3.Error as error:
            self._database.close()
            raise _unusable(directory / "blobs.db", error) from None

    def close(self) -> None:
        """Close the database."""
        with self._database_lock:
            self._database.close()

    # Reading

    def has(self, digest: bytes) -> bool:
        """Return whether the store has the whole blob with this SHA-256."""
        return self.path(digest).exists()

    def path(self, digest: bytes) -> Path:
        """Return the path of the whole blob; callers must not write there."""
        name = _name_of(digest)
        return self._complete / name[:2] / name

    def size(self, digest: bytes) -> int:
        """Return the size of a whole blob; ClusterError NOT_FOUND if it is not here."""
        try:
            return self.path(digest).stat().st_size
        except FileNotFoundError:
            raise _absent(digest) from None

    def open(self, digest: bytes) -> BinaryIO:
        """Return a whole blob as a file open for reading; ClusterError NOT_FOUND if it is not here."""
        try:
            return self.path(digest).open("rb")
        except FileNotFoundError:
            raise _absent(digest) from None

    def read(self, digest: bytes, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes of a whole blob from ``offset`` on; NOT_FOUND if it is not here."""
        with self.open(digest) as file:
            file.seek(offset)
            return file.read(length)

    def sent(self, blob: BlobRef, owner: str = "") -> bool:
        """Return whether the store has the whole blob with this size, sent by ``owner`` ("": by any owner)."""
        if not self.has(blob.sha256) or self.size(blob.sha256) != blob.size:
            return False
        name = _partial_name(blob, owner)
        return not owner or bool(self._sql("SELECT 1 FROM blobs WHERE name = ? AND complete", name))

    def status(self, blob: BlobRef, owner: str = "") -> BlobStatus:
        """Return how many bytes of the blob ``owner`` has sent; the owner continues at that offset."""
        name = _partial_name(blob, owner)
        with self._locks[hash(name) % _LOCKS]:  # not while another thread checks its last byte
            if self.sent(blob, owner):
                return BlobStatus(blob.size, True)
            partial = self._partial / name
            received = partial.stat().st_size if partial.exists() else 0
            if received < blob.size:
                return BlobStatus(received, False)
            try:  # the last byte arrived, and the process was killed before it checked the blob
                return self._finish(partial, name, blob)
            except ClusterError:
                return BlobStatus(0, False)

    def total(self, owner: str | None = None) -> int:
        """Return the number of stored bytes of one owner, or of all owners if None; incomplete blobs count too."""
        with self._database_lock:
            return self._used(owner)

    def room(self, owner: str) -> int:
        """Return the number of bytes that an owner may still send now."""
        with self._database_lock:
            return max(0, min(self._free(owner), self.owner_quota - self._used(owner)))

    def unclaimed(self, owner: str, besides: BlobRef) -> tuple[int, int]:
        """Return the number of an owner's blobs that have no hold, and the sum of their declared sizes (bytes).

        The blob ``besides`` is not counted.
        """
        ((count, size),) = self._sql(
            "SELECT COUNT(*), COALESCE(SUM(size), 0) FROM blobs WHERE owner = ? AND name != ? AND NOT EXISTS"
            " (SELECT 1 FROM holds WHERE holds.sha256 = blobs.sha256)",
            owner,
            _partial_name(besides, owner),
        )
        return int(count), int(size)

    # Writing

    def put(self, blob: BlobRef, offset: int, data: bytes, owner: str = "") -> BlobStatus:
        """Store bytes of a blob from ``offset`` on, and return how many of its bytes are here.

        Bytes that are already here are skipped. A call that would leave a gap raises WRONG_STATE. When the last byte
        has arrived, the blob is hashed. If the hash is right, the blob is whole. Otherwise the blob is deleted, and the
        call raises WRONG_CONTENT.
        """
        if offset + len(data) > blob.size:
            raise ClusterError(
                ClusterErrorKind.BAD_REQUEST,
                f"goes beyond the end of the blob, which has {blob.size} bytes",
                "send only the remaining bytes",
                field="data",
            )
        name = _partial_name(blob, owner)
        with self._locks[hash(name) % _LOCKS]:
            if self.sent(blob, owner):
                return BlobStatus(blob.size, True)
            partial = self._partial / name
            exists = partial.exists()
            received = partial.stat().st_size if exists else 0
            if offset > received:
                raise ClusterError(
                    ClusterErrorKind.WRONG_STATE,
                    f"leaves a gap: only the first {received} bytes have arrived",
                    f"continue at the offset {received}",
                    field="offset",
                )
            new = data[received - offset :]
            self._reserve(name, blob, owner, received, len(new))
            if not exists:
                partial.touch(mode=0o600)
            try:
                with partial.open("ab") as file:
                    file.write(new)
                    received = file.tell()
            except OSError:  # for example a full disk: the bytes that were written are counted
                self._note(name, owner, partial.stat().st_size)
                raise
            if received < blob.size:
                return BlobStatus(received, False)
            return self._finish(partial, name, blob)

    def add(self, data: bytes, owner: str = "") -> BlobRef:
        """Store a whole blob that was made here, and return its reference."""
        blob = BlobRef(sha256(data).digest(), len(data))
        self.put(blob, 0, data, owner)
        return blob

    def gather(self, pieces: Iterable[bytes]) -> BlobRef:
        """Store a whole blob that is made here piece by piece, and return its reference.

        The blob is never in memory as a whole.
        """
        # This file does not have a blob's name. So after a crash, the next start deletes it.
        scratch = self._partial / token_hex(16)
        scratch.touch(mode=0o600)
        try:
            digest = sha256()
            with scratch.open("wb") as file:
                for piece in pieces:
                    digest.update(piece)
                    file.write(piece)
                blob = BlobRef(digest.digest(), file.tell())
            name = _partial_name(blob, "")
            with self._locks[hash(name) % _LOCKS]:
                if not self.sent(blob):
                    self._reserve(name, blob, "", 0, blob.size)
                    scratch.replace(self._partial / name)
                    self._finish(self._partial / name, name, blob)
        finally:
            scratch.unlink(missing_ok=True)
        return blob

    # Holding

    def hold(self, digest: bytes, holder: str) -> None:
        """Keep the blob until ``holder`` releases it; the blob need not have arrived yet."""
        _name_of(digest)
        with self._hold_lock:
            self._sql("INSERT OR IGNORE INTO holds VALUES (?, ?)", digest, holder)

    def release(self, holder: str) -> None:
        """End all holds of ``holder``, and delete the blobs that no other holder holds."""
        with self._database_lock:
            rows = self._database.execute("DELETE FROM holds WHERE holder = ? RETURNING sha256", (holder,)).fetchall()
        for (digest,) in rows:
            self._delete_unless_held(digest)

    def keep_only(self, holder: str, digests: Collection[bytes]) -> None:
        """End the holds of ``holder`` on all blobs except ``digests``; delete blobs that no other holder holds."""
        for (digest,) in self._sql("SELECT sha256 FROM holds WHERE holder = ?", holder):
            if digest not in digests:
                self._sql("DELETE FROM holds WHERE sha256 = ? AND holder = ?", digest, holder)
                self._delete_unless_held(digest)

    def _delete_unless_held(self, digest: bytes) -> None:
        with self._hold_lock:
            if not self.is_held(digest):
                self.delete(digest)

    def is_held(self, digest: bytes) -> bool:
        """Return whether any holder holds the blob."""
        return bool(self._sql("SELECT 1 FROM holds WHERE sha256 = ? LIMIT 1", digest))

    def delete(self, digest: bytes) -> None:
        """Delete a blob, whole or partial, of all owners."""
        self.path(digest).unlink(missing_ok=True)
        for (name,) in self._sql("SELECT name FROM blobs WHERE sha256 = ?", digest):
            with self._locks[hash(name) % _LOCKS]:
                (self._partial / name).unlink(missing_ok=True)
                self._forget(name)

    def collect(self, older_than: float) -> int:
        """Delete old blobs that are incomplete or not held, and return their number.

        A blob is old if it was last written before ``older_than`` (Unix time). A hold keeps only a whole blob. An
        incomplete blob is not kept, because it takes room from other blobs, and its owner can send it again.
        """
        deleted = 0
        for name, digest, complete in self._sql("SELECT name, sha256, complete FROM blobs"):
            path = self.path(digest) if complete else self._partial / name
            with self._hold_lock, self._locks[hash(name) % _LOCKS]:
                try:
                    written = path.stat().st_mtime
                except FileNotFoundError:
                    self._forget(name)  # its file was deleted with another owner's entry
                    continue
                if written < older_than and not (complete and self.is_held(digest)):
                    path.unlink(missing_ok=True)
                    self._forget(name)
                    deleted += 1
        return deleted

    # Inside

    def _finish(self, partial: Path, name: str, blob: BlobRef) -> BlobStatus:
        if _hash_file(partial) != blob.sha256:
            partial.unlink()
            self._forget(name)
            raise ClusterError(
                ClusterErrorKind.WRONG_CONTENT,
                "the SHA-256 of the bytes is not the blob's name",
                "send the blob again",
                field="sha256",
            )
        with partial.open("ab") as file:
            os.fsync(file.fileno())
        target = self.path(blob.sha256)
        target.parent.mkdir(exist_ok=True, mode=0o700)
        partial.replace(target)
        _sync_directory(target.parent)
        with self._database_lock:
            self._database.execute("UPDATE blobs SET complete = 1 WHERE name = ?", (name,))
            self._arrived.pop(name, None)
            self._whole = None
        return BlobStatus(blob.size, True)

    def _reserve(self, name: str, blob: BlobRef, owner: str, received: int, more: int) -> None:
        """Reserve room for ``more`` bytes of a blob before they are written; OVER_QUOTA if there is no room.

        ``received`` bytes of the blob are here already.
        """
        with self._database_lock:
            if more > self._free(owner):
                raise ClusterError(
                    ClusterErrorKind.OVER_QUOTA,
                    "this store is full",
                    "try again after an order has closed",
                    field="size",
                )
            mine = self._used(owner)
            if owner and mine + more > self.owner_quota:
                raise ClusterError(
                    ClusterErrorKind.OVER_QUOTA,
                    f"each caller may store {self.owner_quota} bytes, and {mine} bytes of yours are stored",
                    "try again after earlier blobs are released",
                    field="size",
                )
            if name not in self._arrived:
                self._database.execute(
                    "INSERT OR REPLACE INTO blobs VALUES (?, ?, ?, ?, 0)",
                    (name, blob.sha256, blob.size, owner),
                )
                self._whole = None
            self._arrived[name] = (owner, received + more)

    def _note(self, name: str, owner: str, received: int) -> None:
        with self._database_lock:
            self._arrived[name] = (owner, received)

    def _forget(self, name: str) -> None:
        with self._database_lock:
            self._database.execute("DELETE FROM blobs WHERE name = ?", (name,))
            self._arrived.pop(name, None)
            self._whole = None

    def _used(self, owner: str | None) -> int:
        """Return the number of stored bytes of one owner, or of all if ``owner`` is None.

        The caller holds the database's lock.
        """
        if self._whole is None:
            by_owner = "SELECT owner, SUM(size) FROM blobs WHERE complete GROUP BY owner"
            self._whole = Counter(dict(self._database.execute(by_owner)))
            # Two owners may have sent the same blob: it is stored once, and counts for both.
            ((self._whole[None],),) = self._database.execute(
                "SELECT COALESCE(SUM(size), 0) FROM (SELECT DISTINCT sha256, size FROM blobs WHERE complete)"
            )
        coming = sum(received for sender, received in self._arrived.values() if owner in (None, sender))
        return self._whole[owner] + coming

    def _free(self, owner: str) -> int:
        """Return the number of bytes that are free for an owner, regardless of the owner's own quota.

        The caller holds the database's lock.
        """
        reserved = max(0, self._kept_free - self._used("")) if owner else 0
        return self._quota - reserved - self._used(None)

    def _reconcile(self) -> None:
        """Make the database agree with the files again. They differ if a crash came between the write to a file and the
        write to the database.
        """
        rows = self._sql("SELECT name, sha256, owner, complete FROM blobs")
        for name, digest, owner, complete in rows:
            partial = self._partial / name
            if not complete and partial.exists():
                self._arrived[name] = (owner, partial.stat().st_size)
            elif not self.path(digest).exists():
                self._sql("DELETE FROM blobs WHERE name = ?", name)
            elif not complete:
                self._sql("UPDATE blobs SET complete = 1 WHERE name = ?", name)
        known = {name for name, _, _, _ in rows}
        for path in self._partial.iterdir():
            if path.name not in known:
                path.unlink()

    def _sql(self, text: str, *values: bytes | str | int) -> list[tuple[Any, ...]]:
        with self._database_lock:
            return self._database.execute(text, values).fetchall()


def _name_of(digest: bytes) -> str:
    # Only 32 bytes make a file name, so no name from outside can become another path.
    if len(digest) != 32:
        reason, remedy = "is not 32 bytes", "send the SHA-256 of the blob"
        raise ClusterError(ClusterErrorKind.BAD_REQUEST, reason, remedy, field="sha256")
    return digest.hex()


def _partial_name(blob: BlobRef, owner: str) -> str:
    return f"{_name_of(blob.sha256)}-{blob.size}-{sha256(owner.encode()).hexdigest()[:16]}"


def _hash_file(path: Path) -> bytes:
    digest = sha256()
    with path.open("rb") as file:
        while part := file.read(_READ_BYTES):
            digest.update(part)
    return digest.digest()


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _absent(digest: bytes) -> ClusterError:
    reason = f"there is no blob {digest.hex()[:16]}…"
    return ClusterError(ClusterErrorKind.NOT_FOUND, reason, "send the blob first", field="sha256")


def _open_database(path: Path) -> sqlite3.Connection:
    """Open or create the list of blobs; BlobStoreError or OSError if that is impossible."""
    try:
        database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    except sqlite3.Error as error:
        raise _unusable(path, error) from None
    try:
        database.executescript(
            """
            PRAGMA journal_mode = WAL;
            CREATE TABLE IF NOT EXISTS blobs (
                name TEXT PRIMARY KEY, sha256 BLOB NOT NULL, size INTEGER NOT NULL,
                owner TEXT NOT NULL, complete INTEGER NOT NULL);
            CREATE TABLE IF NOT EXISTS holds (
                sha256 BLOB NOT NULL, holder TEXT NOT NULL, PRIMARY KEY (sha256, holder));
            """
        )
    except sqlite3.Error as error:
        database.close()
        raise _unusable(path, error) from None
    return database


def _unusable(path: Path, error: sqlite3.Error) -> Exception:
    reason = unusable(path, error)
    return BlobStoreError(str(reason)) if isinstance(reason, Unusable) else reason
