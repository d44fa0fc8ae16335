"""Bases that move: what is another place in each turn of a repeat."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from pol.native.strided import Strided
from pol.ops.repeat import RepeatForm

Place = Callable[[Strided], tuple[int, int]]
"""Base and offset of a value."""


@dataclass(frozen=True, slots=True)
class Moves:
    """The bases of one repeat: where each begins, and by how many bytes it goes on; pairs change places."""

    bases: list[tuple[int, Strided, int]] = field(default_factory=list)
    swapped: list[tuple[int, int]] = field(default_factory=list)

    def add(self, base: int, begins: Strided, step: int = 0) -> Strided:
        """Return what lies at a base that begins where this value does."""
        self.bases.append((base, begins, step))
        return Strided(base, begins.item, begins.view)

    def along(self, base: int, whole: Strided, count: int, *, reverse: bool) -> Strided:
        """Return one part after another of a value along its first dimension, or from the last one on."""
        first = count - 1 if reverse else 0
        step = whole.strides[0] * whole.item
        return self.add(base, whole.seen_as(whole.view[first, ...]), -step if reverse else step)

    def begin(self, place: Place) -> list[int]:
        """Return the words of ``TURNS``: where each base lies in the first turn."""
        words = [len(self.bases)]
        for base, begins, _ in self.bases:
            at, offset = place(begins)
            words += [base, at, offset - begins.offset]
        return words

    def again(self, count: int) -> list[int]:
        """Return the words of ``AGAIN``: how many turns there are, and what happens after each."""
        steps = [word for base, _, step in self.bases if step for word in (base, step)]
        pairs = [word for pair in self.swapped for word in pair]
        return [count, len(steps) // 2, *steps, len(pairs) // 2, *pairs]


def parts_of(result: Strided, form: RepeatForm) -> Sequence[Strided]:
    """Return the parts of the result of a repeat."""
    found, start = [], 0
    for _, value in form.parts:
        part = result.part((slice(start, start + prod(value.shape)),))
        found.append(part.seen_as(part.view.reshape(value.shape)))
        start += prod(value.shape)
    return found
