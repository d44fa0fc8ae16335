"""The worker of one node: a cache of files by hash, around the sandboxed pool of processes (:mod:`pol.work.pool`).

This module knows nothing about how it is called from other machines. Its tasks come from the owner's daemon, which is
trusted. The node's processes run them in the same sandbox as on the daemon's machine.
"""

import fcntl
import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from tempfile import gettempdir
from typing import BinaryIO

import pol
from pol.executor.names import Engine
from pol.work.cluster.files import (
    PIECE_BYTES,
    FilePlace,
    FileRef,
    FolderPlace,
    OutputPlace,
    Place,
    Workplace,
    file_digest,
    run_packed,
)
from pol.work.executor import PoolError
from pol.work.pool import ReplayPool

_READ_BYTES = 1 << 20
_PREFIX = "assay-node-"
_LOCK = "lock"
_STALE_SECONDS = 3_600.0
_SECRETS = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """The pool of a lane on each node.

    ``processes`` is its number of processes; 0 means one per processor. If it is ``fresh``, each task has its own one.
    If it is ``inside``, there is no pool: at most ``processes`` tasks at a time run in the node's worker itself, with
    its :class:`pol.work.cluster.files.Workplace` as the first argument. So they can start sandboxed processes.
    """

    name: str
    processes: int = 0
    fresh: bool = False
    inside: bool = False

    def processes_at(self, processors: int, threads: int) -> int:
        """Return the number of its processes, of ``threads`` each, on a node with so many processors."""
        return self.processes or max(1, processors // threads)


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """The end of a task at a node.

    ``answer`` are the bytes of the answer. If it is empty, the pool's error ``error`` with the reason ``text`` ended
    the task. ``outputs`` are the contents that the task wrote, in the order of its output places; None if it did not
    write one.
    """

    number: int
    attempt: int
    answer: bytes
    error: str
    text: str
    outputs: tuple[FileRef | None, ...]


class NodeWorker:
    """The worker of a node. Its methods may be called by many threads at once."""

    def __init__(
        self,
        node_id: str,
        lanes: Sequence[LaneSpec],
        processors: int,
        engine: Engine,
        address: str = "127.0.0.1",
        quota: int = 0,
    ) -> None:
        """Start the pools of all lanes. ``quota`` limits the bytes of cached files; 0 means half of the free disk."""
        for name in _SECRETS:
            os.environ.pop(name, None)
        # The cluster's software adds folders that the sandbox should not have to permit.
        own = str(Path.cwd())
        sys.path[:] = [path for path in sys.path if path not in ("", own) and f"{os.sep}ray{os.sep}" not in path]
        top = Path(gettempdir()) / f"{_PREFIX}{os.getuid()}"
        self._folder, self._lock_file = _own_folder(top, node_id)
        _sweep(top)
        self._blobs, self._jobs, self._scratch, self._parts = (
            self._folder / name for name in ("blobs", "jobs", "scratch", "parts")
        )
        for folder in (self._scratch, self._parts):
            shutil.rmtree(folder, ignore_errors=True)
        for folder in (self._blobs, self._jobs, self._scratch, self._parts):
            folder.mkdir(exist_ok=True, mode=0o700)
        self._quota = quota or shutil.disk_usage(self._folder).free // 2
        self._pins: Counter[bytes] = Counter()
        self._pinned: dict[tuple[int, int], tuple[FileRef, ...]] = {}
        self._written: dict[tuple[int, int], dict[int, FileRef]] = {}
        self._lock = threading.Lock()
        threads = engine.threads or 1
        self._pools = {
            lane.name: ReplayPool(
                lane.processes_at(processors, threads),
                folder=self._scratch,
                memory_bytes=engine.memory_bytes,
                reads=(self._blobs, self._jobs),
                threads=threads,
                device=engine.device,
                fresh=lane.fresh,
            )
            for lane in lanes
            if not lane.inside
        }
        self._workplace = Workplace(folder=self._scratch, reads=(self._blobs,), keep=self._parts, address=address)

    def ping(self) -> str:
        """Return the release that runs on this node."""
        return release()

    def close(self) -> None:
        """End all processes. An actor that is killed ends them, too, because they die with their parent."""
        for pool in self._pools.values():
            pool.close()
        os.close(self._lock_file)

    # --- files -------------------------------------------------------------------------------------

    def missing(self, number: int, attempt: int, files: Sequence[FileRef]) -> tuple[FileRef, ...]:
        """Return the contents that are not cached here. All of them are kept until the attempt ends."""
        with self._lock:
            if (number, attempt) not in self._pinned:
                self._pinned[number, attempt] = tuple(files)
                self._pins.update(file.sha256 for file in files)
        return tuple(file for file in files if not self._path(file).exists())

    def put(self, number: int, attempt: int, file: FileRef, offset: int, piece: bytes) -> bool:
        """Write a piece of a file. After the last piece, return whether the file has its hash.

        Raises OSError if it cannot be written, for example on a full disk.
        """
        part = self._parts / f"{number}-{attempt}-{file.sha256.hex()}"
        if offset == 0:
            self._make_room(file.size)
        with part.open("r+b" if offset else "wb") as target:
            target.seek(offset)
            target.write(piece)
        if offset + len(piece) < file.size:
            return True
        if part.stat().st_size != file.size or file_digest(part) != file.sha256:
            part.unlink()
            return False
        part.replace(self._path(file))
        return True

    def _make_room(self, size: int) -> None:
        """Delete the files that were not used for the longest time, until ``size`` more bytes fit into the quota."""
        with self._lock:
            kept = [(path.stat().st_atime, path.stat().st_size, path) for path in self._blobs.iterdir()]
            total = sum(length for _, length, _ in kept)
            for _, length, path in sorted(kept):
                if total + size <= self._quota:
                    return
                if not self._pins[bytes.fromhex(path.name)]:
                    path.unlink()
                    total -= length
            # The folders of jobs hold links to their files, whose space is free only without them. The folder above
            # them stays: the sandboxes of processes that live allow this one, and no other of its name.
            if not self._pinned:
                for folder in self._jobs.iterdir():
                    shutil.rmtree(folder, ignore_errors=True)

    def _path(self, file: FileRef) -> Path:
        return self._blobs / file.sha256.hex()

    def _resolve(self, number: int, attempt: int, index: int, place: Place) -> str:
        match place:
            case FilePlace(file):
                path = self._path(file)
                os.utime(path)
                return str(path)
            case FolderPlace():
                return str(self._folder_of(place, f"{number}-{attempt}-{index}"))
            case OutputPlace():
                return str(self._output(number, attempt, index))

    def _folder_of(self, place: FolderPlace, name: str) -> Path:
        folder = self._jobs / place.digest
        if not folder.exists():
            made = self._parts / name
            for entry, file in place.entries:
                target = made / entry
                if not target.resolve().is_relative_to(made.resolve()):
                    raise OSError(f"{entry} leaves its folder")
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(self._path(file), target)
            made.mkdir(parents=True, exist_ok=True)
            try:
                made.rename(folder)
            except OSError:
                # Another task of the same job was quicker.
                shutil.rmtree(made, ignore_errors=True)
        return folder

    def _output(self, number: int, attempt: int, index: int) -> Path:
        return self._scratch / f"{number}-{attempt}-{index}"

    # --- tasks -------------------------------------------------------------------------------------

    def run(
        self, number: int, attempt: int, lane: str, data: bytes, places: Sequence[Place], seconds: float | None
    ) -> NodeAnswer:
        """Run a task in a process of the lane's pool, for at most ``seconds``."""
        answer, error, text = b"", "", ""
        try:
            paths = [self._resolve(number, attempt, index, place) for index, place in enumerate(places)]
            if lane in self._pools:
                answer = self._pools[lane].submit(run_packed, data, paths, timeout=seconds).result()
            else:
                answer = run_packed(data, paths, self._workplace)
        except PoolError as failure:
            error, text = type(failure).__name__, failure.reason
        indexes = [index for index, place in enumerate(places) if isinstance(place, OutputPlace)]
        outputs = tuple(None if error else self._copied(number, attempt, index) for index in indexes)
        return NodeAnswer(number=number, attempt=attempt, answer=answer, error=error, text=text, outputs=outputs)

    def _copied(self, number: int, attempt: int, index: int) -> FileRef | None:
        """Copy a file that a task wrote to where no task can change it, and return its content; None if there is none.

        Raises OSError if it cannot be copied, for example on a full disk.
        """
        digest, size = sha256(), 0
        try:
            source = _opened(self._output(number, attempt, index))
        except OSError:
            return None
        with source, self._copy(number, attempt, index).open("wb") as copy:
            while piece := source.read(_READ_BYTES):
                digest.update(piece)
                copy.write(piece)
                size += len(piece)
        file = FileRef(digest.digest(), size)
        with self._lock:
            self._written.setdefault((number, attempt), {})[index] = file
        self._output(number, attempt, index).unlink()
        return file

    def _copy(self, number: int, attempt: int, index: int) -> Path:
        return self._parts / f"{number}-{attempt}-{index}.made"

    def take(self, number: int, attempt: int, index: int, offset: int) -> bytes:
        """Return a piece of a file that a task wrote at one of its places."""
        with self._copy(number, attempt, index).open("rb") as file:
            file.seek(offset)
            return file.read(PIECE_BYTES)

    def drop(self, number: int, attempt: int) -> None:
        """Forget an attempt, and stop keeping its files. What it wrote stays here by its hash: the next task of a share
        begins with it.
        """
        with self._lock:
            written = self._written.pop((number, attempt), {})
        for index, file in written.items():
            self._make_room(file.size)
            if file.size <= self._quota:
                self._copy(number, attempt, index).replace(self._path(file))
        with self._lock:
            for file in self._pinned.pop((number, attempt), ()):
                self._pins[file.sha256] -= 1
                if not self._pins[file.sha256]:
                    del self._pins[file.sha256]
        for folder in (self._scratch, self._parts):
            for path in folder.glob(f"{number}-{attempt}-*"):
                path.unlink(missing_ok=True) if not path.is_dir() else shutil.rmtree(path, ignore_errors=True)


def _opened(path: Path) -> BinaryIO:
    """Open a file in the folder of the sandboxed processes, which could put a link to another file there."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")


@cache
def release() -> str:
    """Return a hash of the code that decides results. All nodes of a cluster must have the same."""
    digest = sha256()
    top = Path(pol.__path__[0]).parent
    for package in ("domain", "pol", "validator"):
        for path in sorted((top / package).rglob("*.py")):
            digest.update(str(path.relative_to(top)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _own_folder(top: Path, node_id: str) -> tuple[Path, int]:
    """Return a folder of this node that no other worker uses, and the lock that this process holds on it.

    A worker that replaces one gets its folder, with the files in it. Workers of several daemons have one each.
    """
    for number in count():
        folder = top / f"{node_id}-{number}"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = _lock(folder)
        if descriptor is not None:
            return folder, descriptor
    raise AssertionError("numbers do not end")


def _lock(folder: Path) -> int | None:
    """Lock a folder for as long as this process lives; None if another process has locked it."""
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    os.utime(folder / _LOCK)
    return descriptor


def _sweep(top: Path) -> None:
    """Delete the folders of nodes that have not run for an hour."""
    for folder in top.iterdir():
        lock = folder / _LOCK
        if lock.exists() and time.time() - lock.stat().st_mtime < _STALE_SECONDS:
            continue
        descriptor = _lock(folder)
        if descriptor is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(descriptor)
