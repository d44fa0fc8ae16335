"""Pieces of values: which indices of a dimension a machine holds, and the shape of its piece."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pol.ops.splits import Axis, Way
from pol.state.arrays import Array
from pol.values import TensorType


@dataclass(frozen=True, slots=True)
class Division:
    """A division of the dimension ``dim`` among W machines, by residues.

    ``inner`` neighbouring indices form a block. Machine r has the blocks r, r + W, r + 2W, …. The dimension consists of
    ``outer`` equal parts, and blocks are counted in each of them anew. So a dimension of times and rows is divided by
    rows.
    """

    dim: int
    inner: int = 1
    outer: int = 1

    def positions(self, value: TensorType, machine: int, machines: int) -> Array:
        """Return the indices that a machine holds, in ascending order."""
        return residue_rows(value.shape[self.dim], machine, machines, self.inner, self.outer)

    def piece(self, value: TensorType, machine: int, machines: int) -> TensorType:
        """Return the type of a machine's piece."""
        blocks = value.shape[self.dim] // (self.inner * self.outer)
        return with_size(value, self.dim, -(-(blocks - machine) // machines) * self.inner * self.outer)


@dataclass(frozen=True, slots=True)
class Sections:
    """A division of a value of one dimension that consists of several parts, as a ``repeat`` returns them.

    ``parts`` has the number of elements of each part, and its division. Each machine has all of a part without one.
    """

    parts: tuple[tuple[int, Division | None], ...]

    @property
    def dim(self) -> int:
        """The only dimension."""
        return 0

    def positions(self, value: TensorType, machine: int, machines: int) -> Array:
        """Return the indices that a machine holds, in ascending order."""
        found, begin = [], 0
        for size, division in self.parts:
            whole = TensorType(value.dtype, (size,))
            found.append(
                begin + (np.arange(size) if division is None else division.positions(whole, machine, machines))
            )
            begin += size
        joined: Array = np.concatenate(found)
        return joined

    def piece(self, value: TensorType, machine: int, machines: int) -> TensorType:
        """Return the type of a machine's piece."""
        return with_size(value, 0, self.begins(machine, machines)[-1])

    def begins(self, machine: int, machines: int) -> list[int]:
        """Return where each part begins in a machine's piece, and where the last one ends."""
        begins = [0]
        for size, division in self.parts:
            whole = TensorType("f32", (size,))
            begins.append(
                begins[-1] + (whole if division is None else division.piece(whole, machine, machines)).elements
            )
        return begins


Divided = Division | Sections
"""The ways in which a value is divided."""


def residue_rows(rows: int, machine: int, machines: int, inner: int = 1, outer: int = 1) -> Array:
    """Return the rows of a machine, if each block of ``inner`` rows goes to the machine that follows in turn.

    The rows are ``outer`` equal parts, each of which begins with the first machine.
    """
    numbers: Array = np.arange(rows)
    chosen: Array = numbers[numbers % max(1, rows // outer) // inner % machines == machine]
    return chosen


def with_size(value: TensorType, dim: int, size: int) -> TensorType:
    """Return a type with another size of one dimension."""
    return TensorType(value.dtype, (*value.shape[:dim], size, *value.shape[dim + 1 :]))


def positions_of(axis: Axis, rows: Array, way: Way) -> Array:
    """Return the indices along an axis that hold these rows of a way. The rows are whole units of the axis."""
    once = rows[:: axis.unit] // axis.unit
    if axis.outer == 1:
        return once
    again: Array = (np.arange(axis.outer)[:, None] * (way.rows // axis.unit) + once).reshape(-1)
    return again


def cut(value: Array, dim: int, positions: Array) -> Array:
    """Return the piece of a value with these indices along ``dim``, in C order."""
    return np.ascontiguousarray(value.take(positions, dim))


def join(pieces: Sequence[Array], dim: int, positions: Sequence[Array]) -> Array:
    """Return the value whose pieces have these indices along ``dim``. Pieces may have the same indices."""
    first = pieces[0]
    size = 1 + max((int(places.max()) for places in positions if places.size), default=-1)
    whole = np.empty((*first.shape[:dim], size, *first.shape[dim + 1 :]), first.dtype)
    for piece, places in zip(pieces, positions, strict=True):
        whole[(slice(None),) * dim + (places,)] = piece
    return whole
