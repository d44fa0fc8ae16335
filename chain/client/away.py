"""A node that is away: what that means, and waiting for it, which is said once and never lasts longer than a stop."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final, TypeVar

from chain.client.client import ChainClient
from chain.client.errors import ChainError, ErrorKind

T = TypeVar("T")
PAUSE_SECONDS: Final = 0.5
"""Between two tries to reach a node."""
_AWAY: Final = frozenset({ErrorKind.UNAVAILABLE, ErrorKind.TIMEOUT})


def is_away(error: ChainError) -> bool:
    """Tell whether waiting may help: nobody answers, or somebody who fails without a verdict.

    A refusal without a code is no verdict on the question: the node has no state yet, or has failed itself.
    """
    return error.kind in _AWAY or (error.kind is ErrorKind.REFUSED and error.code is None)


class WatchedNode:
    """A node that may go away and come back; ``note`` is told of each once. For one thread."""

    def __init__(self, address: str, stop: Event, note: Callable[[str], None]) -> None:
        """Nobody knows yet whether it answers: ``away`` is True. Nothing is waited for after ``stop``."""
        self.away = True
        self._address, self._stop, self._note = address, stop, note
        self._said = False

    def lost(self, error: ChainError) -> None:
        """Take note that it does not answer."""
        self.away = True
        if not self._said and not self._stop.is_set():
            self._said = True
            self._note(f"waiting for the node at {self._address}: {error.reason}")

    def back(self) -> None:
        """Take note that it answers."""
        self.away = False
        if self._said:
            self._said = False
            self._note(f"the node at {self._address} answers")

    def ask(self, question: Callable[[], T]) -> T | None:
        """Return what ``question`` brings from the node, None while it is away; other ChainErrors are raised."""
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
        """Repeat ``question`` until the node answers it, and return the answer; None where ``stop`` is set before.

        ChainError where something answers that is no node, or says no.
        """
        while not self._stop.is_set():
            try:
                answer = self.ask(question)
            except ChainError:
                # The client was closed because of the stop.
                if self._stop.is_set():
                    break
                raise
            if not self.away:
                return answer
            self._stop.wait(PAUSE_SECONDS)
        return None


@contextmanager
def closed_at(stop: Event, client: ChainClient) -> Iterator[None]:
    """Close ``client`` as soon as ``stop`` is set, so that calls under way end at once; set ``stop`` at the end."""

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
