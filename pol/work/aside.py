"""Work that is done beside a step: a boundary is hashed and written while the next step only reads its states."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol


class Aside(Protocol):
    """Does one thing after another; whoever begins one asks for its end before what it reads is overwritten."""

    def begin(self, work: Callable[[], None]) -> None:
        """Let this be done. What came before is at its end by then, and raises here what it raised."""

    def finish(self) -> None:
        """Return when nothing is being done any more; raises what it raised, once."""


class AtOnce:
    """Does everything where it is begun."""

    def begin(self, work: Callable[[], None]) -> None:
        """Do it."""
        work()

    def finish(self) -> None:
        """Return: everything is done."""


class Beside:
    """Does it in a thread of its own, which is there from the beginning: a sandbox may forbid to start one later.

    There is no deadline: the work is hashing and writing, which end or fail, and whoever cancels ends the process.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "aside")
        self._thread.submit(lambda: None).result()
        self._doing: Future[None] | None = None

    def begin(self, work: Callable[[], None]) -> None:
        """Let the thread do it."""
        self.finish()
        self._doing = self._thread.submit(work)

    def finish(self) -> None:
        """Wait for the thread."""
        doing, self._doing = self._doing, None
        if doing is not None:
            doing.result()
