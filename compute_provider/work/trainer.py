"""Starts worker processes, reads what they say, and ends them.

Workers are started from the daemon's main thread: the kernel kills them when that thread dies.
"""

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import RLock, Thread
from typing import Any

from compute_provider.work.worker import ENDS, LOCAL_OUT, UPDATE, WorkOrder, boundary_files
from domain import codec
from domain.keys import ShareKey
from host import sandbox
from host.files import move_durably

_log = logging.getLogger("assay.provider")
_LINE_BYTES_MAX = 1 << 20
IDLE_SECONDS = 120.0
"""For how long a worker waits for the next share of its order, with the job loaded."""

Listen = Callable[[ShareKey, dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class _Serves:
    """What a worker is for: it meets no other order, and computes as it was started to."""

    order_id: bytes
    program: tuple[str, ...]
    job: str
    backend: str
    memory_bytes: int


class _Worker:
    """A process, and the share that it is at (None: it waits for one)."""

    def __init__(self, serves: _Serves, folder: Path, log_path: Path) -> None:
        self.serves = serves
        self.share: tuple[ShareKey, Path] | None = None
        self.idle_since = time.monotonic()
        # It has failed, and ends itself.
        self.is_spent = False
        # Held while a message is heard, so that what comes of it finds all as it says.
        self.lock = RLock()
        arguments = map(str, (os.getpid(), folder, serves.memory_bytes))
        with log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *serves.program, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=sandbox.environment(folder),
                start_new_session=True,
            )

    @property
    def is_free(self) -> bool:
        """Whether it may get a share."""
        return self.share is None and not self.is_spent and self.process.poll() is None

    def hand_over(self, order: WorkOrder) -> None:
        """Give it an order; it may be slow to read that, or dead."""
        assert self.process.stdin
        # It died: what it said before is all there is.
        with suppress(OSError, ValueError):
            self.process.stdin.write(codec.encode(order) + b"\n")
            self.process.stdin.flush()

    def rest(self) -> None:
        """Let go of the share."""
        self.share, self.idle_since = None, time.monotonic()


class Trainer:
    """Has shares trained: one worker at a time, which lives from share to share of an order.

    One, because the bound on memory that its owner has set is for all that trains here. It is ended when it has failed,
    when its order is over, when it has waited too long, and before a share of another order. What it writes is taken
    from its own folder to the share's when it tells of it: it cannot write there.
    """

    def __init__(self, listen: Listen, home: Path, idle_seconds: float = IDLE_SECONDS) -> None:
        """``listen`` gets every message of a worker, on the thread that reads it.

        A worker that ends without a word counts as having said ``failed``. Its log and its folder are in ``home``.
        """
        self._listen = listen
        self._log_path, self._folder = home / "worker.log", home / "worker"
        self._idle_seconds = idle_seconds
        self._running: tuple[_Worker, Thread] | None = None

    def start(self, key: ShareKey, order: WorkOrder, program: Sequence[str]) -> None:
        """Have ``program`` (a module and its arguments) train a share, unless it is at it.

        Whatever else is under way ends.
        """
        serves = _Serves(
            order_id=key.order_id,
            program=tuple(program),
            job=order.job,
            backend=order.backend,
            memory_bytes=order.memory_bytes,
        )
        worker = self._running[0] if self._running else None
        if worker is not None:
            with worker.lock:
                is_at_it = worker.share is not None and worker.share[0] == key
                if is_at_it and worker.process.poll() is None:
                    return None
                if worker.is_free and worker.serves == serves:
                    return self._give(worker, key, order)
        self.close()
        self._folder.mkdir(mode=0o700)
        worker = _Worker(serves, self._folder, self._log_path)
        reader = Thread(target=self._read, args=(worker,), daemon=True)
        self._running = worker, reader
        self._give(worker, key, order)
        reader.start()
        return None

    def stop(self, key: ShareKey) -> None:
        """End the worker that is at a share, if one is; nothing is heard of the share when this returns."""
        if self._running is None:
            return
        worker, _ = self._running
        with worker.lock:
            if worker.share is None or worker.share[0] != key:
                return
        self.close()

    def tend(self, orders: Collection[bytes]) -> None:
        """End a worker that waits in vain: for too long, or for a share of none of these orders."""
        worker = self._running[0] if self._running else None
        if worker is None or worker.share is not None:
            return
        waited = time.monotonic() - worker.idle_since
        is_wanted = worker.serves.order_id in orders and waited < self._idle_seconds
        if not (worker.is_free and is_wanted):
            self.close()

    def close(self) -> None:
        """End the worker, and whatever is under way; nothing is heard of it when this returns."""
        if self._running is not None:
            worker, reader = self._running
            self._running = None
            with worker.lock:
                worker.rest()
            worker.process.kill()
            reader.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def pids(self) -> list[int]:
        """Return the process ids of workers that run."""
        running = self._running
        return [running[0].process.pid] if running and running[0].process.poll() is None else []

    def _give(self, worker: _Worker, key: ShareKey, order: WorkOrder) -> None:
        worker.share = key, Path(order.folder)
        Thread(target=worker.hand_over, args=(order,), daemon=True).start()

    def _read(self, worker: _Worker) -> None:
        """Hear all that a worker says, until it ends."""
        process, problem = worker.process, ""
        assert process.stdout
        with process.stdout as lines:
            while line := lines.readline(_LINE_BYTES_MAX):
                try:
                    message = json.loads(line)
                    is_end = bool(ENDS & message.keys())
                except (ValueError, AttributeError, RecursionError):
                    _log.warning("a worker said something odd: %r", line[:200])
                    continue
                try:
                    with worker.lock:
                        self._hear(worker, message, is_end)
                except Exception as error:  # noqa: BLE001 - nobody else hears of it on this thread
                    _log.exception("what a worker said is lost")
                    problem = f"what the worker said cannot be kept: {error}"
                    break
        process.kill()
        code = process.wait()
        assert process.stdin
        with suppress(OSError):
            process.stdin.close()
        with worker.lock:
            if worker.share is not None:
                key, _ = worker.share
                worker.rest()
                text = problem or f"the worker ended ({_reason(code)}); see {self._log_path}"
                self._listen(key, {"failed": text, "again": True})

    def _hear(self, worker: _Worker, message: dict[str, Any], is_end: bool) -> None:
        if worker.share is None:
            # It was ended meanwhile, or speaks without being asked.
            worker.process.kill()
            return
        key, folder = worker.share
        for name in _files(message):
            move_durably(self._folder / name, folder / name)
        if is_end:
            worker.is_spent = "failed" in message
            # Before it is heard: the next share may begin at once.
            worker.rest()
        self._listen(key, message)


def _files(message: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the files that a message tells of."""
    match message:
        case {"boundary": {"index": int(index)}}:
            return boundary_files(index)
        case {"done": _}:
            return UPDATE, LOCAL_OUT
    return ()


def _reason(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
