"""A process pool for training and replay: bounded, with deadlines, and a dead worker costs its own task only.

What the tasks read comes from strangers. So workers run in the sandbox of :mod:`host.sandbox`, and what they say is
read as records and errors, whatever else it claims to be.
"""

import os
import pickle
import queue
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, is_dataclass
from enum import Enum
from functools import partial
from io import BytesIO
from itertools import count
from math import inf
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self, TypeVar

from domain.errors import Expected, rebuilt
from host import sandbox

T = TypeVar("T")

_POLL_SECONDS = 0.1
"""How soon it is noticed that the pool is closed, or that a task's time is over."""


class PoolError(Expected):
    """A task has no result for a reason that is not its own."""


class PoolFull(PoolError):
    """The queue is full: try again when a task has ended."""


class TaskTimeout(PoolError):
    """The task's deadline passed; its worker was killed and replaced."""


class WorkerDied(PoolError):
    """The task's worker died; it is replaced."""


class OutOfMemory(PoolError):
    """The task needed more memory than a worker may have; the worker is replaced."""


class PoolClosed(PoolError):
    """The pool was closed before the task ended."""


@dataclass(order=True)
class _Task:
    # What has to end first comes first, and what came first of those that end together.
    ends: float
    number: int
    data: bytes = field(compare=False)
    future: "Future[Any]" = field(compare=False)

    @property
    def deadline(self) -> float | None:
        """When it has to end (monotonic), None where it may take as long as it does."""
        return None if self.ends == inf else self.ends


class _Worker:
    """One child process and its end of the pipe."""

    def __init__(self, folder: Path, memory_bytes: int) -> None:
        ours, theirs = Pipe()
        self.connection: Connection[Any, Any] = ours
        self._memory_bytes = memory_bytes
        rest = (theirs.fileno(), os.getpid(), folder, memory_bytes)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pol.work", *map(str, rest)],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            # One thread each: the pool itself is what runs in parallel.
            env=sandbox.environment(folder, threads=1),
        )
        theirs.close()

    def receive(self) -> Any:
        """Return what the worker says next; it may not be larger than what it may hold."""
        return _Reader(BytesIO(self.connection.recv_bytes(self._memory_bytes))).load()

    def stop(self) -> None:
        """End the process, and whatever a thread waits for at this end of the pipe; any thread may call."""
        self._process.kill()
        with socket.socket(fileno=os.dup(self.connection.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        self.connection.close()
        self._process.kill()
        self._process.wait()


class _Reader(pickle.Unpickler):
    """Makes nothing but records, errors and members of enumerations, of modules that are here already.

    A pickle may name any function to call, and the worker that wrote it has met a stranger's bytes.
    """

    def find_class(self, module: str, name: str) -> Any:
        found = getattr(sys.modules.get(module), name, None)
        if found is rebuilt:
            return found
        # How Python before 3.11.4, Debian 12's among them, writes a member of an enumeration.
        if found is getattr:
            return _member
        if isinstance(found, type) and issubclass(found, Enum):
            return partial(found)
        # A pickle may also set attributes, even of a class, unless the class says itself how that is done.
        if (
            isinstance(found, type)
            and hasattr(found, "__setstate__")
            and (is_dataclass(found) or issubclass(found, Exception))
        ):
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is no record")


def _member(made: Any, name: Any) -> Enum:
    """Return a member of the enumeration that the reader has found."""
    kind: Any = made.func if isinstance(made, partial) else None
    if isinstance(kind, type) and issubclass(kind, Enum) and name in kind.__members__:
        return kind[name]
    raise pickle.UnpicklingError(f"{name} is no member of an enumeration, and no record")


Ended = Callable[[float, BaseException | None], None]
"""Hears how many seconds a task took that has ended, and its error where it has no result."""


class ReplayPool:
    """Runs tasks in child processes, which start when they are first needed.

    A task is a function of an importable module with arguments that pickle; big arrays travel as canonical bytes or
    as paths. There are ``workers`` processes at most, and ``queued`` tasks may wait beside those that run. ``folder``
    is the only place where a task may write (else a temporary one), and ``memory_bytes`` is what each process may hold
    (else three quarters of the machine's memory). Where they are ``fresh``, each task has a process of its own, which
    ends with it: nothing that one of them leaves behind meets the next. ``ended`` hears of every task that was begun.
    """

    def __init__(
        self,
        workers: int | None = None,
        queued: int = 64,
        folder: Path | None = None,
        memory_bytes: int | None = None,
        *,
        fresh: bool = False,
        ended: Ended = lambda seconds, error: None,
    ) -> None:
        self._fresh, self._ended = fresh, ended
        self._running = 0
        self._count = threading.Lock()
        self._own = None if folder else Path(mkdtemp(prefix="assay-pool-"))
        self._folder = self._own or folder or Path()
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._memory_bytes = memory_bytes or sandbox.usable_memory() * 3 // 4
        self._tasks: queue.PriorityQueue[_Task] = queue.PriorityQueue(queued)
        self._numbers = count()
        self._closed = threading.Event()
        # Threads live as long as the pool, because the kernel takes the end of the thread that started
        # a child for the end of its parent.
        self._threads = [
            threading.Thread(target=self._serve, name=f"replay-{index}", daemon=True)
            for index in range(workers or os.cpu_count() or 1)
        ]
        for thread in self._threads:
            thread.start()

    def submit(
        self,
        function: Callable[..., T],
        *args: Any,
        timeout: float | None = None,
    ) -> "Future[T]":
        """Queue ``function(*args)``, a function that is importable by name, and return its future.

        What has to end first begins first.

        It ends in TaskTimeout ``timeout`` seconds from now. Raises PoolFull when as many tasks as the pool was made
        for are waiting, and PoolClosed when the pool is closed.
        """
        if self._closed.is_set():
            raise PoolClosed("the pool is closed")
        ends = inf if timeout is None else time.monotonic() + timeout
        future: Future[T] = Future()
        try:
            task = _Task(
                ends=ends,
                number=next(self._numbers),
                data=pickle.dumps((function, args)),
                future=future,
            )
            self._tasks.put_nowait(task)
        except queue.Full:
            raise PoolFull(f"{self._tasks.maxsize} tasks are waiting already") from None
        return future

    @property
    def running(self) -> int:
        """How many tasks are under way."""
        return self._running

    @property
    def waiting(self) -> int:
        """How many tasks wait for a worker."""
        return self._tasks.qsize()

    def close(self) -> None:
        """Kill the workers and end every task that has not ended in :class:`PoolClosed`."""
        self._closed.set()
        for thread in self._threads:
            thread.join()
        while True:
            try:
                _fail(self._tasks.get_nowait().future, PoolClosed("the pool was closed"))
            except queue.Empty:
                break
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _serve(self) -> None:
        worker: _Worker | None = None
        while not self._closed.is_set():
            try:
                task = self._tasks.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            if not task.future.set_running_or_notify_cancel():
                continue
            began = time.monotonic()
            self._count_running(1)
            try:
                worker = worker or _Worker(self._folder, self._memory_bytes)
                self._run(worker, task)
            except Exception as error:  # noqa: BLE001  (a task must end, whatever happened)
                if worker is not None:
                    worker.kill()
                    worker = None
                known = error if isinstance(error, PoolError) else WorkerDied(f"the worker died ({error!r})")
                _fail(task.future, known)
            self._count_running(-1)
            self._ended(time.monotonic() - began, task.future.exception())
            if worker is not None and self._fresh:
                worker.kill()
                worker = None
        if worker is not None:
            worker.kill()

    def _count_running(self, more: int) -> None:
        with self._count:
            self._running += more

    def _run(self, worker: _Worker, task: _Task) -> None:
        """Give a task to a worker and wait for its end; raises PoolError where the worker has to go."""
        if task.deadline is not None and time.monotonic() >= task.deadline:
            _fail(task.future, TaskTimeout("the deadline passed while the task was waiting"))
            return
        with self._watched(worker, task):
            worker.connection.send_bytes(task.data)
            done, value = worker.receive()
        if done:
            task.future.set_result(value)
        elif isinstance(value, MemoryError):
            raise OutOfMemory(f"the task needs more than {self._memory_bytes} bytes of memory")
        elif isinstance(value, Exception):
            task.future.set_exception(value)
        else:
            raise WorkerDied("the worker failed without an error")

    @contextmanager
    def _watched(self, worker: _Worker, task: _Task) -> Iterator[None]:
        """Stop the worker when the task's time is over: it may take nothing, or fall silent in mid-message."""
        ended, over = threading.Event(), list[PoolError]()

        def watch() -> None:
            while not ended.wait(_POLL_SECONDS):
                if self._closed.is_set():
                    over.append(PoolClosed("the pool was closed"))
                elif task.deadline is not None and time.monotonic() >= task.deadline:
                    over.append(TaskTimeout("the deadline passed while the task was running"))
                if over:
                    worker.stop()
                    return

        watcher = threading.Thread(target=watch, name="replay-watch", daemon=True)
        watcher.start()
        try:
            yield
        except (OSError, EOFError):
            # The end of the pipe says less than why it was ended.
            if not over:
                raise
        finally:
            ended.set()
            watcher.join()
        if over:
            raise over[0]


def _fail(future: "Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
