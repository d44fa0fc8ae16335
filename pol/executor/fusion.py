"""The grouping of a program's nodes. Elementwise nodes of the same shape form a chain.

Nodes are visited in their order. An elementwise node joins the open chain of its shape. A node outside an open chain
may read a value of the chain, directly or through a view. Such a node first closes the chain. A chain therefore runs
just before its results are needed, and open chains never depend on each other. All other nodes keep their order, so a
step that fails does so in the same node on every executor. Views are not part of any group, since they compute nothing.
"""

from collections.abc import Callable, Sequence

from pol.job.program import Program
from pol.ops.elementwise import ELEMENTWISE
from pol.values import Shape

CHAIN_NODES_MAX = 64
"""Largest number of nodes of a chain. With three operands per node, such a chain has at most 256 values."""

CHAINED = frozenset(row.name for row in ELEMENTWISE)
VIEWS = frozenset({"reshape", "permute", "broadcast", "slice", "full"})
"""Operations that show existing elements in another shape or order; ``full`` repeats its one element."""

Group = Sequence[int]
"""Value numbers of a single node, or of elementwise nodes of the same shape, in an order in which they can be
computed.
"""
Grouping = Callable[[Program], Sequence[Group]]
"""A function that groups the nodes of a program: :func:`grouped` or :func:`singly`."""


def grouped(program: Program) -> list[Group]:
    """Return the groups of a program's nodes, in the order of execution.

    Elementwise nodes are in chains; views are left out.
    """
    groups: list[Group] = []
    open_: dict[Shape, list[int]] = {}
    views: dict[Shape, set[int]] = {}
    # For each value of an open chain, and for each view of such a value: the shape of that chain.
    home: dict[int, Shape] = {}

    def close(shape: Shape) -> None:
        chain = open_.pop(shape)
        groups.append(chain)
        for number in (*chain, *views.pop(shape, ())):
            del home[number]

    for number, node in enumerate(program.nodes, program.first_node):
        if node.op in VIEWS:
            for arg in node.args:
                if arg in home:
                    home[number] = home[arg]
                    views.setdefault(home[arg], set()).add(number)
            continue
        shape = program.types[number].shape
        own = shape if node.op in CHAINED else None
        for arg in node.args:
            if arg in home and (home[arg] != own or arg in views.get(shape, ())):
                close(home[arg])
        if own is None:
            groups.append([number])
            continue
        if len(open_.get(shape, ())) == CHAIN_NODES_MAX:
            close(shape)
        open_.setdefault(shape, []).append(number)
        home[number] = shape
    for shape in list(open_):
        close(shape)
    return groups


def singly(program: Program) -> list[Group]:
    """Return one group for each node of a program; this grouping needs the least memory. Views are left out."""
    return [[number] for number, node in enumerate(program.nodes, program.first_node) if node.op not in VIEWS]
