"""A sorted list of amounts, stored in blocks, that counts the amounts below another one.

Blocks are short, so that an insertion moves little memory, however many amounts there are. An amount is a plain
integer, so an index costs one pointer for each bid.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from itertools import accumulate

BLOCK = 1_024
"""Number of amounts in a new block; a block is cut in two when it has twice as many."""


class Amounts:
    """A multiset of integers."""

    def __init__(self, amounts: Iterable[int] = ()) -> None:
        """Take the amounts, in any order."""
        ordered = sorted(amounts)
        self._blocks = [ordered[at : at + BLOCK] for at in range(0, len(ordered), BLOCK)]
        self._tops = [block[-1] for block in self._blocks]
        self._starts: list[int] = []

    def __bool__(self) -> bool:
        """Return whether there are any amounts."""
        return bool(self._blocks)

    def add(self, amount: int) -> None:
        """Add an amount."""
        self._starts = []
        if not self._blocks:
            self._blocks, self._tops = [[amount]], [amount]
            return
        at = min(bisect_left(self._tops, amount), len(self._tops) - 1)
        block = self._blocks[at]
        insort(block, amount)
        if len(block) < 2 * BLOCK:
            self._tops[at] = block[-1]
            return
        self._blocks[at : at + 1] = block[:BLOCK], block[BLOCK:]
        self._tops[at : at + 1] = block[BLOCK - 1], block[-1]

    def remove(self, amount: int) -> None:
        """Remove an amount, which must be there."""
        self._starts = []
        at = bisect_left(self._tops, amount)
        block = self._blocks[at]
        del block[bisect_right(block, amount) - 1]
        if block:
            self._tops[at] = block[-1]
        else:
            del self._blocks[at], self._tops[at]

    def least(self) -> int:
        """Return the least amount; there must be at least one."""
        return self._blocks[0][0]

    def below(self, amount: int) -> int:
        """Return the number of amounts that are less than ``amount``."""
        if not self._blocks or amount <= self._blocks[0][0]:
            return 0
        if not self._starts:
            self._starts = list(accumulate(map(len, self._blocks), initial=0))
        at = bisect_left(self._tops, amount)
        if at == len(self._blocks):
            return self._starts[at]
        return self._starts[at] + bisect_left(self._blocks[at], amount)
