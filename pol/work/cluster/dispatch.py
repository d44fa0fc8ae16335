"""The distribution of tasks over nodes: earliest deadline first, and again on another node if a node is lost.

This module knows nothing about how nodes are reached (:class:`NodeLink`), and runs no task in its own process.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Protocol

from pol.work.cluster.files import PIECE_BYTES, FileRef, OutputPlace, PackedTask, file_digest
from pol.work.cluster.node import LaneSpec, NodeAnswer
from pol.work.executor import NoSpace

_log = logging.getLogger("assay.cluster")
ATTEMPTS_MAX = 3
"""Most tries of a task, each on another node or after the loss of one."""
GRACE_SECONDS = 5.0
"""Time (s) after a task's deadline in which its node must report the timeout. A node that does not is lost."""
TRANSFER_SECONDS = 120.0
"""Longest time (s) for one piece of a file."""


class NodeLost(Exception):
    """The error of a call to a node that no longer answers."""


class NodeFault(Exception):
    """The error of a node that answers but cannot do its part, for example because its disk is full."""


class NodeLink(Protocol):
    """A node with its worker (:class:`pol.work.cluster.node.NodeWorker`), which may be on another machine.

    Every call ends within ``seconds``, with NodeLost if the node does not answer, or NodeFault if it fails.
    """

    name: str
    processors: int

    def missing(self, number: int, attempt: int, files: Sequence[FileRef], seconds: float) -> tuple[FileRef, ...]:
        """Return the contents that the node does not have, and keep the others."""
        ...

    def put(self, number: int, attempt: int, file: FileRef, offset: int, piece: bytes, seconds: float) -> bool:
        """Send a piece of a file; after the last piece, return whether the file has its hash."""
        ...

    def run(
        self, number: int, attempt: int, lane: str, task: PackedTask, seconds: float | None, patience: float
    ) -> NodeAnswer:
        """Run a task for at most ``seconds``; the answer must come within ``patience``."""
        ...

    def take(self, number: int, attempt: int, index: int, offset: int, seconds: float) -> bytes:
        """Return a piece of a file that the task wrote."""
        ...

    def drop(self, number: int, attempt: int) -> None:
        """Let the node forget an attempt; do not wait for it."""
        ...


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """The end of a task: the bytes of its answer, or the name of a pool's error with its reason."""

    number: int
    answer: bytes
    error: str
    text: str


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The state of a node, and the names of the tasks that run there.

    ``problem`` says why the node gets no tasks; it is empty for a node that works.
    """

    name: str
    address: str
    processors: int
    memory: int
    problem: str
    tasks: tuple[str, ...]
    # Number of tasks of each kind that ended there. Sorted by kind.
    ended: tuple[tuple[str, int], ...] = ()
    # Why the last task there had to go to another node, for example a full disk; empty if the last task ended there.
    fault: str = ""


@dataclass(eq=False)
class _Task:
    number: int
    lane: str
    label: str
    packed: PackedTask
    ends: float
    # The name of the only node that may run it; empty if any may.
    pinned: str = ""
    # Each try has a number of its own; it changes again when the try no longer counts.
    attempt: int = 0
    tries: int = 0
    node: "NodeLink | None" = None
    is_over: bool = False
    avoided: set[str] = field(default_factory=set)

    @property
    def key(self) -> tuple[float, int]:
        return self.ends, self.number

    @property
    def kind(self) -> str:
        return self.label.partition(" ")[0]


class Dispatcher:
    """The queue of tasks, and a thread for each process of each node that takes tasks from it.

    ``began`` is called with the number of each task that begins for the first time, and ``ended`` with each end.
    """

    def __init__(
        self,
        lanes: Sequence[LaneSpec],
        threads: int,
        began: Callable[[int], None],
        ended: Callable[[TaskEnd], None],
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._lanes, self._threads = lanes, threads
        self._began, self._ended, self._grace = began, ended, grace
        self._changed = threading.Condition()
        self._waiting: list[_Task] = []
        self._tasks: dict[int, _Task] = {}
        self._nodes: set[NodeLink] = set()
        self._counts: dict[str, Counter[str]] = {}
        self._faults: dict[str, str] = {}

    def submit(
        self, number: int, lane: str, label: str, packed: PackedTask, seconds: float | None, pinned: str = ""
    ) -> None:
        """Queue a task. If it is ``pinned`` to the node with this name, it has one try there, and fails with it."""
        ends = inf if seconds is None else time.monotonic() + seconds
        task = _Task(number=number, lane=lane, label=label, packed=packed, ends=ends, pinned=pinned)
        with self._changed:
            self._tasks[number] = task
            if pinned and pinned not in {node.name for node in self._nodes}:
                self._fail(task, "WorkerDied", f"node {pinned} does not compute")
                return
            self._waiting.append(task)
            self._changed.notify_all()

    def join(self, node: NodeLink) -> None:
        """Let a node take tasks."""
        with self._changed:
            self._nodes.add(node)
        for lane in self._lanes:
            for index in range(lane.processes_at(node.processors, self._threads)):
                name = f"{node.name}-{lane.name}-{index}"
                threading.Thread(target=self._serve, args=(node, lane.name), name=name, daemon=True).start()

    def lose(self, node: NodeLink) -> None:
        """Take a node out, and queue its tasks again. Answers that it may still give are dropped."""
        with self._changed:
            if node not in self._nodes:
                return
            self._nodes.discard(node)
            for task in list(self._tasks.values()):
                if task.node is node or task.pinned == node.name:
                    self._again(task, node)
            self._changed.notify_all()

    def tasks_at(self, node: NodeLink) -> tuple[str, ...]:
        """Return the names of the tasks that run at a node."""
        with self._changed:
            return tuple(sorted(f"{task.lane}: {task.label}" for task in self._tasks.values() if task.node is node))

    def ended_at(self, name: str) -> tuple[tuple[str, int], ...]:
        """Return how many tasks of each kind ended at the node with this name, sorted by kind."""
        with self._changed:
            return tuple(sorted(self._counts.get(name, {}).items()))

    def fault_at(self, name: str) -> str:
        """Return why the last task had to leave the node with this name; empty if the last one ended there."""
        with self._changed:
            return self._faults.get(name, "")

    def cancel(self, number: int) -> None:
        """Forget a task that no one waits for. A node that runs it goes on, but its answer is dropped."""
        with self._changed:
            task = self._tasks.get(number)
            if task is not None:
                self._forget(task)

    def expire(self) -> None:
        """End the tasks whose deadline has passed, wherever they are."""
        now = time.monotonic()
        with self._changed:
            for task in list(self._tasks.values()):
                patience = 0.0 if task.node is None else self._grace
                if now >= task.ends + patience:
                    where = "waiting" if task.node is None else "running"
                    self._fail(task, "TaskTimeout", f"the deadline passed while it was {where}")

    # --- one process of a node -----------------------------------------------------------------------

    def _serve(self, node: NodeLink, lane: str) -> None:
        while (following := self._next(node, lane)) is not None:
            task, attempt = following
            try:
                end = self._attempt(node, task, attempt)
            except NodeLost as lost:
                _log.warning("node %s is lost: %s", node.name, lost)
                self.lose(node)
            except (NodeFault, OSError) as fault:
                _log.warning("node %s cannot run a task: %s", node.name, fault)
                with self._changed:
                    self._faults[node.name] = str(fault)
                    if task.attempt == attempt:
                        task.avoided.add(node.name)
                        self._again(task, node, str(fault))
                        self._changed.notify_all()
            else:
                with self._changed:
                    # Only the answer of the current attempt counts. A node that was frozen may answer an old one.
                    if task.attempt == attempt:
                        self._faults.pop(node.name, None)
                        self._counts.setdefault(node.name, Counter())[task.kind] += 1
                        self._end(task, end)
            with suppress(NodeLost, NodeFault):
                node.drop(task.number, attempt)

    def _next(self, node: NodeLink, lane: str) -> tuple[_Task, int] | None:
        """Wait for the task with the earliest deadline, and return it with its attempt; None if the node was taken out.

        A task avoids the nodes on which it failed, unless it failed on all of them.
        """
        with self._changed:
            while node in self._nodes:
                names = {known.name for known in self._nodes}
                fitting = [
                    task
                    for task in self._waiting
                    if task.lane == lane
                    and task.pinned in ("", node.name)
                    and (node.name not in task.avoided or names <= task.avoided)
                ]
                if fitting:
                    task = min(fitting, key=lambda each: each.key)
                    self._waiting.remove(task)
                    task.attempt += 1
                    task.tries += 1
                    task.node = node
                    if task.tries == 1:
                        self._began(task.number)
                    return task, task.attempt
                self._changed.wait(1.0)
        return None

    def _attempt(self, node: NodeLink, task: _Task, attempt: int) -> TaskEnd:
        """Send what the node lacks, run the task there, and fetch what it wrote."""
        number, packed = task.number, task.packed
        files = tuple({file: None for place in packed.places for file in place.files})
        sources = dict(packed.sources)
        for file in node.missing(number, attempt, files, self._left(task, TRANSFER_SECONDS)):
            self._send(node, task, attempt, file, sources[file])
        seconds = None if task.ends == inf else max(0.0, task.ends - time.monotonic())
        patience = 86_400.0 if seconds is None else seconds + self._grace
        done = node.run(number, attempt, task.lane, packed, seconds, patience)
        if (done.number, done.attempt) != (number, attempt):
            raise NodeFault("the node answered another task")
        if done.error == NoSpace.__name__:
            raise NodeFault(done.text)
        if not done.error and task.attempt == attempt:
            self._fetch(node, task, attempt, done.outputs)
        return TaskEnd(number=number, answer=done.answer, error=done.error, text=done.text)

    def _send(self, node: NodeLink, task: _Task, attempt: int, file: FileRef, source: str) -> None:
        offset = 0
        with Path(source).open("rb") as content:
            while True:
                piece = content.read(PIECE_BYTES)
                is_right = node.put(task.number, attempt, file, offset, piece, self._left(task, TRANSFER_SECONDS))
                offset += len(piece)
                if not is_right:
                    raise NodeFault(f"{source} arrived with another hash")
                if offset >= file.size or not piece:
                    return

    def _fetch(self, node: NodeLink, task: _Task, attempt: int, outputs: Sequence[FileRef | None]) -> None:
        """Fetch the files that a task wrote. A file gets its name here only if the attempt still counts."""
        indexes = [index for index, place in enumerate(task.packed.places) if isinstance(place, OutputPlace)]
        parts: list[tuple[Path, Path]] = []
        try:
            for index, file in zip(indexes, outputs, strict=True):
                if file is not None:
                    to = Path(task.packed.paths[index])
                    parts.append((to.with_name(f"{to.name}.{attempt}"), to))
                    self._take(node, task, attempt, index, file, parts[-1][0])
            with self._changed:
                if task.attempt == attempt:
                    for part, to in parts:
                        part.replace(to)
        finally:
            for part, _ in parts:
                part.unlink(missing_ok=True)

    def _take(self, node: NodeLink, task: _Task, attempt: int, index: int, file: FileRef, part: Path) -> None:
        with part.open("wb") as target:
            while target.tell() < file.size:
                left = self._left(task, TRANSFER_SECONDS)
                piece = node.take(task.number, attempt, index, target.tell(), left)
                if not piece:
                    break
                target.write(piece)
        if part.stat().st_size != file.size or file_digest(part) != file.sha256:
            raise NodeFault(f"{part.name} arrived with another hash")

    def _left(self, task: _Task, most: float) -> float:
        return max(0.1, min(most, task.ends + self._grace - time.monotonic()))

    # --- ends, under the lock ------------------------------------------------------------------------

    def _again(self, task: _Task, node: NodeLink, why: str = "") -> None:
        """Queue a task again after its node failed, if there is time, and it was not tried too often."""
        task.node = None
        task.attempt += 1
        if task.pinned:
            self._fail(task, "WorkerDied", f"node {node.name} is lost" + (f": {why}" if why else ""))
        elif task.tries >= ATTEMPTS_MAX:
            text = f"{ATTEMPTS_MAX} tries failed, the last on node {node.name}"
            self._fail(task, "WorkerDied", f"{text}: {why}" if why else text)
        else:
            self._waiting.append(task)

    def _fail(self, task: _Task, error: str, text: str) -> None:
        self._end(task, TaskEnd(number=task.number, answer=b"", error=error, text=text))

    def _end(self, task: _Task, end: TaskEnd) -> None:
        if not task.is_over:
            self._forget(task)
            self._ended(end)

    def _forget(self, task: _Task) -> None:
        task.is_over = True
        task.node = None
        # An attempt that still runs no longer counts.
        task.attempt += 1
        del self._tasks[task.number]
        if task in self._waiting:
            self._waiting.remove(task)
