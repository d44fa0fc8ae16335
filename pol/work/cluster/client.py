"""The daemon's side of a cluster: it starts the driver process, sends it tasks, and sets the futures.

The daemon holds keys, so it never loads Ray, and reads from the driver only records.
"""

import logging
import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from math import inf
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import IO, Any, TypeVar

from domain.errors import Expected
from pol.executor.names import Engine
from pol.work.answers import read_answer
from pol.work.cluster.dispatch import ATTEMPTS_MAX, NodeReport, TaskEnd
from pol.work.cluster.files import PackedTask, pack
from pol.work.cluster.messages import (
    MESSAGE_BYTES_MAX,
    DriverReady,
    DriverSettings,
    NodesSeen,
    TaskBegan,
    TaskCancelled,
    TaskGiven,
)
from pol.work.cluster.node import LaneSpec
from pol.work.executor import Ended, NoSpace, OutOfMemory, PoolClosed, PoolError, PoolFull, TaskTimeout, WorkerDied

T = TypeVar("T")
_log = logging.getLogger("assay.cluster")
TOKEN_PATH = "RAY_AUTH_TOKEN_PATH"  # noqa: S105  (the name of a variable)
START_SECONDS = 120.0
"""Longest time (s) until the driver is connected to the cluster."""
PAUSE_SECONDS = (1.0, 30.0)
"""The shortest and the longest pause before another driver starts."""
LATE_SECONDS = 10.0
"""Time (s) after its deadline in which a task may still end by the driver's word."""
_POLL_SECONDS = 0.2
_KEPT = ("PATH", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
_LINES_KEPT = 20
_STARTING = "its driver starts"
_REFUSED = "InvalidAuthToken"
_ERRORS: Mapping[str, type[PoolError]] = {
    kind.__name__: kind for kind in (PoolFull, TaskTimeout, WorkerDied, OutOfMemory, NoSpace, PoolClosed)
}


class ClusterUnusable(Expected):
    """The error of a cluster that cannot be used from this machine."""


def check_usable(address: str) -> None:
    """Raise ClusterUnusable unless Ray is installed, and there is a token that only its owner can read."""
    if find_spec("ray") is None:
        raise ClusterUnusable("the package ray is not installed", 'install the extra: pip install "assay[ray]"')
    path = os.environ.get(TOKEN_PATH, "")
    remedy = f"write the cluster's token into a file with mode 0600, and set {TOKEN_PATH} to its path"
    if not path:
        raise ClusterUnusable(
            f"the cluster at {address} needs a token, because anyone who reaches it runs code", remedy
        )
    try:
        status = Path(path).stat()
        token = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterUnusable(f"the token of the cluster cannot be read: {error}", remedy) from None
    if not stat.S_ISREG(status.st_mode) or stat.S_IMODE(status.st_mode) & 0o077:
        raise ClusterUnusable(f"others than its owner may read the token in {path}", f"chmod 600 {path}")
    if not token:
        raise ClusterUnusable(f"there is no token in {path}", remedy)


def environment() -> dict[str, str]:
    """Return the environment of the driver: Ray's own settings, and nothing of the daemon's."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    rays = {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
    rays.pop("RAY_AUTH_TOKEN", None)
    rays.pop("RAY_ADDRESS", None)
    importable = os.pathsep.join(path for path in sys.path if path)
    return {
        **kept,
        **rays,
        "RAY_AUTH_MODE": "token",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_USAGE_STATS_PROMPT_ENABLED": "0",
        "RAY_DEDUP_LOGS": "0",
        "PYTHONPATH": importable,
    }


@dataclass(eq=False)
class _Task:
    """A task that has not ended."""

    number: int
    lane: "ClusterExecutor"
    label: str
    packed: PackedTask
    ends: float
    future: "Future[Any]"
    node: str = ""
    began: float | None = None
    drivers: int = 0


class _Driver:
    """A driver process, and the daemon's end of the pipe to it."""

    def __init__(self, settings: DriverSettings, folder: Path, command: Sequence[str]) -> None:
        own_end, driver_end = Pipe()
        self.connection: Connection[Any, Any] = own_end
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.process = subprocess.Popen(
            [*command, str(driver_end.fileno())],
            pass_fds=[driver_end.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(),
            cwd=folder,
            start_new_session=True,
        )
        driver_end.close()
        self.lines: list[str] = []
        self.is_refused = False
        """True if the cluster refused the token."""
        assert self.process.stdout
        threading.Thread(target=self._listen, args=(self.process.stdout,), daemon=True).start()
        self.connection.send_bytes(pickle.dumps(settings))

    def _listen(self, output: IO[bytes]) -> None:
        """Keep the last lines that Ray prints, which belong into no log of ours but that of debugging.

        If Ray prints that the token is refused, end the process. Ray itself would try again for 20 s, and then report
        only that it failed.
        """
        with output:
            for line in output:
                self.lines = [*self.lines[-_LINES_KEPT:], line.decode(errors="replace").rstrip()]
                _log.debug("ray: %s", self.lines[-1])
                if _REFUSED in self.lines[-1]:
                    self.is_refused = True
                    self.stop()

    def stop(self) -> None:
        """Kill the process; this ends any wait for its messages. Its actors end with it. Any thread may call this."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill the process, wait for its end, and close the pipe. Only the thread that reads the pipe may call this."""
        self.stop()
        self.process.wait()
        self.connection.close()


class Cluster:
    """The connection to an owner's cluster, through one driver process at a time.

    A driver that ends is replaced, and gets the unfinished tasks whose deadline has not passed.
    """

    def __init__(
        self,
        address: str,
        lanes: Sequence[LaneSpec],
        engine: Engine,
        folder: Path,
        on_nodes: Callable[[tuple[NodeReport, ...]], None] = lambda nodes: None,
        command: Sequence[str] = (sys.executable, "-P", "-m", "pol.work.cluster"),
    ) -> None:
        """Start the driver in the background. ``folder`` is its working folder; ``on_nodes`` is told of changes."""
        self.address = address
        self._settings = DriverSettings(address, tuple(lanes), engine)
        self._folder, self._on_nodes, self._command = folder, on_nodes, command
        self.nodes: tuple[NodeReport, ...] = ()
        self.problem = _STARTING
        """Why no task can run now; empty if the cluster can be used."""
        self._lock = threading.RLock()
        self._tasks: dict[int, _Task] = {}
        self._numbers = count()
        self._driver: _Driver | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._live, name="cluster", daemon=True)
        self._thread.start()
        self._clock = threading.Thread(target=self._expire, name="cluster-clock", daemon=True)
        self._clock.start()

    def executor(self, lane: str, queued: int = 64, ended: Ended = lambda seconds, error: None) -> "ClusterExecutor":
        """Return the executor of a lane. ``ended`` is called after the end of every task that began."""
        return ClusterExecutor(self, lane, queued, ended)

    def close(self) -> None:
        """End the driver and all workers. Every task that has not ended fails with PoolClosed."""
        self._closed.set()
        with self._lock:
            if self._driver is not None:
                self._driver.stop()
        self._thread.join()
        self._clock.join()
        with self._lock:
            for task in list(self._tasks.values()):
                self._finish(task, PoolClosed("the pool was closed"))

    # --- tasks -------------------------------------------------------------------------------------

    def add(
        self, lane: "ClusterExecutor", label: str, packed: PackedTask, timeout: float | None, node: str = ""
    ) -> "Future[Any]":
        """Queue a task of a lane, for any node or for the one with this name."""
        future: Future[Any] = Future()
        ends = inf if timeout is None else time.monotonic() + timeout
        with self._lock:
            if self._closed.is_set():
                raise PoolClosed("the pool is closed")
            number = next(self._numbers)
            task = _Task(number=number, lane=lane, label=label, packed=packed, ends=ends, future=future, node=node)
            self._tasks[task.number] = task
            if self._driver is not None and not self.problem:
                self._give(task)
        future.add_done_callback(lambda done: self._cancel(task) if done.cancelled() else None)
        return future

    def _cancel(self, task: _Task) -> None:
        """Forget a task that no one waits for, here and in the driver."""
        with self._lock:
            if self._tasks.pop(task.number, None) is None or self._driver is None or not task.drivers:
                return
            with suppress(OSError):
                self._driver.connection.send_bytes(pickle.dumps(TaskCancelled(task.number)))

    def counts(self, lane: "ClusterExecutor") -> tuple[int, int]:
        """Return how many tasks of a lane run, and how many wait."""
        with self._lock:
            began = [task.began is not None for task in self._tasks.values() if task.lane is lane]
        return sum(began), len(began) - sum(began)

    def width(self, lane: "ClusterExecutor") -> int:
        """Return how many tasks of a lane can run at the same time on the nodes that work now; at least 1."""
        (spec,) = (spec for spec in self._settings.lanes if spec.name == lane.name)
        threads = self._settings.engine.threads or 1
        return max(1, sum(spec.processes_at(node.processors, threads) for node in self.nodes if not node.problem))

    def drop(self, lane: "ClusterExecutor") -> None:
        """End the tasks of a lane that was closed."""
        with self._lock:
            for task in [task for task in self._tasks.values() if task.lane is lane]:
                self._finish(task, PoolClosed("the pool was closed"))

    def _give(self, task: _Task) -> None:
        assert self._driver is not None
        task.drivers += 1
        left = None if task.ends == inf else max(0.0, task.ends - time.monotonic())
        message = TaskGiven(
            number=task.number,
            lane=task.lane.name,
            label=f"{task.label} ({task.number})",
            packed=task.packed,
            seconds=left,
            node=task.node,
        )
        # If the driver is gone, its reader notices, and the next driver gets the task.
        with suppress(OSError):
            self._driver.connection.send_bytes(pickle.dumps(message))

    def _finish(self, task: _Task, error: BaseException | None, value: Any = None) -> None:
        if self._tasks.pop(task.number, None) is None:
            return
        if task.future.set_running_or_notify_cancel():
            if error is None:
                task.future.set_result(value)
            else:
                task.future.set_exception(error)
        if task.began is not None:
            task.lane.ended(time.monotonic() - task.began, error)

    def _expire(self) -> None:
        """End tasks by their deadline, even if there is no driver, or if it does not answer."""
        while not self._closed.wait(_POLL_SECONDS):
            now = time.monotonic()
            with self._lock:
                for task in list(self._tasks.values()):
                    late = LATE_SECONDS if task.drivers and not self.problem else 0.0
                    if now >= task.ends + late:
                        why = f": {self.problem}" if self.problem else ""
                        self._finish(task, TaskTimeout(f"the deadline passed in the cluster at {self.address}{why}"))

    # --- drivers -----------------------------------------------------------------------------------

    def _live(self) -> None:
        least, most = PAUSE_SECONDS
        pause = least
        while not self._closed.is_set():
            began = time.monotonic()
            try:
                self._serve()
            except (OSError, EOFError, pickle.UnpicklingError) as error:
                _log.debug("the driver's pipe: %r", error)
            with self._lock:
                driver, self._driver = self._driver, None
                if driver is not None:
                    driver.end()
                if self._closed.is_set():
                    return
                if driver is not None and driver.is_refused:
                    self.problem = f"it refuses the token in {os.environ.get(TOKEN_PATH)}"
                elif not self.problem or self.problem == _STARTING:
                    last = driver.lines[-1:] if driver is not None else []
                    self.problem = " ".join(["the driver ended", *last])
                self._see(())
                for task in list(self._tasks.values()):
                    task.began = None
                    if task.drivers >= ATTEMPTS_MAX:
                        self._finish(task, WorkerDied(f"the drivers of the cluster at {self.address} ended"))
            _log.warning("the cluster at %s cannot be used: %s", self.address, self.problem)
            pause = least if time.monotonic() - began > most else min(most, pause * 2)
            self._closed.wait(pause)

    def _serve(self) -> None:
        """Start a driver and read its messages until it ends."""
        with self._lock:
            if self._closed.is_set():
                return
            self._driver = driver = _Driver(self._settings, self._folder, self._command)
        if not driver.connection.poll(START_SECONDS):
            self.problem = f"the driver was not connected within {START_SECONDS:.0f} s"
            return
        while True:
            message = read_answer(driver.connection.recv_bytes(MESSAGE_BYTES_MAX))
            with self._lock:
                match message:
                    case DriverReady(problem):
                        self.problem = str(problem)
                        if problem:
                            return
                        for task in sorted(self._tasks.values(), key=lambda each: each.number):
                            self._give(task)
                    case TaskBegan(number) if number in self._tasks:
                        self._tasks[number].began = time.monotonic()
                    case TaskEnd(number) if number in self._tasks:
                        self._end(self._tasks[number], message)
                    case NodesSeen(nodes):
                        self._see(nodes)

    def _see(self, nodes: tuple[NodeReport, ...]) -> None:
        before = {node.name: node for node in self.nodes}
        for node in nodes:
            was = before.get(node.name)
            if was is not None and node.problem and not was.problem:
                _log.warning("node %s (%s) is lost: %s", node.name, node.address, node.problem)
            elif node.fault and (was is None or node.fault != was.fault):
                _log.warning("node %s (%s) cannot run some tasks: %s", node.name, node.address, node.fault)
            elif not node.problem and (was is None or was.problem):
                _log.info("node %s (%s) computes, with %d processors", node.name, node.address, node.processors)
        self.nodes = nodes
        self._on_nodes(nodes)

    def _end(self, task: _Task, end: TaskEnd) -> None:
        if end.error:
            self._finish(task, _ERRORS.get(end.error, WorkerDied)(end.text))
            return
        try:
            succeeded, value = read_answer(end.answer)
        except Exception as error:  # noqa: BLE001  (bytes that are not an answer are one task's failure)
            self._finish(task, WorkerDied(f"the answer cannot be read: {error!r}"))
            return
        if succeeded:
            self._finish(task, None, value)
        elif isinstance(value, Exception):
            self._finish(task, value)
        else:
            self._finish(task, WorkerDied("the worker failed without an error"))


class ClusterExecutor:
    """The executor of one lane of a cluster."""

    def __init__(self, cluster: Cluster, name: str, queued: int, ended: Ended) -> None:
        """Use a cluster, which may have other lanes."""
        self._cluster, self.name, self._queued, self.ended = cluster, name, queued, ended
        self._is_closed = False

    def submit(self, function: Callable[..., T], *args: Any, timeout: float | None = None) -> "Future[T]":
        """Queue a task; see :class:`pol.work.executor.Executor`."""
        return self._add("", function, args, timeout)

    def at(self, node: str) -> "NodeExecutor":
        """Return the queue for the node with this name alone. Its tasks have one try, and fail with the node."""
        return NodeExecutor(node, self._add)

    def _add(
        self, node: str, function: Callable[..., Any], args: Sequence[Any], timeout: float | None
    ) -> "Future[Any]":
        if self._is_closed:
            raise PoolClosed("the pool is closed")
        if self.waiting >= self._queued:
            raise PoolFull(f"{self._queued} tasks are already waiting")
        return self._cluster.add(self, function.__name__, pack(function, args), timeout, node)

    @property
    def width(self) -> int:
        """Number of tasks that can run at the same time on the nodes that work now; at least 1."""
        return self._cluster.width(self)

    @property
    def running(self) -> int:
        """Number of tasks that are running."""
        return self._cluster.counts(self)[0]

    @property
    def waiting(self) -> int:
        """Number of tasks that wait for a worker."""
        return self._cluster.counts(self)[1]

    def close(self) -> None:
        """End the tasks of this lane. The cluster itself is closed by :meth:`Cluster.close`."""
        self._is_closed = True
        self._cluster.drop(self)


@dataclass(frozen=True, slots=True)
class NodeExecutor:
    """The queue of a lane for one node."""

    name: str
    add: Callable[[str, Callable[..., Any], Sequence[Any], float | None], "Future[Any]"]

    def submit(self, function: Callable[..., Any], *args: Any, timeout: float | None = None) -> "Future[Any]":
        """Queue a task as :meth:`ClusterExecutor.submit` does. A task without this node fails with WorkerDied."""
        return self.add(self.name, function, args, timeout)
