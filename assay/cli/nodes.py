"""The table of the nodes of an owner's cluster."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from assay.cli.output import size, table

if TYPE_CHECKING:
    from rich.table import Table

    from pol.work.cluster.dispatch import NodeReport

_COLUMNS = ("node", "address", "processors", "memory", "state", "tasks", "ended")


def nodes_tables(nodes: Sequence["NodeReport"], note: str = "") -> "list[Table]":
    """Return a table of nodes, with the tasks that run on each and the number of those that ended; none without nodes.

    ``note`` is added to the title.
    """
    rows = [
        (
            node.name,
            node.address,
            node.processors,
            size(node.memory),
            node.problem or (f"its last task went elsewhere: {node.fault}" if node.fault else "computes"),
            "\n".join(node.tasks),
            "\n".join(f"{count} {kind}" for kind, count in node.ended),
        )
        for node in nodes
    ]
    return [table(f"Machines{note}", _COLUMNS, rows)] if rows else []
