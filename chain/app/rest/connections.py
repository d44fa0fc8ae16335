"""Limits of HTTP connections, so that slow or greedy clients do not keep others out."""

import asyncio
from collections import Counter
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from host.addresses import is_loopback

EXCHANGE_SECONDS: Final = 30.0
"""Longest time (s) from the begin of a connection, or the end of the last answer, to the end of the next answer."""
CONNECTIONS_PER_HOST: Final = 32
"""Largest number of connections of one host; a proxy on this machine may have more."""
CONNECTIONS_MAX: Final = 256
_IDLE_SECONDS: Final = 15
_HEAD_BYTES_MAX: Final = 16 * 1024

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


def make_config(app: Any) -> uvicorn.Config:
    """Return the configuration of a server of an HTTP application for strangers."""
    return uvicorn.Config(
        app,
        http=RestConnection,
        loop="asyncio",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",  # strangers send requests that are not HTTP
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=_HEAD_BYTES_MAX,
    )
