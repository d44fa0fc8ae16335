"""Training on an owner's cluster: each share is a thread here, and a sequence of tasks there, one per segment.

The daemon keeps the shares, their boundaries and all keys. A task carries the job and the states at its segment's
beginning, and brings back those at its end. So if a node is lost in mid-segment, another node goes on from the last
boundary, and so does a daemon that starts again.

A segment and an update may also be the work of several machines together (:mod:`compute_provider.work.grouped`): nodes
of a cluster, or processes here.

Legs in hardware arithmetic are trained by a sandboxed worker of this machine (:mod:`compute_provider.work.queued`).
"""

import logging
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from math import inf
from pathlib import Path
from threading import Event
from typing import Any, Final, TypeVar, cast

from compute_provider.decide.records import name_of
from compute_provider.interfaces import ProviderError
from compute_provider.work.bench import Speed, limits_here
from compute_provider.work.grouped import close_together, train_together
from compute_provider.work.prober import TASK_SECONDS, ProbeTask
from compute_provider.work.queued import QueuedTrainer
from compute_provider.work.trainer import HONEST, Listen, recompute_segment
from compute_provider.work.worker import LOCAL_OUT, UPDATE, WorkOrder, boundary_files
from domain import codec
from domain.keys import ShareKey
from host.files import link_whole, move_durably
from host.sandbox import usable_memory
from pol.executor.names import Engine
from pol.machines.form import Shape, check_device, number_of, shape_of, side, spec_here
from pol.machines.nodes import LANE as MEMBERS
from pol.machines.nodes import NodeQueues, Nodes, members_lane, working
from pol.machines.pool import GroupPool, Hosting, OneGroup
from pol.machines.processes import ProcessNodes
from pol.work.cluster.dispatch import NodeReport
from pol.work.executor import PoolClosed, PoolError, address_of
from pol.work.records import Boundary, RoundSlot
from pol.work.replayer import Lane, Replayer, start_replayer
from pol.work.shares import (
    ProcessSpeed,
    SegmentEnd,
    SegmentTask,
    ShareShape,
    UpdateEnd,
    UpdateTask,
    compute_update,
    measure_process,
    probe_pieces,
    share_shape,
    train_segment,
)

T = TypeVar("T")
_log = logging.getLogger("assay.provider")
_LANE: Final = "shares"
START_SECONDS = 180.0
"""Longest time (s) until a node of the cluster can compute."""
_MEASURE_SECONDS = 60.0
_RECOMPUTE_SECONDS = 3_600.0
_LOOK_SECONDS = 0.2
_Submit = Callable[..., "Future[Any]"]


@dataclass(eq=False)
class _Training:
    """A share in training."""

    key: ShareKey
    order: WorkOrder
    stopped: Event = field(default_factory=Event)


class ClusterMachines:
    """The machines of an owner's cluster: they train as many shares at once as they have processes for them.

    A share that is stopped leaves its node at the end of its segment; what the segment gives is dropped.
    """

    def __init__(
        self,
        executor: str,
        engine: Engine,
        listen: Listen,
        home: Path,
        on_nodes: Callable[[tuple[NodeReport, ...]], None] = lambda nodes: None,
        start: Callable[..., Replayer] = start_replayer,
        machines: Shape = 1,
    ) -> None:
        """Connect to the cluster that ``executor`` (a value of ``--executor``) names.

        If ``machines`` is not 1, groups of so many nodes train a share together. Then ``executor`` may also name this
        machine, whose processes are the machines of one group.

        ``listen`` gets the messages of training that a worker on this machine would send, on the thread of the share.
        ``on_nodes`` gets the nodes, or the processes of a group here, when they or their tasks have changed. Raises
        ClusterUnusable if this machine cannot use the cluster, and ExecutionError if ``engine`` names a GPU for a
        group.
        """
        self._listen, self._engine, self._executor_name, self._on_nodes = listen, engine, executor, on_nodes
        self._folder, self._inputs = home / "elsewhere", home / "inputs"
        for folder in (self._folder, self._inputs):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, mode=0o700)
        self.nodes: tuple[NodeReport, ...] = ()
        self._beside: QueuedTrainer | None = None
        self._beside_home = home / "hardware"
        self._lock = threading.RLock()
        self._trainings: dict[ShareKey, _Training] = {}
        self._numbers = 0
        self._closed = Event()
        self._shape, self._is_here = machines, not address_of(executor)
        number = number_of(machines)
        reads = (home / "jobs", self._inputs) if self._is_here else ()
        lanes = [Lane(name=_LANE, processes=number, folder=self._folder, reads=reads)]
        if number > 1:
            check_device(engine)
            lanes.append(members_lane(self._folder))
        self._replayer = start(executor, engine, lanes, home / "driver", self._see)
        self._executor = self._replayer.lanes[_LANE]
        self._groups: GroupPool | None = None
        self._here = ProcessNodes(spec_here(machines, engine), on_nodes) if number > 1 and self._is_here else None
        if number > 1:
            self._groups = GroupPool(self._hosting(), self._answer, home / "groups", self._folder, reads)

    def _hosting(self) -> Hosting:
        if self._here is not None:
            return OneGroup(self._here.spec, partial(self._here.running, _LANE))
        queues = cast("NodeQueues", self._replayer.lanes[MEMBERS.name])
        return Nodes(lambda: self.nodes, queues, self._shape, self._engine)

    def _answer(self, function: Callable[..., T], *args: Any, timeout: float) -> T:
        """Let any process of the cluster call a function; return its answer."""
        return self._executor.submit(function, *args, timeout=timeout).result()

    def _see(self, nodes: tuple[NodeReport, ...]) -> None:
        self.nodes = nodes
        self._on_nodes(nodes)

    # --- shares --------------------------------------------------------------------------------------

    @property
    def slots(self) -> int:
        """Number of shares that the nodes can train at once now."""
        if self._groups is not None:
            return self._groups.hosting.groups
        threads = self._engine.threads or 1
        return sum(max(1, node.processors // threads) for node in self.nodes if not node.problem)

    def start(self, key: ShareKey, order: WorkOrder, program: Sequence[str]) -> None:
        """Train a share, unless it is already being trained. Nodes train only honestly.

        A share of a leg in hardware arithmetic is trained on this machine, one at a time.
        """
        if order.hardware:
            self._worker_here().start(key, order, program)
            return
        if tuple(program) != HONEST:
            raise OSError(f"a cluster does not run the program {program[0]}")
        with self._lock:
            if key in self._trainings:
                return
            training = self._trainings[key] = _Training(key, order)
        threading.Thread(target=self._train, args=(training,), name=f"share-{name_of(key)}", daemon=True).start()

    def _worker_here(self) -> QueuedTrainer:
        """Return what trains legs in hardware arithmetic; log once that it is this machine."""
        if self._beside is None:
            _log.warning("legs in hardware arithmetic are trained by this machine alone, one share at a time")
            self._beside = QueuedTrainer(self._listen, self._beside_home)
        return self._beside

    def stop(self, key: ShareKey) -> None:
        """End the training of this share; ``listen`` gets no message of the share after this call returns."""
        if self._beside is not None:
            self._beside.stop(key)
        with self._lock:
            training = self._trainings.pop(key, None)
            if training is not None:
                training.stopped.set()

    def tend(self, orders: Collection[bytes]) -> None:
        """End groups that have waited long for a segment, and report what runs in those on this machine."""
        if self._beside is not None:
            self._beside.tend(orders)
        if self._groups is not None:
            self._groups.tend()
        if self._here is not None:
            self._here.look()

    def pids(self) -> list[int]:
        """Return the ids of the members of a group on this machine, and of its worker for hardware arithmetic."""
        members = self._groups.processes() if self._groups is not None and self._is_here else []
        return [*members, *(self._beside.pids() if self._beside is not None else [])]

    def close(self) -> None:
        """End all training and the connection to the cluster."""
        self._closed.set()
        with self._lock:
            for training in self._trainings.values():
                training.stopped.set()
            self._trainings.clear()
        if self._beside is not None:
            self._beside.close()
        if self._groups is not None:
            self._groups.close()
        self._replayer.close()
        for folder in (self._folder, self._inputs):
            shutil.rmtree(folder, ignore_errors=True)

    def _train(self, training: _Training) -> None:
        last: dict[str, Any]
        try:
            last = self._train_share(training)
        except CancelledError:
            return
        except (PoolError, OSError) as error:
            last = {"failed": str(error), "again": True}
        self._tell(training, last, is_last=True)

    def _tell(self, training: _Training, message: dict[str, Any], *, is_last: bool = False) -> None:
        """Pass a message to ``listen``, unless the training was stopped."""
        with self._lock:
            if training.stopped.is_set():
                raise CancelledError
            if is_last:
                del self._trainings[training.key]
            self._listen(training.key, message)

    def _train_share(self, training: _Training) -> dict[str, Any]:
        """Train the rest of a share; return the last message."""
        order, folder = training.order, Path(training.order.folder)
        shape: ShareShape = self._ask(training, share_shape, Path(order.job))
        if shape.refused:
            return {"failed": shape.refused, "again": False}
        self._tell(training, {"ready": {"steps": shape.segments * shape.segment_steps, "open": []}})
        at, roots = _resumed(order)
        states = _states_at(order, at)
        for segment in range(at, shape.segments):
            with self._scratch() as scratch:
                # A task that wrote states has reported their roots: they are checked only at the beginning.
                asked = _segment_task(order, segment, states, roots if segment == at else None, scratch)
                end = self._train_segment(training, asked, roots)
                for number, loss in enumerate(end.losses, segment * shape.segment_steps + 1):
                    self._tell(training, {"step": number, "loss": loss})
                for boundary in end.boundaries:
                    self._keep(training, boundary, (asked.global_out, asked.local_out), states, folder)
                if end.refused:
                    return self._refused(training, end.refused, at if segment == at else 0)
                if end.stopped:
                    return {"stopped": end.stopped, "step": end.stop_step}
            last = end.boundaries[-1]
            states, roots = _states_at(order, segment + 1), (last.global_root, last.local_root)
        with self._scratch() as scratch, self._readable(Path(order.global_in), *states) as (opening, *ends):
            update = UpdateTask(
                job=Path(order.job),
                opening=opening,
                opening_root=order.global_root,
                global_end=ends[0],
                local_end=ends[1],
                roots=roots,
                engine=order.engine,
                update=scratch / UPDATE,
                local_out=scratch / LOCAL_OUT,
            )
            done = self._close(training, update)
            if done.refused:
                return self._refused(training, done.refused, at if at == shape.segments else 0)
            if done.stopped:
                return {"stopped": done.stopped, "step": -1}
            for path in (update.update, update.local_out):
                move_durably(path, folder / path.name)
        return {"done": {"update_root": done.update_root.hex(), "local_out_root": done.local_out_root.hex()}}

    def _refused(self, training: _Training, why: str, boundary: int) -> dict[str, Any]:
        """Go on from an earlier boundary if the files of this one may be damaged; else return the last message."""
        if not boundary:
            return {"failed": why, "again": False}
        _log.warning("boundary %d cannot be used: %s", boundary, why)
        for path in _states_at(training.order, boundary):
            path.unlink(missing_ok=True)
        return self._train_share(training)

    def _keep(
        self,
        training: _Training,
        boundary: Boundary,
        written: tuple[Path, Path],
        before: tuple[Path, Path],
        folder: Path,
    ) -> None:
        """Put the states of a boundary into the share's folder, and report the boundary."""
        names = boundary_files(boundary.index)
        if boundary.index == 0:
            for path, name in zip(before, names, strict=True):
                (folder / name).unlink(missing_ok=True)
                link_whole(path, folder / name)
        else:
            for path, name in zip(written, names, strict=True):
                move_durably(path, folder / name)
        self._tell(training, {"boundary": codec.to_plain(boundary)})

    def _train_segment(self, training: _Training, asked: SegmentTask, roots: tuple[bytes, bytes]) -> SegmentEnd:
        """Train a segment from the states with these roots; CancelledError if the training is stopped meanwhile."""
        if self._groups is None:
            return self._ask(training, train_segment, asked)
        with self._cancelled_by(training):
            return self._train_together(asked, roots, inf, training.stopped)

    def _close(self, training: _Training, asked: UpdateTask) -> UpdateEnd:
        """Compute the update of a share; CancelledError if the training is stopped meanwhile."""
        if self._groups is None:
            return self._ask(training, compute_update, asked)
        with self._cancelled_by(training):
            return close_together(self._groups, asked, inf, training.stopped)

    @contextmanager
    def _cancelled_by(self, training: _Training) -> Iterator[None]:
        """Raise CancelledError if a group's work ends because the training is stopped."""
        try:
            yield
        except PoolClosed:
            if training.stopped.is_set():
                raise CancelledError from None
            raise

    def _train_together(self, asked: SegmentTask, roots: tuple[bytes, bytes], ends: float, stop: Event) -> SegmentEnd:
        assert self._groups is not None, "the machines form groups"
        with self._readable(asked.global_in, asked.local_in) as (first, second):
            return train_together(self._groups, replace(asked, global_in=first, local_in=second), roots, ends, stop)

    @contextmanager
    def _readable(self, *paths: Path) -> Iterator[tuple[Path, ...]]:
        """Yield paths at which sandboxed processes can read these files: links, if the processes are here."""
        if not self._is_here:
            yield paths
            return
        place = self._inputs / str(self._next_number())
        place.mkdir(mode=0o700)
        try:
            links = tuple(place / str(index) for index, _ in enumerate(paths))
            for path, link in zip(paths, links, strict=True):
                link_whole(path, link)
            yield links
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _next_number(self) -> int:
        with self._lock:
            self._numbers += 1
            return self._numbers

    def _ask(self, training: _Training, function: Callable[[Any], T], request: Any) -> T:
        """Run a task on a node; CancelledError if the training is stopped meanwhile."""
        future = self._executor.submit(function, request)
        while True:
            if training.stopped.is_set():
                future.cancel()
                raise CancelledError
            try:
                return future.result(_LOOK_SECONDS)
            except NotYet:
                if future.done():
                    raise

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        """Yield a folder for what a task writes, and delete it afterwards."""
        folder = self._folder / str(self._next_number())
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def recompute(self, order: WorkOrder, segment: int, home: Path) -> Boundary | None:
        """Recompute a segment of a trained share on a node; return the boundary after it, None if that fails.

        If the leg has hardware arithmetic, this machine recomputes it.
        """
        if order.hardware:
            return recompute_segment(order, segment, home)
        before = tuple(known for known in order.boundaries if known.index <= segment)
        at, roots = _resumed(replace(order, boundaries=before))
        with self._scratch() as scratch:
            try:
                end = self._recompute(order, range(at, segment + 1), roots, scratch)
            except (PoolError, OSError) as error:
                _log.warning("a segment could not be recomputed: %s", error)
                return None
        if end is None and at:
            # The files of this boundary may be damaged.
            earlier = tuple(known for known in before if known.index < at)
            return self.recompute(replace(order, boundaries=earlier), segment, home)
        return end

    def _recompute(
        self, order: WorkOrder, segments: range, roots: tuple[bytes, bytes], scratch: Path
    ) -> Boundary | None:
        """Recompute some segments, and return the boundary after them; None if the job or its states are refused."""
        states, first = _states_at(order, segments.start), segments.start
        end = SegmentEnd()
        for segment in segments:
            asked = _segment_task(order, segment, states, roots if segment == first else None, scratch)
            if self._groups is None:
                end = self._replayer.recompute(_LANE, train_segment, asked, _RECOMPUTE_SECONDS)
            else:
                end = self._train_together(asked, roots, time.monotonic() + _RECOMPUTE_SECONDS, Event())
            if end.refused or end.stopped:
                return None
            states = asked.global_out, asked.local_out
            roots = end.boundaries[-1].global_root, end.boundaries[-1].local_root
        return end.boundaries[-1]

    # --- measurements --------------------------------------------------------------------------------

    @property
    def limits(self) -> str:
        """The place of measurements in words."""
        if self._groups is None:
            return f"a process of the cluster at {self._executor_name}"
        where = limits_here() or "this machine" if self._is_here else f"the cluster at {self._executor_name}"
        return f"a group of {'x'.join(map(str, shape_of(self._shape)))} machines of {where}"

    def measure(self, seconds: float, stop: Event | None = None) -> Speed:
        """Measure all processes of all nodes at once; ProviderError if no node computes, or ``stop`` is set."""
        stop = stop or Event()
        self._wait_for_nodes(stop)
        speeds = self._measure(seconds, stop)
        ordered = sorted(each.flops for each in speeds)
        memory = self._engine.memory or min(
            (node.memory or usable_memory() for node in self.nodes if not node.problem), default=0
        )
        # The slowest machine of a group holds up the others.
        beside, usual = (1, ordered[len(ordered) // 2]) if self._groups is None else (side(self._shape), ordered[0])
        return Speed(
            backend=speeds[0].backend,
            flops=beside * usual,
            memory=memory or usable_memory() * 3 // 4 // number_of(self._shape),
            slowest=beside * ordered[0],
            quickest=beside * ordered[-1],
            limits=self.limits,
        )

    def computing(self, stop: Event | None = None) -> str:
        """Return the back end of the nodes in words."""
        return self.measure(0.0, stop).computing

    def _measure(self, seconds: float, stop: Event) -> list[ProcessSpeed]:
        futures = [
            submit(measure_process, engine, seconds, timeout=_MEASURE_SECONDS + seconds)
            for submit, engine in self._queues(number_of(self._shape))
        ]
        return self._gathered(futures, stop, "the cluster did not measure its speed")

    def _queues(self, each: int) -> list[tuple[_Submit, Engine]]:
        """Return a queue and an engine for each process that trains; of each group, for ``each`` members.

        The members of a group that have the fewest processors come first.
        """
        if self._groups is None:
            return [(self._executor.submit, self._engine)] * max(1, self.slots)
        if self._is_here:
            return [(self._executor.submit, spec_here(self._shape, self._engine).engine)] * each
        queues = cast("NodeQueues", self._executor)
        used = working(self.nodes)[: self.slots * number_of(self._shape)]
        return [
            (queues.at(node.name).submit, replace(self._engine, threads=self._engine.threads or node.processors))
            for node in used[::-1][: self.slots * each]
        ]

    def _wait_for_nodes(self, stop: Event) -> None:
        """Wait until a node computes, and no worker of a node is starting."""
        ends = time.monotonic() + START_SECONDS
        while not self.slots or any(node.problem == "its worker starts" for node in self.nodes):
            if stop.wait(_LOOK_SECONDS) or self._closed.is_set() or time.monotonic() > ends:
                if self.slots and not stop.is_set():
                    return
                raise ProviderError(
                    f"no node of the cluster at {self._executor_name} computes",
                    "start the head and the nodes, see docs/operate/ray.md; the log says what is wrong",
                )

    @contextmanager
    def probing(self, stop: Event) -> Iterator[ProbeTask]:
        """Yield the function that computes tasks of a probe, with all processes of all nodes at once.

        Of a group, only as many members compute as certainly compute at the same time when they train.
        """

        def work(seed: bytes, pieces: int) -> tuple[bytes, ...]:
            queues = self._queues(side(self._shape))[:pieces]
            if not queues:
                raise ProviderError("the nodes of the cluster do not form a group", "start further nodes")
            bounds = [pieces * number // len(queues) for number in range(len(queues) + 1)]
            futures = [
                submit(probe_pieces, engine, seed, first, end, timeout=TASK_SECONDS)
                for (submit, engine), (first, end) in zip(queues, pairwise(bounds), strict=True)
            ]
            return tuple(
                digest
                for part in self._gathered(futures, stop, "the probe took too long in the cluster")
                for digest in part
            )

        self._wait_for_nodes(stop)
        # The first pieces compile code and start threads.
        work(b"", 4 * len(self._queues(side(self._shape))))
        yield work

    def _gathered(self, futures: "Sequence[Future[T]]", stop: Event, what: str) -> list[T]:
        found: list[T] = []
        try:
            for future in futures:
                while not future.done():
                    if stop.wait(_LOOK_SECONDS / 20) or self._closed.is_set():
                        raise PoolClosed("the provider stops")
                found.append(future.result())
        except PoolError as error:
            for future in futures:
                with suppress(PoolError):
                    future.cancel()
            raise ProviderError(f"{what}: {error}", "trying again") from None
        return found


def _resumed(order: WorkOrder) -> tuple[int, tuple[bytes, bytes]]:
    """Return the last boundary whose states are on disk, and their roots; 0 and those of the share if there is none."""
    for boundary in reversed(order.boundaries):
        if boundary.index and all(path.is_file() for path in _states_at(order, boundary.index)):
            return boundary.index, (boundary.global_root, boundary.local_root)
    return 0, (order.global_root, order.local_root)


def _states_at(order: WorkOrder, boundary: int) -> tuple[Path, Path]:
    """Return the files of the states at a boundary; for the first one, those that the share was given."""
    if boundary == 0:
        return Path(order.global_in), Path(order.local_in)
    first, second = boundary_files(boundary)
    return Path(order.folder) / first, Path(order.folder) / second


def _segment_task(
    order: WorkOrder,
    segment: int,
    states: tuple[Path, Path],
    roots: tuple[bytes, bytes] | None,
    folder: Path,
) -> SegmentTask:
    first, second = boundary_files(segment + 1)
    return SegmentTask(
        job=Path(order.job),
        global_in=states[0],
        local_in=states[1],
        roots=roots,
        part=RoundSlot(order.round, order.slot),
        segment=segment,
        engine=order.engine,
        global_out=folder / first,
        local_out=folder / second,
    )
