"""Time limits of connections.

Without these limits, clients that send no request or read no answer would block all other clients.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from console.stream import STREAM_SECONDS

ANSWER_SECONDS: Final = 30.0
"""Seconds that a connection may take for its one request and the answer, unless it listens to the stream."""
_SPARE_SECONDS: Final = 30.0


class ConsoleConnection(H11Protocol):
    """A connection for one request, which is cut off at its time limit."""

    def connection_made(self, transport: Any) -> None:
        """Start the timer."""
        super().connection_made(transport)
        loop = asyncio.get_running_loop()
        self._ends = loop.call_later(ANSWER_SECONDS, self._end, STREAM_SECONDS + _SPARE_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer."""
        self._ends.cancel()
        super().connection_lost(exc)

    def _end(self, listens: float) -> None:
        # Before a request the scope is None, although its type does not allow that.
        path = self.scope["path"] if self.scope else ""  # type: ignore[redundant-expr]
        if listens and path == "/stream":
            self._ends = asyncio.get_running_loop().call_later(listens, self._end, 0.0)
        else:
            self.transport.abort()
