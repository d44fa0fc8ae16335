"""The seam between daemons and executors: a replayer recomputes places in lanes, on this machine or on a cluster."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from pol.executor.names import Engine
from pol.work.cluster.client import Cluster, check_usable
from pol.work.cluster.dispatch import NodeReport
from pol.work.cluster.node import LaneSpec
from pol.work.executor import Ended, Executor, address_of
from pol.work.pool import ReplayPool

R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lane:
    """A kind of recomputation, which never waits for that of other lanes.

    ``processes`` is the number of processes on this machine; on a cluster, each node has one per processor. Tasks may
    write only into ``folder``, and read only there and in the folders ``reads``. If the lane is ``fresh``, each task
    has a process of its own. If it is ``inside``, ``processes`` tasks at a time run in each node's worker itself
    (:class:`pol.work.cluster.node.LaneSpec`), and it needs a cluster. ``ended`` is called after the end of every task
    that began.
    """

    name: str
    processes: int
    folder: Path
    reads: Sequence[Path]
    fresh: bool = False
    inside: bool = False
    ended: Ended = lambda seconds, error: None


class Replayer(Protocol):
    """A way to recompute places for a daemon."""

    @property
    def lanes(self) -> Mapping[str, Executor]:
        """The executor of each lane, by the lane's name."""
        ...

    def recompute(self, lane: str, function: Callable[[R], T], request: R, seconds: float) -> T:
        """Recompute a place, and return the outcome; PoolError if there is none within ``seconds``.

        ``function`` can be imported by its name, and ``request`` names files by their paths. Among waiting requests of
        a lane, the one with the earliest deadline begins first.
        """
        ...

    def recompute_all(self, lane: str, function: Callable[[R], T], requests: Sequence[R], seconds: float) -> list[T]:
        """Recompute several places at the same time; see :meth:`recompute`.

        Returns or fails after all of them have ended.
        """
        ...

    def width(self, lane: str) -> int:
        """Return how many requests of a lane can be recomputed at the same time; at least 1."""
        ...

    def close(self) -> None:
        """End all recomputation. Requests that have not ended fail with PoolClosed."""
        ...


@dataclass(frozen=True, slots=True)
class ExecutorReplayer:
    """A replayer on the executors of its lanes, and the cluster that they share, if there is one."""

    lanes: Mapping[str, Executor]
    cluster: Cluster | None = None

    def recompute(self, lane: str, function: Callable[[R], T], request: R, seconds: float) -> T:
        """Recompute a place; see :class:`Replayer`."""
        return self.lanes[lane].submit(function, request, timeout=seconds).result()

    def recompute_all(self, lane: str, function: Callable[[R], T], requests: Sequence[R], seconds: float) -> list[T]:
        """Recompute several places at the same time; see :class:`Replayer`."""
        futures: list[Future[T]] = []
        try:
            futures.extend(self.lanes[lane].submit(function, request, timeout=seconds) for request in requests)
        finally:
            wait(futures)
        return [future.result() for future in futures]

    def width(self, lane: str) -> int:
        """Return how many requests can be recomputed at the same time; see :class:`Replayer`."""
        return self.lanes[lane].width

    def close(self) -> None:
        """Close the executors, then the cluster."""
        for executor in self.lanes.values():
            executor.close()
        if self.cluster is not None:
            self.cluster.close()


def start_replayer(
    executor: str,
    engine: Engine,
    lanes: Sequence[Lane],
    folder: Path,
    on_nodes: Callable[[tuple[NodeReport, ...]], None] = lambda nodes: None,
) -> Replayer:
    """Start what recomputes for a daemon: pools of processes here, or a cluster.

    ``executor`` is a value of ``--executor``. ``folder`` is the working folder of a cluster's driver. ``on_nodes`` is
    called when the nodes of a cluster, or their tasks, have changed. Raises ClusterUnusable if this machine cannot use
    the cluster.
    """
    address = address_of(executor)
    if not address:
        return ExecutorReplayer(
            {
                lane.name: ReplayPool(
                    lane.processes,
                    folder=lane.folder,
                    memory_bytes=engine.memory_bytes,
                    reads=lane.reads,
                    threads=engine.threads or 1,
                    device=engine.device,
                    fresh=lane.fresh,
                    ended=lane.ended,
                )
                for lane in lanes
                if not lane.inside
            }
        )
    check_usable(address)
    for lane in lanes:
        lane.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    specs = [
        LaneSpec(
            name=lane.name,
            processes=lane.processes if lane.inside else int(lane.fresh),
            fresh=lane.fresh,
            inside=lane.inside,
        )
        for lane in lanes
    ]
    cluster = Cluster(address, specs, engine, folder, on_nodes)
    return ExecutorReplayer({lane.name: cluster.executor(lane.name, ended=lane.ended) for lane in lanes}, cluster)
