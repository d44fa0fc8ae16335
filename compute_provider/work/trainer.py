"""The part of the daemon that starts worker processes, reads their messages, and ends them.

Start workers only on the daemon's main thread, because the kernel kills a worker when the thread that started the
worker dies.
"""

import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock, Thread
from typing import Any, Protocol

from compute_provider.work.worker import ENDS, LOCAL_OUT, UPDATE, WorkOrder, boundary_files
from domain import codec
from domain.keys import ShareKey
from host import sandbox
from host.files import link_whole, move_durably
from host.foreign_json import read_json
from pol.executor.names import Engine
from pol.work.records import Boundary

_log = logging.getLogger("assay.provider")
_LINE_BYTES_MAX = 1 << 20
# A boundary has about twenty tokens; a worker that a job has taken over may send anything.
_LINE_TOKENS_MAX = 1 << 10
HONEST = ("compute_provider.work.worker",)
"""The module that recomputes a segment."""
IDLE_SECONDS = 120.0
"""Longest time that a worker waits for the next share of its order, with the job loaded."""

Listen = Callable[[ShareKey, dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class _Serves:
    """The order and the settings for which a worker was started. The worker gets only shares that have the same order
    and settings.
    """

    order_id: bytes
    program: tuple[str, ...]
    job: str
    engine: Engine
    hardware: bool


class _Worker:
    """A worker process, and the share that it trains (None while it waits for a share)."""

    def __init__(self, serves: _Serves, folder: Path, inputs: Path, log_path: Path) -> None:
        self.serves = serves
        self.share: tuple[ShareKey, Path] | None = None
        self.idle_since = time.monotonic()
        # True after a failure: the process then ends itself.
        self.is_spent = False
        # Held while a message is handled, so that the share and the files cannot change meanwhile.
        self.lock = RLock()
        self._inputs = inputs
        self._shares = 0
        engine = serves.engine
        arguments = map(str, (os.getpid(), folder, engine.memory_bytes, engine.device, serves.job, inputs))
        with log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", *serves.program, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=sandbox.environment(folder, engine.threads or None, engine.device),
                start_new_session=True,
            )

    @property
    def is_free(self) -> bool:
        """True if the worker may get a share."""
        return self.share is None and not self.is_spent and self.process.poll() is None

    def hand_over(self, order: WorkOrder) -> None:
        """Write a work order to the process, and wait until the process has read it.

        The process can read only the job and the folder ``inputs``, so the work order names links in this folder.
        """
        assert self.process.stdin
        order = self._linked(order)
        # An error means that the process died. The thread that reads its messages reports that.
        with suppress(OSError, ValueError):
            self.process.stdin.write(codec.encode(order) + b"\n")
            self.process.stdin.flush()

    def _linked(self, order: WorkOrder) -> WorkOrder:
        """Return the work order with links in place of the files that the process reads, and delete the links of the
        previous share.

        If a file cannot be linked, the process reports the missing file.
        """
        before = self._inputs / str(self._shares)
        self._shares += 1
        place = self._inputs / str(self._shares)
        shutil.rmtree(before, ignore_errors=True)
        folder = Path(order.folder)
        ends = (*order.boundaries, *([order.claimed] if order.claimed is not None else []))
        names = [name for boundary in ends for name in boundary_files(boundary.index)]
        files = {
            "global": [Path(order.global_in)],
            "local": [Path(order.local_in)],
            "share": [folder / name for name in names],
        }
        for kind, paths in files.items():
            with suppress(OSError):
                (place / kind).mkdir(mode=0o700, parents=True)
            for path in paths:
                with suppress(OSError):
                    link_whole(path, place / kind / path.name)
        return replace(
            order,
            global_in=str(place / "global" / Path(order.global_in).name),
            local_in=str(place / "local" / Path(order.local_in).name),
            folder=str(place / "share"),
        )

    def rest(self) -> None:
        """Forget the worker's share: from now on, the worker waits for the next share."""
        self.share = None
        self.idle_since = time.monotonic()


class Trainer(Protocol):
    """A way to train for a provider's daemon: run the segments of a share, and report boundaries and the update."""

    def start(self, key: ShareKey, order: WorkOrder, program: Sequence[str]) -> None:
        """Train a share with ``program`` (a module and its arguments), unless it is already being trained.

        Messages of the training go to the daemon until it is stopped; another share is then no longer trained.
        """
        ...

    def stop(self, key: ShareKey) -> None:
        """End the training of this share, if it is being trained."""
        ...

    def tend(self, orders: Collection[bytes]) -> None:
        """Release what waits for a share of an order that is not one of ``orders``, or has waited too long."""
        ...

    def close(self) -> None:
        """End all training."""
        ...

    def pids(self) -> list[int]:
        """Return the ids of the processes on this machine that train."""
        ...


class SandboxedTrainer:
    """The trainer on this machine, the owner of the worker: one process at a time trains one share of an order after
    another.

    There is only one worker, because the owner's memory limit applies to all training on this machine together. The
    worker is ended in four cases: it has failed, its order is over, it has waited too long, or a share of another order
    has to be trained. The worker can write only to its own folder. When it reports files, they are moved to the share's
    folder. It can read only its own folder, the job, and links to the files with which its share begins.
    """

    def __init__(self, listen: Listen, home: Path, idle_seconds: float = IDLE_SECONDS) -> None:
        """Call ``listen`` with every message of a worker, on the thread that reads the messages.

        If a worker ends without a last message, ``listen`` gets ``failed``. The worker's log and folder are in
        ``home``.
        """
        self._listen = listen
        self._log_path = home / "worker.log"
        self._folder = home / "worker"
        self._inputs = home / "inputs"
        self._idle_seconds = idle_seconds
        self._running: tuple[_Worker, Thread] | None = None

    def start(self, key: ShareKey, order: WorkOrder, program: Sequence[str]) -> None:
        """Train a share with ``program`` (a module and its arguments), unless the worker already trains it.

        If the worker trains another share, that training ends.
        """
        serves = _Serves(
            order_id=key.order_id,
            program=tuple(program),
            job=order.job,
            engine=order.engine,
            hardware=order.hardware,
        )
        worker = self._running[0] if self._running else None
        if worker is not None:
            with worker.lock:
                is_training_it = worker.share is not None and worker.share[0] == key
                if is_training_it and worker.process.poll() is None:
                    return None
                if worker.is_free and worker.serves == serves:
                    return self._give(worker, key, order)
        self.close()
        self._folder.mkdir(mode=0o700)
        self._inputs.mkdir(mode=0o700)
        worker = _Worker(serves, self._folder, self._inputs, self._log_path)
        reader = Thread(target=self._read, args=(worker,), daemon=True)
        self._running = worker, reader
        self._give(worker, key, order)
        reader.start()
        return None

    def stop(self, key: ShareKey) -> None:
        """End the worker if it trains this share; ``listen`` gets no message of the share after this call returns."""
        if self._running is None:
            return
        worker, _ = self._running
        with worker.lock:
            if worker.share is None or worker.share[0] != key:
                return
        self.close()

    def tend(self, orders: Collection[bytes]) -> None:
        """End a waiting worker if it has waited too long, or if its order is not one of ``orders``."""
        worker = self._running[0] if self._running else None
        if worker is None or worker.share is not None:
            return
        waited = time.monotonic() - worker.idle_since
        is_wanted = worker.serves.order_id in orders and waited < self._idle_seconds
        if not (worker.is_free and is_wanted):
            self.close()

    def close(self) -> None:
        """End the worker and its training; ``listen`` gets no message from the worker after this call returns."""
        if self._running is not None:
            worker, reader = self._running
            self._running = None
            with worker.lock:
                worker.rest()
            worker.process.kill()
            reader.join()
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.rmtree(self._inputs, ignore_errors=True)

    def pids(self) -> list[int]:
        """Return the process ids of the workers that run."""
        running = self._running
        return [running[0].process.pid] if running and running[0].process.poll() is None else []

    def _give(self, worker: _Worker, key: ShareKey, order: WorkOrder) -> None:
        worker.share = key, Path(order.folder)
        Thread(target=worker.hand_over, args=(order,), daemon=True).start()

    def _read(self, worker: _Worker) -> None:
        """Handle all messages of a worker until it ends, and report a share that it left unfinished."""
        process = worker.process
        problem = ""
        assert process.stdout
        with process.stdout as lines:
            while line := lines.readline(_LINE_BYTES_MAX):
                try:
                    message = read_json(line, _LINE_TOKENS_MAX)
                    is_end = bool(ENDS & message.keys())
                except (ValueError, AttributeError):
                    _log.warning("ignoring a line of the worker that is not a message: %r", line[:200])
                    continue
                try:
                    with worker.lock:
                        self._handle(worker, message, is_end)
                except Exception as error:  # noqa: BLE001 - no caller on this thread would handle it
                    _log.exception("a message of the worker cannot be handled")
                    problem = f"a message of the worker cannot be handled: {error}"
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
                text = problem or f"the worker process ended ({_reason(code)}); see {self._log_path}"
                self._listen(key, {"failed": text, "again": True})

    def _handle(self, worker: _Worker, message: dict[str, Any], is_end: bool) -> None:
        """Move the files that a message reports, and pass the message to ``listen``."""
        if worker.share is None:
            # The share was stopped meanwhile, or the worker sent a message without a share.
            worker.process.kill()
            return
        key, folder = worker.share
        for name in _files(message):
            move_durably(self._folder / name, folder / name)
        if is_end:
            worker.is_spent = "failed" in message
            # The worker rests before ``listen`` is called, because that call may lead to the next share at once.
            worker.rest()
        self._listen(key, message)


def recompute_segment(order: WorkOrder, segment: int, home: Path) -> Boundary | None:
    """Recompute a segment of a trained share in a process of its own; return the boundary after it.

    Return None if the process fails. It begins with the states before the segment, and is ended when it has reported
    the boundary. In hardware arithmetic, the boundary of the share is returned if the recomputed end is within the
    job's thresholds of it. ``home`` must be a folder for this call alone; it is deleted.
    """
    shutil.rmtree(home, ignore_errors=True)
    folder, inputs = home / "worker", home / "inputs"
    for made in (folder, inputs):
        made.mkdir(mode=0o700, parents=True)
    serves = _Serves(order_id=b"", program=HONEST, job=order.job, engine=order.engine, hardware=order.hardware)
    claimed = next((known for known in order.boundaries if known.index == segment + 1), None)
    before = tuple(known for known in order.boundaries if known.index <= segment)
    worker = _Worker(serves, folder, inputs, home / "worker.log")
    try:
        worker.hand_over(replace(order, boundaries=before, claimed=claimed if order.hardware else None))
        return _read_boundary(worker.process, segment + 1)
    finally:
        worker.process.kill()
        worker.process.wait()
        for end in (worker.process.stdin, worker.process.stdout):
            with suppress(OSError):
                if end is not None:
                    end.close()
        shutil.rmtree(home, ignore_errors=True)


def _read_boundary(process: "subprocess.Popen[bytes]", index: int) -> Boundary | None:
    """Return the boundary with this index when a worker reports it; None if it ends before."""
    assert process.stdout
    while line := process.stdout.readline(_LINE_BYTES_MAX):
        try:
            message = read_json(line, _LINE_TOKENS_MAX)
            known = codec.from_plain(Boundary, message["boundary"]) if "boundary" in message else None
        except (ValueError, AttributeError, TypeError):
            return None
        if known is not None and known.index == index:
            return known
        if ENDS & message.keys():
            return None
    return None


def _files(message: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the files that a message reports."""
    match message:
        case {"boundary": {"index": int(index)}}:
            return boundary_files(index)
        case {"done": _}:
            return UPDATE, LOCAL_OUT
    return ()


def _reason(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
