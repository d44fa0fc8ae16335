"""A queue for work that keeps a core busy: one caller at a time, so that strangers' requests cannot stop the node."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock

from chain.app.interfaces import UNREACHABLE
from domain.errors import Refusal

CALLERS = 4
"""Most callers that run or wait at once. The gRPC server has more threads than all queues together allow, so short
queries always find a free thread."""

WAIT_SECONDS = 2.0


class TurnQueue:
    """A queue in which one caller at a time has the turn; any thread may call."""

    def __init__(
        self, callers: int = CALLERS, wait_seconds: float = WAIT_SECONDS, *, what: str = "simulations"
    ) -> None:
        """Allow at most ``callers`` threads to run or wait at once; each waits at most ``wait_seconds``.

        ``what`` is the word for the work in the refusal.
        """
        self._what = what
        self._callers = BoundedSemaphore(callers)
        self._turn = Lock()
        self._wait_seconds = wait_seconds

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the turn during the block; raise Refusal(UNREACHABLE) if the turn does not come in time.

        After this refusal, clients send the request again.
        """
        if not self._callers.acquire(blocking=False):
            raise self._busy()
        try:
            if not self._turn.acquire(timeout=self._wait_seconds):
                raise self._busy()
            try:
                yield
            finally:
                self._turn.release()
        finally:
            self._callers.release()

    def _busy(self) -> Refusal:
        return Refusal(UNREACHABLE, "tx", f"the node is busy with other {self._what}", "try again in a few seconds")
