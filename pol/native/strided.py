"""Where the elements of a value lie: a base, and a view of memory that is never touched.

The view is an array of bytes, one for each element, that NumPy only reckons with: so its rules say which shapes, orders
and parts of a value need no copy, and a stride is in elements.
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
    """A value: the number of its base, bytes of an element, and the view."""

    base: int
    item: int
    view: Array

    @property
    def offset(self) -> int:
        """Bytes from the base to the first element."""
        return (address(self.view) - _START) * self.item if self.view.size else 0

    @property
    def shape(self) -> Shape:
        """Sizes of the dimensions."""
        return self.view.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one index to the next, for each dimension."""
        return self.view.strides

    @property
    def is_in_order(self) -> bool:
        """Whether the elements lie side by side, the last dimension first."""
        return self.view.flags.c_contiguous

    @property
    def order(self) -> tuple[int, ...]:
        """The dimensions by their strides, the longest first; those of one element stay where they are."""
        dims = [dim for dim, size in enumerate(self.shape) if size > 1]
        ordered = iter(sorted(dims, key=lambda dim: -self.strides[dim]))
        return tuple(next(ordered) if size > 1 else dim for dim, size in enumerate(self.shape))

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie side by side in some order of the dimensions."""
        return self.view.transpose(self.order).flags.c_contiguous

    def seen_as(self, view: Array) -> "Strided":
        """Return another view of the same memory."""
        return Strided(self.base, self.item, view)

    def part(self, index: tuple[slice, ...]) -> "Strided":
        """Return a part of it."""
        # with an ellipsis what has no dimensions stays an array
        whole: tuple[slice | EllipsisType, ...] = (*index, ...)
        return self.seen_as(self.view[whole])


def in_order(base: int, item: int, shape: Shape, offset: int = 0) -> Strided:
    """Return a value with its elements side by side, so many of them behind the base's beginning."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    whole = as_strided(_BYTE, (offset + step,), (1,), writeable=False)
    return Strided(base, item, as_strided(whole[offset:], shape, strides[::-1], writeable=False))


def merged(shape: Shape, *strides: tuple[int, ...]) -> tuple[list[int], list[list[int]]]:
    """Return sizes and strides from the last dimension on, as few as several arrays of one shape allow."""
    sizes, kept = [1], [[1] for _ in strides]
    for dim in reversed(range(len(shape))):
        size, steps = shape[dim], [of[dim] for of in strides]
        if size == 1:
            continue
        if sizes == [1]:
            sizes, kept = [size], [[step] for step in steps]
        elif all(step == of[-1] * sizes[-1] for step, of in zip(steps, kept, strict=True)):
            sizes[-1] *= size
        else:
            sizes.append(size)
            for step, of in zip(steps, kept, strict=True):
                of.append(step)
    return sizes, kept
