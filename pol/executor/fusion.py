"""Which nodes of a program are taken together: elementwise ones of one shape become a chain.

Nodes are gone through in their order. An elementwise one joins the open chain of its shape; whatever reads a value of
an open chain from outside closes it first. So a chain runs just before somebody needs it, open chains never need each
other, and all other nodes keep their order: a step that fails does so in the same node on every executor.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pol.job.program import Program
from pol.ops.elementwise import ELEMENTWISE
from pol.ops.table import PRIMITIVES
from pol.values import Shape

CHAIN_NODES_MAX = 64
"""Nodes of a chain; with three operands each it has at most 256 values."""

CHAINED = frozenset(row.name for row in ELEMENTWISE)


@dataclass(frozen=True, slots=True)
class Unit:
    """Nodes by their value numbers, in an order in which they can run; elementwise ones of one shape, or a single one.

    ``sources`` are the values that it reads, ``results`` those that somebody else reads or that are outputs; ``dead``
    are values of nodes that nothing needs after it.
    """

    nodes: tuple[int, ...]
    sources: tuple[int, ...]
    results: tuple[int, ...]
    dead: tuple[int, ...]


def plan(program: Program) -> tuple[Unit, ...]:
    """Return the units of a program in the order in which they run, with no more memory at once than it declares."""
    units = _units(program, _grouped(program))
    if _peak(program, units) > program.peak_size:
        return _units(
            program, [[number] for number in range(program.first_node, len(program.types))]
        )
    return units


def _grouped(program: Program) -> list[list[int]]:
    """Return the value numbers of the nodes of each unit."""
    done: list[list[int]] = []
    open_: dict[Shape, list[int]] = {}
    home: dict[int, Shape] = {}  # values of open chains

    def close(shape: Shape) -> None:
        chain = open_.pop(shape)
        done.append(chain)
        for number in chain:
            del home[number]

    for number, node in enumerate(program.nodes, program.first_node):
        shape = program.types[number].shape
        own = shape if node.op in CHAINED else None
        for arg in node.args:
            if arg in home and home[arg] != own:
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


def _units(program: Program, groups: Sequence[Sequence[int]]) -> tuple[Unit, ...]:
    kept = set(program.outputs.values())
    reads: list[set[int]] = []
    for group in groups:
        args = {arg for number in group for arg in program.nodes[number - program.first_node].args}
        reads.append(args - set(group))
    last = {number: at for at, sources in enumerate(reads) for number in sources}
    wanted = kept.union(*reads)
    units = []
    for at, (group, sources) in enumerate(zip(groups, reads, strict=True)):
        ended = {number for number in sources if last[number] == at} - kept
        units.append(
            Unit(
                tuple(group),
                tuple(sorted(sources)),
                tuple(sorted(wanted.intersection(group))),
                tuple(sorted(number for number in ended if number >= program.first_node)),
            )
        )
    return tuple(units)


def _peak(program: Program, units: Sequence[Unit]) -> int:
    """Return the bytes that the units need at once, counted as ``Program.peak_size`` does, without the end of a run."""
    live = 2 * sum(spec.type.size for spec in program.inputs)
    live += sum(constant.type.size for constant in program.constants)
    peak = live
    for unit in units:
        live += sum(program.types[number].size for number in unit.results)
        scratch = 0
        if len(unit.nodes) == 1:
            node = program.nodes[unit.nodes[0] - program.first_node]
            operands = [program.types[number] for number in node.args]
            scratch = PRIMITIVES[node.op].scratch_size(operands, program.types[unit.nodes[0]])
        peak = max(peak, live + scratch)
        live -= sum(program.types[number].size for number in unit.dead)
    return peak
