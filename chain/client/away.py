"""Waiting for a node that does not answer; the wait is reported once, and ends at a stop."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final, TypeVar

from chain.client.client import ChainClient
from chain.client.errors import ChainError, ErrorKind

T = TypeVar("T")
PAUSE_SECONDS: Final = 0.5
"""Seconds between two tries to reach a node."""
_AWAY: Final = frozenset({ErrorKind.UNAVAILABLE, ErrorKind.TIMEOUT})


def is_away(error: ChainError) -> bool:
    """Return whether the caller may ask again later: no node answers, or the node failed before it decided the request.

    A refusal without a code is not a decision on the request: the node has no state yet, or the node itself has failed.
    """
    return error.kind in _AWAY or (error.kind is ErrorKind.REFUSED and error.code is None)


class WatchedNode:
    """A node that may stop answering and come back. ``note`` is called once per change. For one thread only."""

    def __init__(self, address: str, stop: Event, note: Callable[[str], None]) -> None:
        """Start in the state ``away``, because the node has not answered yet. Waits end when ``stop`` is set."""
        self.away = True
        self._address = address
        self._stop = stop
        self._note = note
        self._reported = False

    def lost(self, error: ChainError) -> None:
        """Record that the node does not answer."""
        self.away = True
        if not self._reported and not self._stop.is_set():
            self._reported = True
            self._note(f"waiting for the node at {self._address}: {error.reason}")

    def back(self) -> None:
        """Record that the node answers."""
        self.away = False
        if self._reported:
            self._reported = False
            self._note(f"the node at {self._address} answers")

    def ask(self, question: Callable[[], T]) -> T | None:
        """Return the node's answer to ``question``, or None if the node does not answer; raise any other ChainError."""
        try:
            answer = question()
        except ChainError as error:
            if not is_away(error):
                raise
            self.lost(error)
            return None
        self.back()
        return answer

    def wait_for(self, question: Callable[[], T]) -> T | None:
        """Repeat ``question`` until the node answers, and return the answer; None if ``stop`` is set first.

        ChainError if the address is not a node's, or if the node refuses.
        """
        while not self._stop.is_set():
            try:
                answer = self.ask(question)
            except ChainError:
                # An error after the stop: the stop closed the client.
                if self._stop.is_set():
                    break
                raise
            if not self.away:
                return answer
            self._stop.wait(PAUSE_SECONDS)
        return None


@contextmanager
def closed_at(stop: Event, client: ChainClient) -> Iterator[None]:
    """Close ``client`` when ``stop`` is set, so that its calls end. The end of the ``with`` block sets ``stop``."""

    def close() -> None:
        stop.wait()
        client.close()

    thread = Thread(target=close, name="close-client", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
