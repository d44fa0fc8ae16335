"""The messages between the daemon's client and the driver process, and the settings with which the driver starts.

The driver trusts the daemon, so the daemon's messages are pickles. The daemon reads the driver's messages as answers of
workers are read (:mod:`pol.work.answers`): only records of this project are created from them.
"""

from dataclasses import dataclass

from pol.executor.names import Engine
from pol.work.cluster.dispatch import NodeReport, TaskEnd
from pol.work.cluster.files import PackedTask
from pol.work.cluster.node import LaneSpec

MESSAGE_BYTES_MAX = 64 << 20
"""Largest message of the driver in bytes."""


@dataclass(frozen=True, slots=True)
class DriverSettings:
    """The cluster's address (host:port), the lanes, and the engine of each process. Times are in seconds."""

    address: str
    lanes: tuple[LaneSpec, ...]
    engine: Engine
    ping_seconds: float = 15.0


@dataclass(frozen=True, slots=True)
class TaskGiven:
    """A task for the driver. ``node`` is the name of the only node that may run it; empty if any may."""

    number: int
    lane: str
    label: str
    packed: PackedTask
    seconds: float | None
    node: str = ""


@dataclass(frozen=True, slots=True)
class TaskCancelled:
    """A message for the driver: no one waits for this task any longer."""

    number: int


@dataclass(frozen=True, slots=True)
class DriverReady:
    """The driver's first message: it is connected, or ``problem`` says why it is not."""

    problem: str


@dataclass(frozen=True, slots=True)
class TaskBegan:
    """A task began for the first time."""

    number: int


@dataclass(frozen=True, slots=True)
class NodesSeen:
    """The nodes of the cluster have changed."""

    nodes: tuple[NodeReport, ...]


FromDriver = DriverReady | TaskBegan | TaskEnd | NodesSeen
