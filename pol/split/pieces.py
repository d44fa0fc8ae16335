"""Pieces of values: which indices of a dimension a machine holds, and the shape of its piece."""

from dataclasses import dataclass

import numpy as np

from pol.ops.indices import Listed, Residues
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

    def indices(self, value: TensorType, machine: int, machines: int) -> Residues:
        """Return the indices that a machine holds."""
        size = value.shape[self.dim]
        return Residues(size=size, machine=machine, machines=machines, inner=self.inner, outer=self.outer)

    def piece(self, value: TensorType, machine: int, machines: int) -> TensorType:
        """Return the type of a machine's piece."""
        return with_size(value, self.dim, len(self.indices(value, machine, machines)))


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

    def indices(self, value: TensorType, machine: int, machines: int) -> Listed:
        """Return the indices that a machine holds."""
        found, begin = [], 0
        for size, division in self.parts:
            whole = TensorType(value.dtype, (size,))
            found.append(
                begin + (np.arange(size) if division is None else division.indices(whole, machine, machines).array())
            )
            begin += size
        return Listed(np.concatenate(found))

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


def with_size(value: TensorType, dim: int, size: int) -> TensorType:
    """Return a type with another size of one dimension."""
    return TensorType(value.dtype, (*value.shape[:dim], size, *value.shape[dim + 1 :]))
