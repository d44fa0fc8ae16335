"""A strict reader of binary evidence: it never reads past the end, and refuses bytes that are left over."""

from validator.credentials.values import EvidenceRefused, Reason


class ByteReader:
    """A reader of one structure. ``name`` appears in refusals."""

    def __init__(self, data: bytes, name: str, order: str = "little") -> None:
        """Start at the first byte; ``order`` is that of integers, ``little`` or ``big``."""
        self._data = data
        self._name = name
        self._big = order == "big"
        self.at = 0

    @property
    def left(self) -> int:
        """The number of bytes that are left."""
        return len(self._data) - self.at

    def take(self, count: int) -> bytes:
        """Return the next ``count`` bytes."""
        part = self._data[self.at : self.at + count]
        if len(part) != count:
            raise EvidenceRefused(Reason.MALFORMED, f"the {self._name} ends after {len(self._data)} bytes")
        self.at += count
        return part

    def number(self, size: int) -> int:
        """Return the next integer without sign of ``size`` bytes."""
        return int.from_bytes(self.take(size), "big" if self._big else "little")

    def sized(self, size: int) -> bytes:
        """Return the next bytes, whose number is an integer of ``size`` bytes before them."""
        return self.take(self.number(size))

    def zeros(self, count: int) -> None:
        """Skip ``count`` bytes, which must be zero: no signature covers them."""
        if any(self.take(count)):
            raise EvidenceRefused(Reason.MALFORMED, f"the {self._name} has a byte that is not zero where none is used")

    def rest(self) -> bytes:
        """Return all bytes that are left."""
        return self.take(self.left)

    def end(self) -> None:
        """Refuse bytes that are left over."""
        if self.left:
            raise EvidenceRefused(Reason.MALFORMED, f"the {self._name} has {self.left} bytes behind its end")


def malformed(detail: str) -> EvidenceRefused:
    """Return the refusal of evidence that does not have its format."""
    return EvidenceRefused(Reason.MALFORMED, detail)
