"""The indices of a dimension that one of several machines holds.

They can be as many as the elements of the largest tensor, so they are a pattern where possible, and not a list.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pol.ops.splits import Axis, Way
from pol.state.arrays import Array


@dataclass(frozen=True, slots=True)
class Residues:
    """The indices of the blocks r, r + W, r + 2W, … of a dimension, for machine r of W.

    ``inner`` neighbouring indices form a block. The dimension has ``size`` indices in ``outer`` equal parts. Blocks are
    counted in each part anew.
    """

    size: int
    machine: int
    machines: int
    inner: int = 1
    outer: int = 1

    def __len__(self) -> int:
        return self.outer * self._blocks * self.inner

    @property
    def _period(self) -> int:
        return self.size // self.outer

    @property
    def _blocks(self) -> int:
        """The number of this machine's blocks in each part."""
        return -(-(self._period // self.inner - self.machine) // self.machines)

    def array(self) -> Array:
        """Return the indices in ascending order."""
        parts = np.arange(self.outer)[:, None, None] * self._period
        blocks = (self.machine + self.machines * np.arange(self._blocks))[:, None] * self.inner
        listed: Array = (parts + blocks + np.arange(self.inner)).reshape(-1)
        return listed

    def find(self, numbers: Array) -> Array:
        """Return the place of each index among this machine's indices, or -1 if the machine does not hold it."""
        part, rest = np.divmod(numbers, max(1, self._period))
        block, within = np.divmod(rest, self.inner)
        turn, owner = np.divmod(block, self.machines)
        places = (part * self._blocks + turn) * self.inner + within
        found: Array = np.where(owner == self.machine, places, -1)
        return found

    def take(self, value: Array, dim: int) -> Array:
        """Return the piece of a value with these indices along ``dim``, in C order."""
        shape = (*value.shape[:dim], len(self), *value.shape[dim + 1 :])
        return np.ascontiguousarray(self._view(value, dim)).reshape(shape)

    def put(self, piece: Array, whole: Array, dim: int) -> None:
        """Write a piece to its place in the whole, which is in C order."""
        view = self._view(whole, dim)
        view[...] = piece.reshape(view.shape)

    def along(self, axis: Axis, way: Way) -> "Residues":
        """Return the indices along an axis that hold these rows of a way. The rows are whole units of the axis."""
        return Residues(
            size=way.rows // axis.unit * axis.outer,
            machine=self.machine,
            machines=self.machines,
            inner=self.inner // axis.unit,
            outer=self.outer * axis.outer,
        )

    def _view(self, value: Array, dim: int) -> Array:
        blocks = value.reshape(
            *value.shape[:dim], self.outer, self._period // self.inner, self.inner, *value.shape[dim + 1 :]
        )
        return blocks[(slice(None),) * (dim + 1) + (slice(self.machine, None, self.machines),)]


@dataclass(frozen=True, slots=True)
class Listed:
    """Indices that follow no pattern, in ascending order."""

    indices: Array

    def __len__(self) -> int:
        return len(self.indices)

    def array(self) -> Array:
        """Return the indices."""
        return self.indices

    def find(self, numbers: Array) -> Array:
        """Return the place of each number among the indices, or -1 if it is not one of them."""
        if not len(self.indices):
            return np.full(numbers.shape, -1)
        places = np.minimum(np.searchsorted(self.indices, numbers), len(self.indices) - 1)
        return np.where(self.indices[places] == numbers, places, -1)

    def take(self, value: Array, dim: int) -> Array:
        """Return the piece of a value with these indices along ``dim``, in C order."""
        return np.ascontiguousarray(value.take(self.indices, dim))

    def put(self, piece: Array, whole: Array, dim: int) -> None:
        """Write a piece to its place in the whole."""
        whole[(slice(None),) * dim + (self.indices,)] = piece

    def along(self, axis: Axis, way: Way) -> "Listed":
        """Return the indices along an axis that hold these rows of a way. The rows are whole units of the axis."""
        once = self.indices[:: axis.unit] // axis.unit
        again: Array = (np.arange(axis.outer)[:, None] * (way.rows // axis.unit) + once).reshape(-1)
        return Listed(again)


Indices = Residues | Listed
"""The indices of a dimension that a machine holds."""


def join(pieces: Sequence[Array], dim: int, indices: Sequence[Indices], size: int) -> Array:
    """Return the value of ``size`` indices along ``dim`` whose pieces have these indices. Pieces may share indices."""
    first = pieces[0]
    whole = np.empty((*first.shape[:dim], size, *first.shape[dim + 1 :]), first.dtype)
    for piece, own in zip(pieces, indices, strict=True):
        own.put(piece, whole, dim)
    return whole
