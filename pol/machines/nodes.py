"""The nodes of an owner's cluster as the machines of a group: each hosts one member."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from host.sandbox import usable_memory
from pol.errors import ExecutionError
from pol.executor.names import Engine
from pol.machines.group import GroupSpec
from pol.machines.starters import Hosts, Place
from pol.split.plan import Machine
from pol.work.cluster.client import Cluster, ClusterUnusable, check_usable
from pol.work.cluster.dispatch import NodeReport
from pol.work.cluster.node import LaneSpec
from pol.work.executor import address_of

LANE: Final = LaneSpec("members", 8, inside=True)
"""The lane of members. Each command to a member takes one of its places, and so does the end of a member."""
START_SECONDS: Final = 120.0
"""Longest time (s) until enough nodes compute."""
_LOOK_SECONDS: Final = 0.2


def check_device(engine: Engine) -> None:
    """Raise ExecutionError if ``engine`` names a GPU, which the sandbox does not permit."""
    if engine.device != "cpu":
        raise ExecutionError("device", f"several machines compute in the sandbox, on cpu and not on {engine.device}")


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
    machines: int | tuple[int, int], engine: Engine, nodes: Sequence[NodeReport], speed: int, bandwidth: int
) -> GroupSpec:
    """Return how nodes form a group of this number, or of this shape. Each member has all processors of its node.

    ``speed`` (FLOP/s) and ``bandwidth`` (bytes per second) are those of each node, for the plan.
    """
    number = machines if isinstance(machines, int) else machines[0] * machines[1]
    least = min(node.memory for node in nodes) or usable_memory() * 3 // 4
    threads = engine.threads or max(1, min(node.processors for node in nodes))
    return GroupSpec(
        machines=number,
        machine=Machine(speed=speed, memory=engine.memory or least, bandwidth=bandwidth),
        memory=engine.memory,
        engine=Engine(engine.name, engine.device, threads),
        shape=None if isinstance(machines, int) else machines,
    )


def hosts_of(cluster: Cluster) -> Hosts:
    """Return the starter of members on the nodes of a cluster that has the lane of members."""
    executor = cluster.executor(LANE.name)

    def places() -> list[Place]:
        return [executor.at(node.name) for node in working(cluster.nodes)]

    return Hosts(places)


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
