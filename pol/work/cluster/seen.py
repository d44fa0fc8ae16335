"""The nodes of a cluster in a file of the daemon that uses it, for commands and the console."""

import time
from dataclasses import dataclass
from pathlib import Path

from domain import codec
from host.files import write_whole
from pol.work.cluster.dispatch import NodeReport

NODES = "nodes.json"


@dataclass(frozen=True, slots=True)
class ClusterNodes:
    """The nodes of a cluster when they last changed; ``at`` is the time in Unix seconds."""

    at: int
    nodes: tuple[NodeReport, ...]


def read_nodes(home: Path) -> ClusterNodes | None:
    """Return the nodes of the cluster that a daemon uses; None if it uses none, or does not run."""
    try:
        return codec.decode(ClusterNodes, (home / NODES).read_bytes())
    except (OSError, ValueError):
        return None


def write_nodes(home: Path, nodes: tuple[NodeReport, ...]) -> None:
    """Write the nodes of the cluster that a daemon uses."""
    write_whole(home / NODES, codec.encode(ClusterNodes(int(time.time()), nodes)).decode())


def forget_nodes(home: Path) -> None:
    """Delete the file, because the daemon begins or ends."""
    (home / NODES).unlink(missing_ok=True)
