"""Cuts: how a node is divided among machines, and which cuts fit the division of its operands."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pol.job.program import Node, Program
from pol.ops.splits import Axis, Exchange, Pieces, Split, Way
from pol.ops.table import PRIMITIVES
from pol.split.pieces import Divided, Division
from pol.values import TensorType


@dataclass(frozen=True, slots=True)
class Cut:
    """The division of a node: a way of its column, and the number of neighbouring rows that stay together.

    The rows of the way are ``outer`` equal parts, which are divided alike.
    """

    split: Split
    way: Way
    inner: int
    outer: int

    def operand(self, index: int) -> Divided | None:
        """Return the division of an operand, or None if every machine needs the whole."""
        return self._division(self.way.operands[index])

    @property
    def result(self) -> Divided | None:
        """The division of the result, or None if an exchange gives the whole to one machine."""
        return self._division(self.way.result)

    @property
    def has_exchange(self) -> bool:
        """True if machines exchange partial results."""
        return self.split.exchange is not Exchange.NONE

    @property
    def is_compiled(self) -> bool:
        """True if a piece is a node of its own, which any back end can compute."""
        return not self.has_exchange and self.split.local is None

    def attrs(self, node: Node, operands: Sequence[TensorType], result: TensorType, place: int, machines: int) -> Any:
        """Return the attributes of the piece that the machine number ``place`` computes, from the pieces' types."""
        return self.split.fit(node.attrs, self.way, operands, result)

    def _division(self, axis: Axis | None) -> Division | None:
        return None if axis is None else Division(axis.dim, self.inner // axis.unit, axis.outer * self.outer)


def fitting(program: Program, offset: int, wanted: Sequence[Division | None], machines: int) -> Iterator[Cut]:
    """Yield the cuts in which all operands that are divided as ``wanted`` stay so. Other operands are whole, and a
    machine can take its piece of them.
    """
    for split, way in ways_of(program, offset):
        blocks = {
            _block(division, axis) for axis, division in zip(way.operands, wanted, strict=True) if division is not None
        }
        if len(blocks) == 1:
            inner, outer = blocks.pop()
            if is_possible(split, way, inner, outer, machines):
                yield Cut(split=split, way=way, inner=inner, outer=outer)


def giving(program: Program, offset: int, wanted: Division, machines: int) -> Iterator[Cut]:
    """Yield the cuts that give the result in pieces as ``wanted``, whatever operands they need."""
    for split, way in ways_of(program, offset):
        if way.result is not None:
            inner, outer = _block(wanted, way.result)
            if is_possible(split, way, inner, outer, machines):
                yield Cut(split=split, way=way, inner=inner, outer=outer)


def _block(division: Division, axis: Axis | None) -> tuple[int, int]:
    """Return how many rows of a way stay together and how many equal parts they have, or zeros if the axis does not
    fit the division.
    """
    if axis is None or axis.dim != division.dim or division.outer % axis.outer:
        return 0, 0
    return division.inner * axis.unit, division.outer // axis.outer


def ways_of(program: Program, offset: int) -> Iterator[tuple[Split, Way]]:
    """Yield all ways in which the column of a node's primitive divides it."""
    node: Node = program.nodes[offset]
    operands = [program.types[arg] for arg in node.args]
    for split in PRIMITIVES[node.op].splits:
        for way in split.ways(operands, node.attrs, program.types[program.first_node + offset]):
            yield split, way


def is_possible(split: Split, way: Way, inner: int, outer: int, machines: int) -> bool:
    """Return whether blocks of ``inner`` rows can be divided by residues, at least one block per machine."""
    axes = [axis for axis in (*way.operands, way.result) if axis is not None]
    if inner < 1 or way.rows % (inner * outer) or any(inner % axis.unit for axis in axes):
        return False
    if way.rows // (inner * outer) < machines:
        return False
    return split.pieces is Pieces.ANY or (outer == 1 and inner & (inner - 1) == 0)
