"""A process pool for training and replay: bounded, with deadlines, and a dead worker costs its own task only."""

import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import Any, Self, TypeVar

from domain.errors import Expected

T = TypeVar("T")

_POLL_SECONDS = 0.1
"""How soon a waiting thread notices that the pool is closed."""


class PoolError(Expected):
    """A task has no result for a reason that is not its own."""


class PoolFull(PoolError):
    """The queue is full: try again when a task has ended."""


class TaskTimeout(PoolError):
    """The task's deadline passed; its worker was killed and replaced."""


class WorkerDied(PoolError):
    """The task's worker died; it is replaced."""


class PoolClosed(PoolError):
    """The pool was closed before the task ended."""


@dataclass
class _Task:
    data: bytes
    future: "Future[Any]"
    deadline: float | None


class _Worker:
    """One child process and its end of the pipe."""

    def __init__(self) -> None:
        ours, theirs = Pipe()
        self.connection: Connection[Any, Any] = ours
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)  # noqa: PTH109
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            environment.setdefault(variable, "1")  # the pool itself is what runs in parallel
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pol.work", str(theirs.fileno()), str(os.getpid())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=environment,
        )
        theirs.close()

    def kill(self) -> None:
        self.connection.close()
        self._process.kill()
        self._process.wait()


class ReplayPool:
    """Runs tasks in child processes, which start when they are first needed.

    A task is a function of an importable module with arguments that pickle; big arrays travel as canonical bytes or
    as paths. There are ``workers`` processes at most, and ``queued`` tasks may wait beside those that run.
    """

    def __init__(self, workers: int | None = None, queued: int = 64) -> None:
        self._tasks: queue.Queue[_Task] = queue.Queue(queued)
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

        It ends in TaskTimeout ``timeout`` seconds from now. Raises PoolFull when as many tasks as the pool was made
        for are waiting, and PoolClosed when the pool is closed.
        """
        if self._closed.is_set():
            raise PoolClosed("the pool is closed")
        deadline = None if timeout is None else time.monotonic() + timeout
        future: Future[T] = Future()
        try:
            task = _Task(pickle.dumps((function, args)), future, deadline)
            self._tasks.put_nowait(task)
        except queue.Full:
            raise PoolFull(f"{self._tasks.maxsize} tasks are waiting already") from None
        return future

    def close(self) -> None:
        """Kill the workers and end every task that has not ended in :class:`PoolClosed`."""
        self._closed.set()
        for thread in self._threads:
            thread.join()
        while True:
            try:
                _fail(self._tasks.get_nowait().future, PoolClosed("the pool was closed"))
            except queue.Empty:
                return

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
            try:
                worker = worker or _Worker()
                self._run(worker, task)
            except Exception as error:  # noqa: BLE001  (a task must end, whatever happened)
                if worker is not None:
                    worker.kill()
                    worker = None
                known = (
                    error
                    if isinstance(error, PoolError)
                    else WorkerDied(f"the worker died ({error!r})")
                )
                _fail(task.future, known)
        if worker is not None:
            worker.kill()

    def _run(self, worker: _Worker, task: _Task) -> None:
        """Give a task to a worker and wait for its end; raises PoolError where the worker has to go."""
        if task.deadline is not None and time.monotonic() >= task.deadline:
            _fail(task.future, TaskTimeout("the deadline passed while the task was waiting"))
            return
        worker.connection.send_bytes(task.data)
        while not worker.connection.poll(_POLL_SECONDS):
            if self._closed.is_set():
                raise PoolClosed("the pool was closed")
            if task.deadline is not None and time.monotonic() >= task.deadline:
                raise TaskTimeout("the deadline passed while the task was running")
        done, value = pickle.loads(worker.connection.recv_bytes())  # noqa: S301  (from our own child)
        if done:
            task.future.set_result(value)
        else:
            task.future.set_exception(value)


def _fail(future: "Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
