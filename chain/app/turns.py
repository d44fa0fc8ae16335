"""Turns at what keeps a core busy: one at a time, so that strangers who ask cannot hold up the node."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock

from chain.app.interfaces import UNREACHABLE
from domain.errors import Refusal

PLACES = 4
"""Who has a turn or waits for it. The gRPC server has twice as many threads, so that queries always find one."""

WAIT_SECONDS = 2.0


class TurnQueue:
    """Any thread may ask for a turn."""

    def __init__(self, places: int = PLACES, wait_seconds: float = WAIT_SECONDS) -> None:
        """Let ``places`` threads have a turn or wait for one, each for ``wait_seconds`` at most."""
        self._places = BoundedSemaphore(places)
        self._turn = Lock()
        self._wait_seconds = wait_seconds

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the turn; a Refusal(UNREACHABLE), which clients repeat, where nobody's comes to an end."""
        if not self._places.acquire(blocking=False):
            raise _busy()
        try:
            if not self._turn.acquire(timeout=self._wait_seconds):
                raise _busy()
            try:
                yield
            finally:
                self._turn.release()
        finally:
            self._places.release()


def _busy() -> Refusal:
    return Refusal(UNREACHABLE, "tx", "the node is busy with other simulations", "try again")
