"""The check that row numbers exist, at once or after a run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

from pol.errors import OutOfRange


class RowGuard:
    """A check of the row numbers in an index.

    It usually raises the error of the first wrong number. While a run is recorded (:meth:`noting`), it cannot wait for
    the device. Then it notes on the device whether all numbers exist, and the run goes on with numbers that do.
    """

    def __init__(self) -> None:
        self._noted: list[Tensor] | None = None

    @contextmanager
    def noting(self) -> Iterator[list[Tensor]]:
        """Note in the yielded list whether numbers exist, instead of raising errors inside the block."""
        self._noted = []
        try:
            yield self._noted
        finally:
            self._noted = None

    def checked(self, index: Tensor, rows: int, error: Callable[[int, int], OutOfRange]) -> Tensor:
        """Return an index of ``rows`` rows whose numbers all exist."""
        if not index.numel():
            return index
        lowest, highest = index.aminmax()
        if self._noted is not None:
            self._noted.append((lowest >= 0) & (highest < rows))
            return index.clamp(0, max(0, rows - 1))
        if int(lowest) < 0 or int(highest) >= rows:
            raise error(int(index[(index < 0) | (index >= rows)][0]), rows)
        return index
