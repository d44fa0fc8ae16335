"""The division of a program into rows: a batch is divided, and its division is carried from node to node.

The rows of a batch are divided by residues among machines. A node whose operands are divided is divided as well if the
table of primitives allows it; else its operands are gathered. Of several possibilities, the one with the fewest bytes
is taken. Values that all readers need in pieces are then computed in pieces, back to where they come from.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pol.job.program import Program
from pol.ops.primitive import Site
from pol.split.cuts import Cut, fitting, giving
from pol.split.exchanges import COLLECTIVES, Task
from pol.split.pieces import Divided, Division, Sections
from pol.split.turns import divide_turns, take_section
from pol.values import TensorType

BATCH = "batch."


def batch_inputs(program: Program) -> frozenset[str]:
    """Return the names of the inputs that hold the rows of a batch."""
    return frozenset(spec.name for spec in program.inputs if spec.name.startswith(BATCH))


@dataclass(frozen=True)
class Rows:
    """The division of a program among ``machines``: the cut of each node, or None for a whole node."""

    machines: int
    divided_inputs: frozenset[int]
    cuts: tuple[Cut | None, ...]

    def division(self, program: Program, number: int) -> Divided | None:
        """Return the division of a value as it is computed, or None if it is whole."""
        if number < program.first_node:
            return Division(0) if number in self.divided_inputs else None
        cut = self.cuts[number - program.first_node]
        return cut.result if cut is not None else None


def exchange_bytes(task: Task, pieces: Sequence[TensorType]) -> int:
    """Return the bytes that one machine and the owner of a result send each other, for a machine with these pieces."""
    row = COLLECTIVES[task.split.exchange]
    return 2 * row.claim_size(task) + row.partial_size(task, pieces)


def task_of(program: Program, offset: int, cut: Cut, machines: int, seed: int = 0) -> Task:
    """Return a node of a program as a task."""
    node = program.nodes[offset]
    operands = tuple(program.types[arg] for arg in node.args)
    site = Site(attrs=node.attrs, operands=operands, result=program.types[program.first_node + offset], seed=seed)
    return Task(
        op=node.op, site=site, split=cut.split, way=cut.way, inner=cut.inner, machines=machines, outer=cut.outer
    )


def divide_rows(
    program: Program, machines: int, batch: Collection[str], is_given: Sequence[bool], *, alone: bool = False
) -> Rows:
    """Return how a program is divided among machines, a power of two.

    ``batch`` has the names of the inputs whose first dimension holds the rows of a batch. ``is_given`` says for each
    value whether it does not depend on a batch. If the pieces are ``alone``, there is no exchange between them.
    """
    inputs = frozenset(
        number
        for number, spec in enumerate(program.inputs)
        if machines > 1 and spec.name in batch and spec.shape and spec.shape[0] >= machines
    )
    known: list[Divided | None] = [Division(0) if number in inputs else None for number in range(program.first_node)]
    cuts: list[Cut | None] = []
    for offset in range(len(program.nodes)):
        cut = _cheapest(program, offset, [known[arg] for arg in program.nodes[offset].args], machines, alone=alone)
        cuts.append(cut)
        known.append(cut.result if cut is not None else None)
    _narrow(program, machines, cuts, known, is_given)
    return Rows(machines, inputs, tuple(cuts))


def follow_rows(program: Program, batch: Collection[str]) -> list[Division | None]:
    """Return for each value which of its dimensions holds the rows of a batch.

    It is None for a value without such a dimension, and for one for which machines would exchange something.
    """
    known: list[Division | None] = [
        Division(0) if spec.name in batch and spec.shape else None for spec in program.inputs
    ] + [None] * len(program.constants)
    for offset, node in enumerate(program.nodes):
        wanted = [known[arg] for arg in node.args]
        cuts = fitting(program, offset, wanted, 2) if any(wanted) else iter(())
        found = (cut.result for cut in cuts if not cut.has_exchange)
        known.append(next((own for own in found if isinstance(own, Division) and own.outer == 1), None))
    return known


def _cheapest(
    program: Program, offset: int, known: Sequence[Divided | None], machines: int, *, alone: bool
) -> Cut | None:
    """Return the cut of a node that needs the fewest bytes, or None if that is the whole node."""
    node = program.nodes[offset]
    types = [program.types[arg] for arg in node.args]
    numbers = {arg for arg, division in zip(node.args, known, strict=True) if division is not None}
    divided = sorted(numbers, key=lambda number: (program.types[number].size, number))
    if not divided:
        return None
    # To gather an operand costs its pieces on other machines: once for the owner, or once for each machine.
    best: tuple[int, Cut | None] = (sum(program.types[arg].size for arg in divided), None)
    for dropped in range(len(divided)):
        gathered = divided[:dropped]
        wanted = [None if arg in gathered else division for arg, division in zip(node.args, known, strict=True)]
        for cut in _cuts(program, offset, wanted, machines):
            if alone and cut.has_exchange:
                continue
            cost = machines * sum(program.types[arg].size for arg in gathered)
            if cut.has_exchange:
                pieces = [_piece(value, cut.operand(index), 0, machines) for index, value in enumerate(types)]
                cost += machines * exchange_bytes(task_of(program, offset, cut, machines), pieces)
            if cost < best[0] or (cost == best[0] and best[1] is None):
                best = cost, cut
    return best[1]


def _cuts(program: Program, offset: int, wanted: Sequence[Divided | None], machines: int) -> Iterator[Cut]:
    """Yield the cuts in which all operands that are divided as ``wanted`` stay so."""
    node = program.nodes[offset]
    plain = [None if isinstance(division, Sections) else division for division in wanted]
    if any(isinstance(division, Sections) for division in wanted):
        section = take_section(program, offset, wanted)
        yield from () if section is None else (section,)
    elif node.op == "repeat":
        turns = divide_turns(node, plain, machines)
        yield from () if turns is None else (turns,)
    else:
        yield from fitting(program, offset, plain, machines)


def _piece(value: TensorType, division: Divided | None, machine: int, machines: int) -> TensorType:
    return value if division is None else division.piece(value, machine, machines)


def _narrow(
    program: Program,
    machines: int,
    cuts: list[Cut | None],
    known: list[Divided | None],
    is_given: Sequence[bool],
) -> None:
    """Divide whole nodes whose readers all need the same pieces, from the last node to the first."""
    outputs = set(program.outputs.values())
    readers: list[set[Divided | None]] = [set() for _ in program.types]
    for offset in reversed(range(len(program.nodes))):
        number = program.first_node + offset
        node, cut = program.nodes[offset], cuts[offset]
        if known[number] is None and number not in outputs and len(readers[number]) == 1:
            (wanted,) = readers[number]
            narrowed = None
            if isinstance(wanted, Division):
                narrowed = _narrowed(program, offset, wanted, machines, known, is_given[number])
            if narrowed is not None:
                cuts[offset] = cut = narrowed
                known[number] = narrowed.result
        for index, arg in enumerate(node.args):
            readers[arg].add(cut.operand(index) if cut is not None else None)


def _narrowed(
    program: Program, offset: int, wanted: Division, machines: int, known: Sequence[Divided | None], is_given: bool
) -> Cut | None:
    """Return the cut that gives the result in the pieces that readers need, or None if more bytes would be sent."""
    args = program.nodes[offset].args
    for cut in giving(program, offset, wanted, machines):
        sent = 0
        for index, arg in enumerate(args):
            needed = cut.operand(index)
            if needed is None or known[arg] not in (None, needed):
                sent += machines * program.types[arg].size
            elif known[arg] is None:
                sent += program.types[arg].size
        if is_given or sent <= program.types[program.first_node + offset].size:
            return cut
    return None
