"""A sorted list of amounts, stored in blocks. It counts the amounts that are below a given amount.

Blocks are short, so that an insertion moves little memory even if there are many amounts. A block whose amounts all fit
into 64 bits is an array, in which an amount takes 8 bytes. Any other block is a list of integers.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TypeAlias

BLOCK = 1_024
"""Number of amounts in a new block. A block is cut in two when it has twice this number of amounts."""
_WORD_MAX = (1 << 63) - 1
"""The greatest amount that an array can hold; the least one is -2^63."""

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
        """Return whether there are any amounts."""
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


def _block(ordered: Sequence[int]) -> Block:
    """Return a block that holds these amounts, which are in ascending order."""
    return array("q", ordered) if _fits(ordered[0], ordered[-1]) else list(ordered)


def _fits(least: int, most: int) -> bool:
    return least >= ~_WORD_MAX and most <= _WORD_MAX
