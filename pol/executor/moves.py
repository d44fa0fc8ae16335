"""The moving bases of repeats: addresses that change with each turn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from pol.native.strided import Strided
from pol.ops.repeat import RepeatForm

Place = Callable[[Strided], tuple[int, int]]
"""A function that returns the base and the offset of a value."""


@dataclass(frozen=True, slots=True)
class Moves:
    """The moving bases of one repeat.

    ``bases`` holds each base, the value where the base begins, and the number of bytes that it moves per turn.
    ``swapped`` holds the pairs of bases that exchange their addresses after each turn.
    """

    bases: list[tuple[int, Strided, int]] = field(default_factory=list)
    swapped: list[tuple[int, int]] = field(default_factory=list)

    def add(self, base: int, begins: Strided, step: int = 0) -> Strided:
        """Add a base that begins at the address of the value ``begins``. Return the value that lies at this base.

        The base moves by ``step`` bytes per turn.
        """
        self.bases.append((base, begins, step))
        return Strided(base, begins.item, begins.view)

    def along(self, base: int, whole: Strided, count: int, *, reverse: bool) -> Strided:
        """Add a base that moves along the first dimension of ``whole``, backwards if ``reverse``.

        Return the part of ``whole`` that lies at this base.
        """
        first = count - 1 if reverse else 0
        step = whole.strides[0] * whole.item
        return self.add(base, whole.seen_as(whole.view[first, ...]), -step if reverse else step)

    def begin(self, place: Place) -> list[int]:
        """Return the words of the instruction ``TURNS``. They hold the address of each base in the first turn."""
        words = [len(self.bases)]
        for base, begins, _ in self.bases:
            at, offset = place(begins)
            words += [base, at, offset - begins.offset]
        return words

    def again(self, count: int) -> list[int]:
        """Return the words of the instruction ``AGAIN``.

        They hold the number of turns, and the moves after each turn.
        """
        steps = [word for base, _, step in self.bases if step for word in (base, step)]
        pairs = [word for pair in self.swapped for word in pair]
        return [count, len(steps) // 2, *steps, len(pairs) // 2, *pairs]


def parts_of(result: Strided, form: RepeatForm) -> Sequence[Strided]:
    """Return the parts of the result of a repeat."""
    parts = []
    start = 0
    for _, value in form.parts:
        part = result.part((slice(start, start + prod(value.shape)),))
        parts.append(part.seen_as(part.view.reshape(value.shape)))
        start += prod(value.shape)
    return parts
