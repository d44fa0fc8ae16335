"""Limits of HTTP connections, so that slow or greedy clients do not keep others out."""

import asyncio
from collections import Counter
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from host.addresses import is_loopback

EXCHANGE_SECONDS: Final = 30.0
"""Longest time (s) from the begin of a connection, or the end of the last answer, to the end of the next answer."""
CONNECTIONS_PER_HOST: Final = 32
"""Largest number of connections of one host; a proxy on this machine may have more."""

_open: Counter[str] = Counter()


class RestConnection(H11Protocol):
    """A connection that is cut off if one exchange takes too long, or if its host has too many."""

    _host = ""
    _ends: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Count the connection, and start the timer."""
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self._host = str(peer[0]) if peer else ""
        _open[self._host] += 1
        if _open[self._host] > CONNECTIONS_PER_HOST and not is_loopback(self._host):
            transport.abort()
            return
        self._start()

    def on_response_complete(self) -> None:
        """Start the timer of the next exchange."""
        self._start()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting the connection."""
        if self._ends is not None:
            self._ends.cancel()
        _open[self._host] -= 1
        if _open[self._host] <= 0:
            del _open[self._host]
        super().connection_lost(exc)

    def _start(self) -> None:
        if self._ends is not None:
            self._ends.cancel()
        self._ends = asyncio.get_running_loop().call_later(EXCHANGE_SECONDS, self.transport.abort)
