"""Pieces of values: which indices of a dimension a machine holds, and the shape of its piece."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pol.ops.splits import Axis
from pol.state.arrays import Array
from pol.values import TensorType


@dataclass(frozen=True, slots=True)
class Division:
    """A division of the dimension ``dim`` among W machines, by residues.

    ``inner`` neighbouring indices form a block. Machine r has the blocks r, r + W, r + 2W, ….
    """

    dim: int
    inner: int = 1

    def blocks(self, value: TensorType) -> int:
        """Return the number of blocks of a value, or 0 if blocks do not fit its size."""
        size = value.shape[self.dim]
        return 0 if size % self.inner else size // self.inner

    def positions(self, value: TensorType, machine: int, machines: int) -> Array:
        """Return the indices that a machine holds, in ascending order."""
        return residue_rows(value.shape[self.dim], machine, machines, self.inner)

    def piece(self, value: TensorType, machine: int, machines: int) -> TensorType:
        """Return the type of a machine's piece."""
        count = -(-(self.blocks(value) - machine) // machines) * self.inner
        return with_size(value, self.dim, count)


def residue_rows(rows: int, machine: int, machines: int, inner: int = 1) -> Array:
    """Return the rows of a machine, if each block of ``inner`` rows goes to the machine that follows in turn."""
    numbers: Array = np.arange(rows)
    chosen: Array = numbers[numbers // inner % machines == machine]
    return chosen


def with_size(value: TensorType, dim: int, size: int) -> TensorType:
    """Return a type with another size of one dimension."""
    return TensorType(value.dtype, (*value.shape[:dim], size, *value.shape[dim + 1 :]))


def positions_of(axis: Axis, rows: Array) -> Array:
    """Return the indices along an axis that hold these rows of a way. The rows are whole units of the axis."""
    return rows[:: axis.unit] // axis.unit


def cut(value: Array, dim: int, positions: Array) -> Array:
    """Return the piece of a value with these indices along ``dim``, in C order."""
    return np.ascontiguousarray(value.take(positions, dim))


def join(pieces: Sequence[Array], dim: int, positions: Sequence[Array]) -> Array:
    """Return the value whose pieces have these indices along ``dim``."""
    first = pieces[0]
    size = sum(map(len, positions))
    whole = np.empty((*first.shape[:dim], size, *first.shape[dim + 1 :]), first.dtype)
    for piece, places in zip(pieces, positions, strict=True):
        whole[(slice(None),) * dim + (places,)] = piece
    return whole
