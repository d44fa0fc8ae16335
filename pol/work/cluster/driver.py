"""The driver process: the only code that uses Ray. It has no keys, no database and no decisions.

It reads tasks from a pipe and sends back their ends. There is one actor per node, around a
:class:`pol.work.cluster.node.NodeWorker`. Ray starts and watches actors; retries and deadlines are the dispatcher's.
"""

import logging
import os
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pol.work.answers import read_answer
from pol.work.cluster.dispatch import Dispatcher, NodeFault, NodeLost, NodeReport
from pol.work.cluster.files import FileRef, PackedTask
from pol.work.cluster.messages import (
    DriverReady,
    DriverSettings,
    FromDriver,
    NodesSeen,
    TaskBegan,
    TaskCancelled,
    TaskGiven,
)
from pol.work.cluster.node import NodeAnswer, NodeWorker, release
from pol.work.cluster.stranger import OPEN, ask_as_stranger

_CALLS = 64
"""Calls to an actor that may run at a time: tasks of all lanes, transfers, and a ping."""
_LOOK_SECONDS = 0.5
_AGAIN_SECONDS = 5.0
"""Pause (s) before a node that was lost gets another worker."""
_START_SECONDS = 60.0
"""Time (s) that the first worker of a node has to start. It doubles with each worker that did not start in time: on a
busy machine another one would not start sooner.
"""
_STARTS_MAX = 5


class RayNode:
    """A node of the cluster, with the actor that is its worker."""

    def __init__(self, node_id: str, found: dict[str, Any], settings: DriverSettings) -> None:
        """Start the actor; :meth:`look` says when it is ready."""
        self.id = node_id
        self.name = node_id[:8]
        self.address = str(found.get("NodeManagerAddress", ""))
        resources = found.get("Resources", {})
        self.processors = int(resources.get("CPU", 0))
        self.memory = int(resources.get("memory", 0))
        self._settings = settings
        options = {
            "num_cpus": 0,
            "max_restarts": 0,
            "max_task_retries": 0,
            "max_concurrency": _CALLS,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(node_id, soft=False),
        }
        worker: Any = ray.remote(NodeWorker)
        arguments = (node_id, settings.lanes, self.processors, settings.engine, self.address)
        self._actor: Any = worker.options(**options).remote(*arguments)
        self._ping: Any = None
        self._asked = 0.0
        self.is_ready = False

    def look(self, start_seconds: float) -> str:
        """Ask the worker whether it lives; return why it cannot be used, or an empty text."""
        if self._ping is None:
            self._ping = self._actor.ping.remote()
            self._asked = time.monotonic()
        done, _ = ray.wait([self._ping], timeout=0)
        if not done:
            most = self._settings.ping_seconds if self.is_ready else start_seconds
            return "it does not answer" if time.monotonic() - self._asked > most else ""
        ping, self._ping = self._ping, None
        try:
            running = ray.get(ping, timeout=1)
        except RayError as error:
            return f"its worker ended ({type(error).__name__})"
        if running != release():
            return "another release of assay runs there"
        self.is_ready = True
        return ""

    def end(self) -> None:
        """End the worker. A frozen node ends it when it thaws."""
        with suppress(RayError):
            ray.kill(self._actor, no_restart=True)

    def missing(self, number: int, attempt: int, files: Sequence[FileRef], seconds: float) -> tuple[FileRef, ...]:
        """Return the contents that the node does not have."""
        return tuple(self._get(self._actor.missing.remote(number, attempt, files), seconds))

    def put(self, number: int, attempt: int, file: FileRef, offset: int, piece: bytes, seconds: float) -> bool:
        """Send a piece of a file through the object store."""
        return bool(self._get(self._actor.put.remote(number, attempt, file, offset, piece), seconds))

    def run(
        self, number: int, attempt: int, lane: str, task: PackedTask, seconds: float | None, patience: float
    ) -> NodeAnswer:
        """Run a task at the node."""
        call = self._actor.run.remote(number, attempt, lane, task.data, task.places, seconds)
        answer = self._get(call, patience)
        if not isinstance(answer, NodeAnswer):
            raise NodeFault("the node sent something else than an answer")
        return answer

    def take(self, number: int, attempt: int, index: int, offset: int, seconds: float) -> bytes:
        """Return a piece of a file that the task wrote."""
        return bytes(self._get(self._actor.take.remote(number, attempt, index, offset), seconds))

    def drop(self, number: int, attempt: int) -> None:
        """Let the node forget an attempt."""
        with suppress(RayError):
            self._actor.drop.remote(number, attempt)

    def _get(self, call: Any, seconds: float) -> Any:
        try:
            return ray.get(call, timeout=seconds)
        except GetTimeoutError:
            raise NodeLost(f"it did not answer within {seconds:.0f} s") from None
        except RayTaskError as error:
            raise NodeFault(str(error.cause)) from None
        except RayError as error:
            raise NodeLost(_first_line(error)) from None


class Driver:
    """The driver's nodes, and the dispatcher of its tasks."""

    def __init__(self, settings: DriverSettings, connection: "Connection[Any, Any]") -> None:
        """Use the cluster to which this process is connected."""
        self._settings = settings
        self._connection = connection
        self._sending = threading.Lock()
        self._nodes: dict[str, RayNode] = {}
        self._problems: dict[str, tuple[str, float]] = {}
        self._unstarted: dict[str, int] = {}  # workers in a row that did not start in time, by node
        self._shown: tuple[NodeReport, ...] = ()
        threads = settings.engine.threads or 1
        self.dispatcher = Dispatcher(settings.lanes, threads, lambda number: self.send(TaskBegan(number)), self.send)

    def send(self, message: FromDriver) -> None:
        """Send a message to the daemon. If the daemon is gone, end this process."""
        data = pickle.dumps(message)
        # The daemon would refuse other values, too. Here this is a bug of one message.
        read_answer(data)
        try:
            with self._sending:
                self._connection.send_bytes(data)
        except OSError:
            os._exit(0)

    def watch(self) -> None:
        """Look at the nodes again and again: start workers, take out nodes that do not answer, end late tasks."""
        while True:
            self._look()
            self.dispatcher.expire()
            time.sleep(_LOOK_SECONDS)

    def _look(self) -> None:
        nodes: Callable[[], list[dict[str, Any]]] = ray.nodes
        found = {node["NodeID"]: node for node in nodes()}
        alive = {name for name, node in found.items() if node["Alive"]}
        now = time.monotonic()
        for node_id in alive - self._nodes.keys():
            problem, since = self._problems.get(node_id, ("", 0.0))
            if int(found[node_id].get("Resources", {}).get("CPU", 0)) and (not problem or now - since > _AGAIN_SECONDS):
                self._nodes[node_id] = RayNode(node_id, found[node_id], self._settings)
        for node in list(self._nodes.values()):
            was_ready = node.is_ready
            unstarted = self._unstarted.get(node.id, 0)
            seconds = _START_SECONDS * 2 ** min(unstarted, _STARTS_MAX)
            problem = node.look(seconds) if node.id in alive else "the cluster has lost it"
            if problem:
                self._unstarted[node.id] = 0 if was_ready else unstarted + 1
                self._problems[node.id] = problem, now
                del self._nodes[node.id]
                self.dispatcher.lose(node)
                threading.Thread(target=node.end, daemon=True).start()
            elif node.is_ready and not was_ready:
                self._problems.pop(node.id, None)
                self.dispatcher.join(node)
        self._show(found)

    def _show(self, found: dict[str, dict[str, Any]]) -> None:
        reports = []
        for node_id, node in sorted(found.items()):
            known = self._nodes.get(node_id)
            problem, _ = self._problems.get(node_id, ("", 0.0))
            resources = node.get("Resources", {})
            if known is not None and known.is_ready:
                problem = ""
            elif not problem:
                problem = "its worker starts" if known is not None else "it has no processors for tasks"
            reports.append(
                NodeReport(
                    name=node_id[:8],
                    address=str(node.get("NodeManagerAddress", "")),
                    processors=int(resources.get("CPU", 0)),
                    memory=int(resources.get("memory", 0)),
                    problem=problem,
                    tasks=self.dispatcher.tasks_at(known) if known is not None else (),
                    ended=self.dispatcher.ended_at(node_id[:8]),
                    fault=self.dispatcher.fault_at(node_id[:8]),
                )
            )
        if tuple(reports) != self._shown:
            self._shown = tuple(reports)
            self.send(NodesSeen(self._shown))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _connect(address: str) -> str:
    """Join the cluster; return why it is not possible, or an empty text.

    Ray says the same of a cluster that is not there, and of a machine that is none of its nodes.
    """
    if ask_as_stranger(address) == OPEN:
        return "it lets everyone in: start its nodes with RAY_AUTH_MODE=token"
    try:
        ray.init(
            address=address,
            namespace="assay",
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=False,
        )
    except Exception as error:  # noqa: BLE001  (Ray raises many kinds, and the daemon reports each)
        hint = "start the head, and run ray start on this machine"
        return f"{_first_line(error)} ({hint})"
    return ""


def main(descriptor: int) -> None:
    """Serve the daemon at the other end of the pipe until it closes the pipe."""
    connection: Connection[Any, Any] = Connection(descriptor)
    settings: DriverSettings = pickle.loads(connection.recv_bytes())  # noqa: S301  (from the trusted daemon)
    driver = Driver(settings, connection)
    problem = _connect(settings.address)
    driver.send(DriverReady(problem))
    if problem:
        return
    _in_thread(driver.watch)
    while True:
        try:
            task: TaskGiven | TaskCancelled = pickle.loads(connection.recv_bytes())  # noqa: S301  (from the daemon)
        except (EOFError, OSError):
            break
        if isinstance(task, TaskCancelled):
            driver.dispatcher.cancel(task.number)
            continue
        driver.dispatcher.submit(task.number, task.lane, task.label, task.packed, task.seconds, task.node)
    # Actors end with their driver. Nothing else is worth waiting for.
    os._exit(0)


def _in_thread(work: Callable[[], None]) -> None:
    def run() -> None:
        try:
            work()
        except BaseException:  # noqa: BLE001  (the head of the cluster is lost: the daemon starts another driver)
            os._exit(1)

    threading.Thread(target=run, daemon=True).start()
