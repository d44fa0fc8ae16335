"""A bounded pool of processes for replay, with deadlines: the executor on this machine. If a worker dies, only its own
task fails.

Tasks read untrusted files. Workers therefore run in the sandbox of :mod:`host.sandbox`, and the pool accepts only
records and errors from them.
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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from math import inf
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self, TypeVar

from host import sandbox
from host.devices.device import CPU
from pol.work.answers import ANSWER_BYTES_MAX, read_answer
from pol.work.executor import Ended, OutOfMemory, PoolClosed, PoolError, PoolFull, TaskTimeout, WorkerDied

T = TypeVar("T")

_POLL_SECONDS = 0.1
"""Time (seconds) after which a waiting thread checks again whether the pool was closed or a deadline has passed."""


@dataclass(order=True)
class _Task:
    """A task in the queue.

    Tasks are ordered by deadline, and tasks of the same deadline by the order of their submission.
    """

    ends: float
    number: int
    data: bytes = field(compare=False)
    future: "Future[Any]" = field(compare=False)

    @property
    def deadline(self) -> float | None:
        """Deadline of the task on the monotonic clock, in seconds; None if the task has no deadline."""
        return None if self.ends == inf else self.ends


class _Worker:
    """A child process and the pool's end of the pipe to it."""

    def __init__(self, folder: Path, reads: Sequence[Path], memory_bytes: int, threads: int, device: str) -> None:
        own_end, worker_end = Pipe()
        self.connection: Connection[Any, Any] = own_end
        arguments = (worker_end.fileno(), os.getpid(), folder, memory_bytes, device, *reads)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pol.work", *map(str, arguments)],
            pass_fds=[worker_end.fileno()],
            stdin=subprocess.DEVNULL,
            env=sandbox.environment(folder, threads, device),
        )
        worker_end.close()

    def receive(self) -> Any:
        """Return the worker's next message. It may have at most ``ANSWER_BYTES_MAX`` bytes."""
        return read_answer(self.connection.recv_bytes(ANSWER_BYTES_MAX))

    def stop(self) -> None:
        """Kill the process, and end any wait for a message at this end of the pipe. Any thread may call this."""
        self._process.kill()
        with socket.socket(fileno=os.dup(self.connection.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """Kill the process, wait for its end, and close the pipe.

        Only the thread that owns the worker may call this.
        """
        self.connection.close()
        self._process.kill()
        self._process.wait()


class ReplayPool:
    """A pool that runs tasks in child processes. A process starts when it is first needed.

    A task is a function of an importable module, with arguments that can be pickled; large arrays are passed as
    canonical bytes or as paths. At most ``workers`` processes run, and at most ``queued`` tasks wait. Tasks may write
    only into ``folder`` (a temporary folder by default), and read only there and in the folders ``reads``. Each process
    may use ``memory_bytes`` of memory (three quarters of the machine's by default), ``threads`` threads and ``device``.
    One thread is enough if the processes themselves run in parallel. If ``fresh`` is true, each task has a process of
    its own, so that no task can affect a later one. ``ended`` is called after the end of every task that a worker
    began.
    """

    def __init__(
        self,
        workers: int | None = None,
        queued: int = 64,
        folder: Path | None = None,
        memory_bytes: int | None = None,
        *,
        reads: Sequence[Path] = (),
        threads: int = 1,
        device: str = CPU,
        fresh: bool = False,
        ended: Ended = lambda seconds, error: None,
    ) -> None:
        self._fresh, self._ended = fresh, ended
        self._threads_each, self._device = threads, device
        self._running = 0
        self._count = threading.Lock()
        self._own = None if folder else Path(mkdtemp(prefix="assay-pool-"))
        self._folder = self._own or folder or Path()
        self._reads = tuple(reads)
        for path in (self._folder, *self._reads):
            # The sandbox can allow only folders that are there.
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._memory_bytes = memory_bytes or sandbox.usable_memory() * 3 // 4
        self._tasks: queue.PriorityQueue[_Task] = queue.PriorityQueue(queued)
        self._numbers = count()
        self._closed = threading.Event()
        # Threads live as long as the pool. If the thread that started a child ended, the kernel would act as if the
        # child's parent had ended.
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
        """Queue ``function(*args)`` as a task and return its future. The function must be importable by its name.

        The task with the earliest deadline begins first. A task that has not ended after ``timeout`` seconds fails
        with TaskTimeout. Raises PoolFull if the queue is full, and PoolClosed if the pool is closed.
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
            raise PoolFull(f"{self._tasks.maxsize} tasks are already waiting") from None
        return future

    @property
    def width(self) -> int:
        """Number of tasks that can run at the same time."""
        return len(self._threads)

    @property
    def running(self) -> int:
        """Number of tasks that are running."""
        return self._running

    @property
    def waiting(self) -> int:
        """Number of tasks that wait for a worker."""
        return self._tasks.qsize()

    def close(self) -> None:
        """Kill the workers. Every task that has not ended fails with :class:`PoolClosed`."""
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
                worker = worker or _Worker(
                    self._folder, self._reads, self._memory_bytes, self._threads_each, self._device
                )
                self._run(worker, task)
            except Exception as error:  # noqa: BLE001  (a task must end after any error)
                if worker is not None:
                    worker.kill()
                    worker = None
                failure = error if isinstance(error, PoolError) else WorkerDied(f"the worker died ({error!r})")
                _fail(task.future, failure)
            self._count_running(-1)
            self._ended(time.monotonic() - began, task.future.exception())
            if worker is not None and self._fresh:
                worker.kill()
                worker = None
        if worker is not None:
            worker.kill()

    def _count_running(self, change: int) -> None:
        with self._count:
            self._running += change

    def _run(self, worker: _Worker, task: _Task) -> None:
        """Send a task to a worker, wait for its end, and set its result.

        Raises PoolError if the worker must be replaced.
        """
        if task.deadline is not None and time.monotonic() >= task.deadline:
            _fail(task.future, TaskTimeout("the deadline passed while the task was waiting"))
            return
        with self._watched(worker, task):
            worker.connection.send_bytes(task.data)
            succeeded, value = worker.receive()
        if succeeded:
            task.future.set_result(value)
        elif isinstance(value, MemoryError):
            raise OutOfMemory(f"the task needs more than {self._memory_bytes} bytes of memory")
        elif isinstance(value, Exception):
            task.future.set_exception(value)
        else:
            raise WorkerDied("the worker failed without an error")

    @contextmanager
    def _watched(self, worker: _Worker, task: _Task) -> Iterator[None]:
        """Watch the task while the ``with`` block waits for it, and stop the worker at its deadline.

        The worker is stopped even if it does not read the task, or has sent only a part of its answer.
        """
        ended = threading.Event()
        errors: list[PoolError] = []

        def watch() -> None:
            while not ended.wait(_POLL_SECONDS):
                if self._closed.is_set():
                    errors.append(PoolClosed("the pool was closed"))
                elif task.deadline is not None and time.monotonic() >= task.deadline:
                    errors.append(TaskTimeout("the deadline passed while the task was running"))
                if errors:
                    worker.stop()
                    return

        watcher = threading.Thread(target=watch, name="replay-watch", daemon=True)
        watcher.start()
        try:
            yield
        except (OSError, EOFError):
            # If the watcher closed the pipe, the watcher's error explains more than this one.
            if not errors:
                raise
        finally:
            ended.set()
            watcher.join()
        if errors:
            raise errors[0]


def _fail(future: "Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
