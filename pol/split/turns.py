"""The division of a ``repeat``: each machine runs all turns for its own rows of the batch.

A body is divided if each of its nodes keeps rows apart, so that a machine needs nothing of the others in any turn. The
division of a carried value is the same before and after a turn. A machine's piece of a ``repeat`` is a ``repeat``
with a body for fewer rows, so its stacks have only the rows of this machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Final

from pol.job.program import Node, Program, make_program
from pol.limits import LIMITS
from pol.ops.repeat import CARRY, SEQUENCE, form
from pol.ops.splits import Split, Way
from pol.ops.table import PRIMITIVES
from pol.split.cuts import Cut, fitting, giving
from pol.split.pieces import Divided, Division, Sections
from pol.values import TensorSpec, TensorType

_LIMITS: Final = replace(LIMITS, live_size=2**62, constants_size=2**40)
_ALONE: Final = Way(rows=1, operands=(), result=None)


@dataclass(frozen=True, slots=True)
class Turns(Cut):
    """The division of a ``repeat`` by the cuts of its body's nodes."""

    operands: tuple[Division | None, ...]
    cuts: tuple[Cut | None, ...]
    sections: Sections
    bodies: dict[tuple[int, int], Program] = field(default_factory=dict, compare=False)
    """The bodies for the pieces of machines, by the number of the machine and of all machines."""

    def operand(self, index: int) -> Divided | None:
        """Return the division of an operand, or None if every machine needs the whole."""
        return self.operands[index]

    @property
    def result(self) -> Divided | None:
        """The division of the carried values and of the stacks, one after another."""
        return self.sections

    def attrs(self, node: Node, operands: Sequence[TensorType], result: TensorType, place: int, machines: int) -> Any:
        """Return the attributes with a body for the rows of one machine."""
        if (place, machines) not in self.bodies:
            self.bodies[place, machines] = _body_piece(node, self.cuts, operands, place, machines)
        return {**node.attrs, "body": self.bodies[place, machines]}


@dataclass(frozen=True, slots=True)
class Section(Cut):
    """The division of a ``slice`` that takes one part of what a divided ``repeat`` returns."""

    sections: Sections
    number: int

    def operand(self, index: int) -> Divided | None:
        """Return the division of the operand."""
        return self.sections

    @property
    def result(self) -> Divided | None:
        """The division of the part that is taken."""
        return self.sections.parts[self.number][1]

    def attrs(self, node: Node, operands: Sequence[TensorType], result: TensorType, place: int, machines: int) -> Any:
        """Return the attributes with the place of the part in a machine's piece."""
        begins = self.sections.begins(place, machines)
        return {**node.attrs, "starts": (begins[self.number],), "stops": (begins[self.number + 1],)}


def take_section(program: Program, offset: int, wanted: Sequence[Divided | None]) -> Cut | None:
    """Return the cut of a node that takes one whole part of what a ``repeat`` returns, or None if it does not."""
    node, (sections,) = program.nodes[offset], wanted if len(wanted) == 1 else (None,)
    if node.op != "slice" or not isinstance(sections, Sections) or node.attrs["steps"] != (1,):
        return None
    begin = 0
    for number, (size, _) in enumerate(sections.parts):
        if (node.attrs["starts"], node.attrs["stops"]) == ((begin,), (begin + size,)) and size:
            return Section(split=_split("slice"), way=_ALONE, inner=1, outer=1, sections=sections, number=number)
        begin += size
    return None


def divide_turns(node: Node, wanted: Sequence[Division | None], machines: int) -> Cut | None:
    """Return the cut of a ``repeat`` whose operands are divided as ``wanted``.

    None if a node of its body combines rows, or if the result has no rows.
    """
    body, count = node.attrs["body"], node.attrs["count"]
    found = _Body(body, machines)
    for number, (spec, division) in enumerate(zip(body.inputs, wanted, strict=True)):
        is_sequence = spec.name.startswith(SEQUENCE)
        if division is not None and not found.set(number, _of_turn(division) if is_sequence else division):
            return None
    if not found.spread():
        return None
    parts: list[tuple[int, Division | None]] = []
    for name, value in form(body, count).parts:
        division = found.known[body.outputs[name]]
        if division is None or not value.elements:
            parts.append((value.elements, None))
            continue
        shape = value.shape if name.startswith(CARRY) else value.shape[1:]
        step = prod(shape[division.dim + 1 :])
        again = value.elements // prod(shape[division.dim :])
        parts.append((value.elements, Division(0, division.inner * step, division.outer * again)))
    if not any(division for _, division in parts):
        return None
    operands = [
        Division(own.dim + 1, own.inner, own.outer) if own is not None and spec.name.startswith(SEQUENCE) else own
        for spec, own in zip(body.inputs, found.known, strict=False)
    ]
    return Turns(
        split=_split("repeat"),
        way=_ALONE,
        inner=1,
        outer=1,
        operands=tuple(operands),
        cuts=tuple(found.cuts),
        sections=Sections(tuple(parts)),
    )


def _split(op: str) -> Split:
    return PRIMITIVES[op].splits[0]


def _of_turn(division: Division) -> Division | None:
    """Return the division of a part of a sequence, or None if machines have whole turns."""
    return Division(division.dim - 1, division.inner, division.outer) if division.dim else None


class _Body:
    """The divisions of all values of a body, and the cuts of its nodes, as far as they are known."""

    def __init__(self, body: Program, machines: int) -> None:
        self._body, self._machines = body, machines
        self.known: list[Division | None] = [None] * len(body.types)
        self.cuts: list[Cut | None] = [None] * len(body.nodes)
        self._is_changed = False

    def set(self, number: int, division: Division | None) -> bool:
        """Divide a value; return whether it can be. A constant cannot, and each value has one division."""
        is_constant = len(self._body.inputs) <= number < self._body.first_node
        if division is None or is_constant or self.known[number] not in (None, division):
            return False
        self._is_changed |= self.known[number] is None
        self.known[number] = division
        return True

    def spread(self) -> bool:
        """Divide what must be divided as well, until nothing changes; return whether all of it can be."""
        body = self._body
        carried = [
            (number, body.outputs[spec.name]) for number, spec in enumerate(body.inputs) if spec.name.startswith(CARRY)
        ]
        self._is_changed = True
        while self._is_changed:
            self._is_changed = False
            for pair in carried:
                for one, other in (pair, pair[::-1]):
                    if self.known[one] is not None and not self.set(other, self.known[one]):
                        return False
            if not all(self._divide(offset) for offset in range(len(body.nodes))):
                return False
        return True

    def _divide(self, offset: int) -> bool:
        """Divide a node if its operands or its result are divided. Return False if that is impossible."""
        number, args = self._body.first_node + offset, self._body.nodes[offset].args
        wanted = [self.known[arg] for arg in args]
        if self.known[number] is None and not any(wanted):
            return True
        cut = self.cuts[offset]
        if cut is None or not self._fits(cut, number, args):
            cut = next((own for own in self._possible(offset, wanted) if self._fits(own, number, args)), None)
        if cut is None or not isinstance(cut.result, Division) or not self.set(number, cut.result):
            return False
        self.cuts[offset] = cut
        needed = [cut.operand(index) for index in range(len(args))]
        return all(
            division is None or (isinstance(division, Division) and self.set(arg, division))
            for arg, division in zip(args, needed, strict=True)
        )

    def _possible(self, offset: int, wanted: Sequence[Division | None]) -> list[Cut]:
        number, node = self._body.first_node + offset, self._body.nodes[offset]
        result = self.known[number]
        if node.op == "repeat":
            return []
        if any(wanted):
            found = list(fitting(self._body, offset, wanted, self._machines))
        else:
            found = [] if result is None else list(giving(self._body, offset, result, self._machines))
        # A piece must be a node of the body.
        return [cut for cut in found if cut.is_compiled and result in (None, cut.result)]

    def _fits(self, cut: Cut, number: int, args: Sequence[int]) -> bool:
        """Return whether a cut has the divisions that are known, and divides no constant."""
        constants = range(len(self._body.inputs), self._body.first_node)
        return self.known[number] in (None, cut.result) and all(
            self.known[arg] in (None, cut.operand(index)) and not (arg in constants and cut.operand(index))
            for index, arg in enumerate(args)
        )


def _body_piece(
    node: Node, cuts: Sequence[Cut | None], operands: Sequence[TensorType], place: int, machines: int
) -> Program:
    """Return the body for the rows of one machine. ``operands`` are the types of its pieces of the operands."""
    body: Program = node.attrs["body"]
    types = [
        value if not spec.name.startswith(SEQUENCE) else TensorType(value.dtype, value.shape[1:])
        for spec, value in zip(body.inputs, operands, strict=True)
    ]
    inputs = [TensorSpec(spec.name, spec.dtype, own.shape) for spec, own in zip(body.inputs, types, strict=True)]
    types += [constant.type for constant in body.constants]
    nodes = []
    for number, (own, cut) in enumerate(zip(body.nodes, cuts, strict=True), body.first_node):
        result = body.types[number]
        made = own
        if cut is not None:
            assert cut.result is not None, "a node of a divided body has pieces"
            result = cut.result.piece(result, place, machines)
            pieces = [types[arg] for arg in own.args]
            made = replace(own, attrs=cut.attrs(own, pieces, result, place, machines))
        types.append(result)
        nodes.append(made)
    return make_program(inputs, body.constants, nodes, body.outputs, _LIMITS)
