"""Windows that slide over the last dimensions of a value, as slices, and their gradients.

A place of a window reads every ``stride``-th element, beginning at its own position. These elements are a slice, so no
gathering is needed. The gradient needs, for each element, the places of the windows that read it. A *phase* is the set
of elements whose positions have the same remainder after division by the stride. Windows read all elements of a phase
at the same places, so the gradient also needs only slices.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import Self

Offsets = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WindowOffset:
    """A place ``at`` in a window, and the ``start`` of the slice that the windows read at this place."""

    at: Offsets
    start: Offsets


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows that slide over the last dimensions of a value.

    ``kernel`` has the sizes of a window, ``stride`` the steps between windows, ``padding`` the numbers of zeros around
    the value, and ``dilation`` the steps within a window. ``inputs`` has the sizes of the value, and ``outputs`` the
    numbers of windows. Each field has one number for each dimension.
    """

    kernel: Sequence[int]
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    inputs: Sequence[int]
    outputs: Sequence[int]

    @classmethod
    def of(
        cls,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        inputs: Sequence[int],
        outputs: Sequence[int],
    ) -> Self:
        """Return windows from torch's arguments, which have one number for all dimensions or one for each."""

        def each(numbers: Sequence[int]) -> list[int]:
            return list(numbers) * len(outputs) if len(numbers) == 1 else list(numbers)

        return cls(
            kernel=each(kernel),
            stride=each(stride),
            padding=each(padding),
            dilation=each(dilation),
            inputs=inputs,
            outputs=outputs,
        )

    def places(self) -> list[WindowOffset]:
        """Return the places of a window, each with the offset in the padded input that the first window reads there."""
        return [
            WindowOffset(at, tuple(k * d for k, d in zip(at, self.dilation, strict=True)))
            for at in product(*map(range, self.kernel))
        ]

    def padding_after(self) -> list[int]:
        """Return the padding after the inputs that completes the last window; negative if the inputs are longer."""
        rows = zip(
            self.outputs,
            self.stride,
            self.kernel,
            self.dilation,
            self.inputs,
            self.padding,
            strict=True,
        )
        return [(o - 1) * s + (k - 1) * d + 1 - size - p for o, s, k, d, size, p in rows]

    # --- gradients ---

    def turns(self) -> list[int]:
        """Return the number of elements of a phase: padding before plus inputs, divided by the stride, rounded up."""
        rows = zip(self.padding, self.inputs, self.stride, strict=True)
        return [-(-(p + size) // s) for p, size, s in rows]

    def phases(self) -> Iterator[tuple[Offsets, list[WindowOffset]]]:
        """Yield each phase with the places that read it.

        A place with this ``start`` reads the element ``stride x q + phase`` of the padded inputs in window ``start +
        q``, if there is such a window.
        """
        for phase in product(*map(range, self.stride)):
            kinds = [
                [k for k in range(size) if (k * d - r) % s == 0]
                for size, d, s, r in zip(self.kernel, self.dilation, self.stride, phase, strict=True)
            ]
            yield phase, [WindowOffset(at, self._start(at, phase)) for at in product(*kinds)]

    def _start(self, at: Offsets, phase: Offsets) -> Offsets:
        rows = zip(at, self.dilation, phase, self.stride, strict=True)
        return tuple((r - k * d) // s for k, d, r, s in rows)

    def kernel_steps(self) -> list[int]:
        """Return the distance, in each dimension, between two places of a window that read the same phase."""
        return [s // gcd(s, d) for s, d in zip(self.stride, self.dilation, strict=True)]

    def place_steps(self) -> list[int]:
        """Return the distance, in each dimension, between the starts of the slices of two such places, counted in
        windows.

        The distance is negative, because a later place reads the same element in an earlier window.
        """
        return [-d // gcd(s, d) for s, d in zip(self.stride, self.dilation, strict=True)]

    def reach(self) -> tuple[list[int], list[int]]:
        """Return how many windows the phases read before the first window, and how many after the last one."""
        starts = [place.start for _, places in self.phases() for place in places]
        columns = list(zip(*starts, strict=True))
        rows = zip(columns, self.turns(), self.outputs, strict=True)
        ends = [max(0, max(column) + turns - size) for column, turns, size in rows]
        return [max(0, -min(column)) for column in columns], ends
