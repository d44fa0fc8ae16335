"""What a daemon does about a node that is not there: it waits at the start, and never waits longer than its stop."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final, TypeVar

from chain.client.client import ChainClient
from chain.client.errors import ChainError, ErrorKind

T = TypeVar("T")
_PAUSE_SECONDS: Final = 0.5
_AWAY: Final = frozenset({ErrorKind.UNAVAILABLE, ErrorKind.TIMEOUT})


def is_away(error: ChainError) -> bool:
    """Tell whether waiting may help: nobody answers, or somebody who refuses without a code (it has no state yet)."""
    return error.kind in _AWAY or (error.kind is ErrorKind.REFUSED and error.code is None)


def wait_for_node(
    client: ChainClient, ask: Callable[[], T], stop: Event, note: Callable[[str], None]
) -> T | None:
    """Return what ``ask`` brings from the client's node, as soon as it answers; None where ``stop`` is set before.

    ``note`` is told once that there is something to wait for. ChainError where something answers
    that is no node, or says no.
    """
    told = False
    while not stop.is_set():
        try:
            return ask()
        except ChainError as error:
            if stop.is_set():
                break
            if not is_away(error):
                raise
            if not told:
                note(f"waiting for a node: {error.reason}")
            told = True
        stop.wait(_PAUSE_SECONDS)
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
