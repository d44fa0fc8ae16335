"""A node that does not answer: said once, waited for, and said once more when it is back."""

import logging
from collections.abc import Callable
from threading import Event, Thread

from chain.client.away import is_away
from chain.client.client import ChainClient
from chain.client.errors import ChainError, ErrorKind

_log = logging.getLogger("assay.validator")
PAUSE_SECONDS = 1.0
"""Between two tries to reach the node."""


class WrongChain(ChainError):
    """The node is of another chain than the one that this home has worked for."""

    def __init__(self, address: str, chain_id: str, known: str) -> None:
        """Name the node and both chains."""
        super().__init__(
            ErrorKind.BAD_RESPONSE,
            f"the node at {address} is of {chain_id}, and this home has worked for {known}",
            "give a node of that chain (--node), or another --home",
        )


class Node:
    """The node of a daemon: whether it answers, and what is said about that. For one thread."""

    def __init__(self, client: ChainClient, stop: Event) -> None:
        """Watch the node of ``client``, which is closed when ``stop`` is set: nothing waits longer than that."""
        self._client, self._stop = client, stop
        self.away = True  # nobody knows yet
        self._said = False

        def close() -> None:
            stop.wait()
            client.close()

        Thread(target=close, name="stop", daemon=True).start()

    def lost(self, error: ChainError) -> None:
        """Take note that the node does not answer, and pause."""
        self.away = True
        if not self._said and not self._stop.is_set():
            self._said = True
            _log.warning("waiting for the node at %s: %s", self._client.address, error.reason)
        self._stop.wait(PAUSE_SECONDS)

    def back(self) -> None:
        """Take note that the node answers."""
        self.away = False
        if self._said:
            self._said = False
            _log.info("the node at %s answers", self._client.address)

    def wait_for(self, step: Callable[[], None]) -> bool:
        """Repeat ``step`` until the node answers it; False when stopped before. Other ChainErrors are raised."""
        while not self._stop.is_set():
            try:
                step()
            except ChainError as error:
                if self._stop.is_set():
                    return False
                if not is_away(error):
                    raise
                self.lost(error)
            else:
                self.back()
                return True
        return False
