"""The layout of an arena, which is one piece of memory.

It holds all values of a program between its inputs and outputs.
"""

from bisect import bisect_left, insort

LINE = 64
_PAGE = 4_096


class Arena:
    """An allocator of places in the arena.

    It uses the smallest free place that is large enough; among places of equal size, it uses the lowest.
    """

    def __init__(self) -> None:
        self.size = 0
        """Size of the arena in bytes, which is the most that was needed so far."""
        # The free places below ``size``, in three forms: sizes by offset, offsets in order, and (size, offset) in
        # order. No two free places are adjacent.
        self._free: dict[int, int] = {}
        self._offsets: list[int] = []
        self._sizes: list[tuple[int, int]] = []

    def take(self, size: int) -> tuple[int, int]:
        """Allocate ``size`` bytes that begin at a cache line. Return the offset and the size of the place."""
        length = max(1, -(-size // LINE)) * LINE
        if size >= _PAGE:
            # If the distance of two operands were a multiple of a page, they would compete for the same lines of the
            # cache.
            length += 5 * LINE
        at = bisect_left(self._sizes, (length, 0))
        if at < len(self._sizes):
            free, offset = self._sizes[at]
            self._remove(offset)
            if free > length:
                self._add(offset + length, free - length)
            return offset, length
        offset = self.size
        if self._offsets and self._offsets[-1] + self._free[self._offsets[-1]] == self.size:
            offset = self._offsets[-1]
            self._remove(offset)
        self.size = offset + length
        return offset, length

    def give_back(self, offset: int, size: int) -> None:
        """Free the place at ``offset``, which has ``size`` bytes."""
        at = bisect_left(self._offsets, offset)
        before = self._offsets[at - 1] if at else None
        if offset + size in self._free:
            size += self._remove(offset + size)
        if before is not None and before + self._free[before] == offset:
            size, offset = size + self._remove(before), before
        self._add(offset, size)

    def _add(self, offset: int, size: int) -> None:
        self._free[offset] = size
        insort(self._offsets, offset)
        insort(self._sizes, (size, offset))

    def _remove(self, offset: int) -> int:
        """Remove the place at ``offset`` from the free places, and return its size."""
        size = self._free.pop(offset)
        del self._offsets[bisect_left(self._offsets, offset)]
        del self._sizes[bisect_left(self._sizes, (size, offset))]
        return size
