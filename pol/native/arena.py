"""One piece of memory for all that a program has between its inputs and outputs, laid out before it runs."""

LINE = 64
_PAGE = 4_096


class Arena:
    """Gives out places from the lowest free one on, and takes them back."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes that were ever needed at once."""
        # offset and size of what is free below ``size``, by offset; no two of them touch
        self._free: list[tuple[int, int]] = []

    def take(self, size: int) -> tuple[int, int]:
        """Return the offset of a place for so many bytes, at the start of a line, and how large it is."""
        wanted = max(1, -(-size // LINE)) * LINE
        if size >= _PAGE:
            # operands that lie a multiple of a page apart would fight for the same lines of the cache
            wanted += 5 * LINE
        fits = [(free, at) for at, (_, free) in enumerate(self._free) if free >= wanted]
        if fits:
            _, at = min(fits)
            offset, free = self._free.pop(at)
            if free > wanted:
                self._free.insert(at, (offset + wanted, free - wanted))
            return offset, wanted
        offset = self.size
        if self._free and sum(self._free[-1]) == self.size:
            offset, _ = self._free.pop()
        self.size = offset + wanted
        return offset, wanted

    def give_back(self, offset: int, size: int) -> None:
        """Take a place back."""
        at = next(
            (at for at, (start, _) in enumerate(self._free) if start > offset), len(self._free)
        )
        self._free.insert(at, (offset, size))
        for left in (at, at - 1):
            if 0 <= left < len(self._free) - 1:
                (start, free), (following, more) = self._free[left : left + 2]
                if start + free == following:
                    self._free[left : left + 2] = [(start, free + more)]
