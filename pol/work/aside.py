"""Work beside a training step: a boundary is hashed and written while the next step only reads its states."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol


class Aside(Protocol):
    """A runner of one piece of work at a time.

    The caller calls ``finish`` before it overwrites anything that the work reads.
    """

    def begin(self, work: Callable[[], None]) -> None:
        """Begin ``work`` after the previous work has ended; raises the error of the previous work."""

    def finish(self) -> None:
        """Wait until the work has ended; raises its error, once."""


class AtOnce:
    """A runner that does the work in ``begin``, in the caller's thread."""

    def begin(self, work: Callable[[], None]) -> None:
        """Do the work."""
        work()

    def finish(self) -> None:
        """Return at once, since all work has ended."""


class Beside:
    """A runner with a thread of its own, which it starts at once, since a sandbox may forbid new threads later.

    There is no deadline, since the work only hashes and writes. A caller that cancels training ends the process.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "aside")
        self._thread.submit(lambda: None).result()
        self._current: Future[None] | None = None

    def begin(self, work: Callable[[], None]) -> None:
        """Begin ``work`` in the thread after the previous work has ended; raises the error of the previous work."""
        self.finish()
        self._current = self._thread.submit(work)

    def finish(self) -> None:
        """Wait until the work has ended; raises its error, once."""
        current, self._current = self._current, None
        if current is not None:
            current.result()
