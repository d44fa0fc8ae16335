"""The addresses of a value's elements, described by a base and a view. The view shows memory that is never read or
written.

The view is a NumPy array with one byte per element. The array is used only to compute shapes and strides, so NumPy's
rules determine which shapes, orders and parts of a value need no copy. Strides are in elements.
"""

from dataclasses import dataclass
from types import EllipsisType

import numpy as np
from numpy.lib.stride_tricks import as_strided

from pol.native.library import address
from pol.state.arrays import Array
from pol.values import Shape

_BYTE = np.zeros(1, np.int8)
_START = address(_BYTE)


@dataclass(frozen=True, slots=True, eq=False)
class Strided:
    """A value: the number of its base, the size of an element in bytes, and the view."""

    base: int
    item: int
    view: Array

    @property
    def offset(self) -> int:
        """Number of bytes from the base to the first element of the value."""
        return (address(self.view) - _START) * self.item if self.view.size else 0

    @property
    def shape(self) -> Shape:
        """Sizes of the dimensions."""
        return self.view.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Number of elements from one index to the next, for each dimension."""
        return self.view.strides

    @property
    def is_in_order(self) -> bool:
        """True if the elements are contiguous in C order."""
        return self.view.flags.c_contiguous

    @property
    def order(self) -> tuple[int, ...]:
        """The dimensions in the order of their strides, the longest first.

        Dimensions of size 1 keep their positions.
        """
        dims = [dim for dim, size in enumerate(self.shape) if size > 1]
        ordered = iter(sorted(dims, key=lambda dim: -self.strides[dim]))
        return tuple(next(ordered) if size > 1 else dim for dim, size in enumerate(self.shape))

    @property
    def is_dense(self) -> bool:
        """True if the elements are contiguous in some order of the dimensions."""
        return self.view.transpose(self.order).flags.c_contiguous

    def seen_as(self, view: Array) -> "Strided":
        """Return the value that has the same base, but ``view`` as its view."""
        return Strided(self.base, self.item, view)

    def part(self, index: tuple[slice, ...]) -> "Strided":
        """Return the part of the value that ``index`` selects."""
        # With an ellipsis, the part of a scalar remains an array.
        whole: tuple[slice | EllipsisType, ...] = (*index, ...)
        return self.seen_as(self.view[whole])


def in_order(base: int, item: int, shape: Shape, offset: int = 0) -> Strided:
    """Return a value that is contiguous in C order. It begins ``offset`` elements after its base."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    whole = as_strided(_BYTE, (offset + step,), (1,), writeable=False)
    return Strided(base, item, as_strided(whole[offset:], shape, strides[::-1], writeable=False))


def merged(shape: Shape, *strides: tuple[int, ...]) -> tuple[list[int], list[list[int]]]:
    """Return the sizes of a shape and the strides of several arrays of that shape, last dimension first.

    Dimensions are merged into as few as possible.
    """
    sizes = [1]
    results = [[1] for _ in strides]
    for dim in reversed(range(len(shape))):
        size = shape[dim]
        steps = [of[dim] for of in strides]
        if size == 1:
            continue
        if sizes == [1]:
            sizes = [size]
            results = [[step] for step in steps]
        elif all(step == result[-1] * sizes[-1] for step, result in zip(steps, results, strict=True)):
            sizes[-1] *= size
        else:
            sizes.append(size)
            for step, result in zip(steps, results, strict=True):
                result.append(step)
    return sizes, results
