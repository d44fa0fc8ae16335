"""Work that runs beside a training step.

A boundary is hashed and written while the next step reads, but does not overwrite, the states of this boundary.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol


class Aside(Protocol):
    """A runner that does one piece of work at a time.

    The caller calls ``finish`` before it overwrites anything that the work reads.
    """

    def begin(self, work: Callable[[], None]) -> None:
        """Begin ``work`` after the previous work has ended. If the previous work raised an error, raise that error."""

    def finish(self) -> None:
        """Wait until the current work has ended. If it raised an error, raise that error once."""


class AtOnce:
    """A runner that does all work in ``begin``, in the caller's thread."""

    def begin(self, work: Callable[[], None]) -> None:
        """Do ``work`` now."""
        work()

    def finish(self) -> None:
        """Do nothing, since all work has already ended."""


class Beside:
    """A runner with a thread of its own.

    The thread starts with the runner, since a sandbox may forbid new threads later. There is no deadline, because the
    work only hashes and writes. To cancel training, a caller ends the whole process.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "aside")
        self._thread.submit(lambda: None).result()
        self._current: Future[None] | None = None

    def begin(self, work: Callable[[], None]) -> None:
        """Begin ``work`` in the thread after the previous work has ended.

        If the previous work raised an error, raise that error.
        """
        self.finish()
        self._current = self._thread.submit(work)

    def finish(self) -> None:
        """Wait until the current work has ended. If it raised an error, raise that error once."""
        current, self._current = self._current, None
        if current is not None:
            current.result()
