"""The nodes of an owner's cluster as the machines of groups: each hosts one member of a group."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from host.sandbox import usable_memory
from pol.executor.names import Engine
from pol.machines.form import GroupSpec, Shape, check_device, number_of
from pol.machines.pool import Running, run_unseen
from pol.machines.starters import Hosts, Place
from pol.split.machine import LINK_SPEED, SLOT_SPEED, Machine
from pol.work.cluster.client import Cluster, ClusterUnusable, check_usable
from pol.work.cluster.dispatch import NodeReport
from pol.work.cluster.node import LaneSpec
from pol.work.executor import address_of
from pol.work.replayer import Lane

LANE: Final = LaneSpec("members", 8, inside=True)
"""The lane of members. Each command to a member takes one of its places, and so does the end of a member."""
START_SECONDS: Final = 120.0
"""Longest time (s) until enough nodes compute."""
_LOOK_SECONDS: Final = 0.2


def working(nodes: Sequence[NodeReport]) -> list[NodeReport]:
    """Return the nodes that compute, those with the most processors first."""
    found = [node for node in nodes if not node.problem]
    return sorted(found, key=lambda node: (-node.processors, node.name))


def wait_for_nodes(cluster: Cluster, number: int, seconds: float = START_SECONDS) -> list[NodeReport]:
    """Return the nodes that compute, when there are ``number`` of them.

    Raises ClusterUnusable if there are not within ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while len(found := working(cluster.nodes)) < number:
        if time.monotonic() > deadline:
            why = cluster.problem or "; ".join(f"{node.address}: {node.problem}" for node in cluster.nodes)
            raise ClusterUnusable(
                f"{len(found)} nodes of the cluster at {cluster.address} compute, not {number}"
                + (f" ({why})" if why else ""),
                "start further nodes, see docs/operate/ray.md, or take fewer machines",
            )
        time.sleep(_LOOK_SECONDS)
    return found


def spec_on(
    machines: Shape,
    engine: Engine,
    nodes: Sequence[NodeReport],
    speed: int = SLOT_SPEED,
    bandwidth: int = LINK_SPEED,
) -> GroupSpec:
    """Return how nodes form a group of this number, or of this shape. Each member has all processors of its node.

    ``speed`` (FLOP/s) and ``bandwidth`` (bytes per second) are those of each node, for the plan.
    """
    least = min(node.memory for node in nodes) or usable_memory() * 3 // 4
    threads = engine.threads or max(1, min(node.processors for node in nodes))
    return GroupSpec(
        machines=number_of(machines),
        machine=Machine(speed=speed, memory=engine.memory or least, bandwidth=bandwidth),
        memory=engine.memory,
        engine=Engine(engine.name, engine.device, threads),
        shape=None if isinstance(machines, int) else machines,
    )


def members_lane(folder: Path) -> Lane:
    """Return the lane of members for a daemon's replayer."""
    return Lane(name=LANE.name, processes=LANE.processes, folder=folder, reads=(), inside=True)


def hosts_of(cluster: Cluster) -> Hosts:
    """Return the starter of members on the nodes of a cluster that has the lane of members."""
    executor = cluster.executor(LANE.name)

    def places() -> list[Place]:
        return [executor.at(node.name) for node in working(cluster.nodes)]

    return Hosts(places)


class NodeQueues(Protocol):
    """The lane of members of a cluster, which has a queue for each node."""

    def at(self, node: str) -> Place:
        """Return the queue for the node with this name."""
        ...


class Nodes:
    """The nodes of a cluster as a hosting of groups (:class:`pol.machines.pool.Hosting`). No node is in two groups."""

    def __init__(
        self,
        nodes: Callable[[], Sequence[NodeReport]],
        queues: NodeQueues,
        machines: Shape,
        engine: Engine,
    ) -> None:
        """``nodes`` returns the nodes as they are now, and members are started through ``queues``. ``machines`` is
        the shape of each group.

        Raises ExecutionError if ``engine`` names a GPU.
        """
        check_device(engine)
        self._nodes, self._queues, self._shape, self._engine = nodes, queues, machines, engine
        self._lock = threading.Lock()
        self._leases: list[NodeLease] = []

    @property
    def groups(self) -> int:
        """Number of groups that the nodes can form now; see :class:`pol.machines.pool.Hosting`."""
        return len(working(self._nodes())) // number_of(self._shape)

    def lease(self) -> "NodeLease | None":
        """Return the nodes of another group, the best that are free; see :class:`pol.machines.pool.Hosting`."""
        number = number_of(self._shape)
        with self._lock:
            free = self._free()[:number]
            if len(free) < number:
                return None
            lease = NodeLease(self, spec_on(self._shape, self._engine, free), {node.name for node in free})
            self._leases.append(lease)
        return lease

    def _free(self) -> list[NodeReport]:
        leased = {name for lease in self._leases for name in lease.names}
        return [node for node in working(self._nodes()) if node.name not in leased]

    def left(self, lease: "NodeLease", lost: set[str]) -> list[str]:
        """Return the names of the nodes that a lease can go on with. Free nodes take the places of lost ones."""
        with self._lock:
            own = [node.name for node in working(self._nodes()) if node.name in lease.names - lost]
            free = [node.name for node in self._free() if node.name not in lost]
            return (own + free)[: lease.spec.machines]

    def take(self, lease: "NodeLease", lost: set[str]) -> list[Place]:
        """Let a lease go on with the nodes that it can have."""
        names = self.left(lease, lost)
        with self._lock:
            lease.names = set(names)
        return [self._queues.at(name) for name in names]

    def forget(self, lease: "NodeLease") -> None:
        """Take the nodes of a lease back."""
        with self._lock:
            self._leases.remove(lease)


class NodeLease:
    """The nodes of one group (:class:`pol.machines.pool.Lease`)."""

    def __init__(self, nodes: Nodes, spec: GroupSpec, names: set[str]) -> None:
        self._nodes, self.spec, self.names = nodes, spec, names
        self.starter = Hosts(lambda: nodes.take(self, self.starter.lost))

    @property
    def is_renewable(self) -> bool:
        """True if a new lease in place of this one would have all its nodes."""
        return len(self._nodes.left(self, set())) == self.spec.machines

    @property
    def running(self) -> Running:
        """The cluster reports what runs on its nodes."""
        return run_unseen

    def end(self) -> None:
        """Give the nodes back."""
        self._nodes.forget(self)


@contextmanager
def members_on(executor: str, engine: Engine, folder: Path) -> Iterator[Cluster]:
    """Yield a cluster for members alone, which ``executor`` names. ``folder`` is the working folder of its driver.

    Raises ClusterUnusable if this machine cannot use the cluster.
    """
    address = address_of(executor)
    check_usable(address)
    cluster = Cluster(address, (LANE,), engine, folder)
    try:
        yield cluster
    finally:
        cluster.close()
