"""Which nodes of a program are taken together: elementwise ones of one shape become a chain.

Nodes are gone through in their order. An elementwise one joins the open chain of its shape; whatever reads a value of
an open chain from outside, or another view of it, closes it first. So a chain runs just before somebody needs it, open
chains never need each other, and all other nodes keep their order: a step that fails does so in the same node on every
executor. Views are no part of it, for nothing is computed.
"""

from collections.abc import Callable, Sequence

from pol.job.program import Program
from pol.ops.elementwise import ELEMENTWISE
from pol.values import Shape

CHAIN_NODES_MAX = 64
"""Nodes of a chain; with three operands each it has at most 256 values."""

CHAINED = frozenset(row.name for row in ELEMENTWISE)
VIEWS = frozenset({"reshape", "permute", "broadcast", "slice", "full"})
"""What shows elements that are there, in another shape or order; ``full`` repeats its one element."""

Group = Sequence[int]
"""Value numbers of nodes in an order in which they can run: elementwise ones of one shape, or a single one."""
Grouping = Callable[[Program], Sequence[Group]]
"""How the nodes of a program are taken together: :func:`grouped` or :func:`singly`."""


def grouped(program: Program) -> list[Group]:
    """Return the nodes of a program, without views, in an order in which they run."""
    done: list[Group] = []
    open_: dict[Shape, list[int]] = {}
    views: dict[Shape, set[int]] = {}
    # of values of open chains, and of views of them
    home: dict[int, Shape] = {}

    def close(shape: Shape) -> None:
        chain = open_.pop(shape)
        done.append(chain)
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
            done.append([number])
            continue
        if len(open_.get(shape, ())) == CHAIN_NODES_MAX:
            close(shape)
        open_.setdefault(shape, []).append(number)
        home[number] = shape
    for shape in list(open_):
        close(shape)
    return done


def singly(program: Program) -> list[Group]:
    """Return the nodes of a program, without views, one by one: nothing is alive for longer than it is needed."""
    return [[number] for number, node in enumerate(program.nodes, program.first_node) if node.op not in VIEWS]
