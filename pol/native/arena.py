"""One piece of memory for all that a program has between its inputs and outputs, laid out before it runs."""

from bisect import bisect_left, insort

LINE = 64
_PAGE = 4_096


class Arena:
    """Gives out places, each the smallest free one that is large enough, lowest first, and takes them back."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes that were ever needed at once."""
        # what is free below ``size``, and no two of them touch: sizes by offset, offsets in order, both by size
        self._free: dict[int, int] = {}
        self._offsets: list[int] = []
        self._sizes: list[tuple[int, int]] = []

    def take(self, size: int) -> tuple[int, int]:
        """Return the offset of a place for so many bytes, at the start of a line, and how large it is."""
        wanted = max(1, -(-size // LINE)) * LINE
        if size >= _PAGE:
            # operands that lie a multiple of a page apart would fight for the same lines of the cache
            wanted += 5 * LINE
        at = bisect_left(self._sizes, (wanted, 0))
        if at < len(self._sizes):
            free, offset = self._sizes[at]
            self._remove(offset)
            if free > wanted:
                self._add(offset + wanted, free - wanted)
            return offset, wanted
        offset = self.size
        if self._offsets and self._offsets[-1] + self._free[self._offsets[-1]] == self.size:
            offset = self._offsets[-1]
            self._remove(offset)
        self.size = offset + wanted
        return offset, wanted

    def give_back(self, offset: int, size: int) -> None:
        """Take a place back."""
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
        """Take a free place out, and return its size."""
        size = self._free.pop(offset)
        del self._offsets[bisect_left(self._offsets, offset)]
        del self._sizes[bisect_left(self._sizes, (size, offset))]
        return size
