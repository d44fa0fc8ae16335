"""Amounts in ascending order, of which it is asked how many are below another: a sorted list in blocks.

A block is short enough that an insertion moves little memory, whatever the number of amounts. A block whose amounts
all fit 64 bits is an array, in which an amount takes 8 bytes; any other is a list of integers.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TypeAlias

BLOCK = 1_024
"""Amounts of a block when it is cut; it is cut in two when it has twice as many."""
_WORD_MAX = (1 << 63) - 1
"""The greatest amount of an array; the least one is one farther from 0."""

Block: TypeAlias = "array[int] | list[int]"


class Amounts:
    """A multiset of integers."""

    def __init__(self, amounts: Iterable[int] = ()) -> None:
        """Take the amounts, in any order."""
        ordered = sorted(amounts)
        self._blocks = [_block(ordered[at : at + BLOCK]) for at in range(0, len(ordered), BLOCK)]
        self._tops = [block[-1] for block in self._blocks]
        self._starts: list[int] = []

    def __bool__(self) -> bool:
        """Tell whether there is any."""
        return bool(self._blocks)

    def add(self, amount: int) -> None:
        """Add an amount."""
        self._starts = []
        if not self._blocks:
            self._blocks, self._tops = [_block([amount])], [amount]
            return
        at = min(bisect_left(self._tops, amount), len(self._tops) - 1)
        block = self._blocks[at]
        if isinstance(block, array) and not _fits(amount, amount):
            block = self._blocks[at] = list(block)
        insort(block, amount)
        if len(block) < 2 * BLOCK:
            self._tops[at] = block[-1]
            return
        self._blocks[at : at + 1] = block[:BLOCK], block[BLOCK:]
        self._tops[at : at + 1] = block[BLOCK - 1], block[-1]

    def remove(self, amount: int) -> None:
        """Take an amount away that is there."""
        self._starts = []
        at = bisect_left(self._tops, amount)
        block = self._blocks[at]
        del block[bisect_right(block, amount) - 1]
        if block:
            self._tops[at] = block[-1]
        else:
            del self._blocks[at], self._tops[at]

    def least(self) -> int:
        """Return the least amount, of some."""
        return self._blocks[0][0]

    def below(self, amount: int) -> int:
        """Count those that are less than ``amount``."""
        if not self._blocks or amount <= self._blocks[0][0]:
            return 0
        if not self._starts:
            self._starts = list(accumulate(map(len, self._blocks), initial=0))
        at = bisect_left(self._tops, amount)
        if at == len(self._blocks):
            return self._starts[at]
        return self._starts[at] + bisect_left(self._blocks[at], amount)


def _block(ordered: Sequence[int]) -> Block:
    """Return ascending amounts as a block."""
    return array("q", ordered) if _fits(ordered[0], ordered[-1]) else list(ordered)


def _fits(least: int, most: int) -> bool:
    return least >= ~_WORD_MAX and most <= _WORD_MAX
