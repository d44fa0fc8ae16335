"""Connections that ask for nothing, or do not read the answer, are cut: enough of them would lock all others out."""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from console.stream import STREAM_SECONDS

ANSWER_SECONDS: Final = 30.0
"""How long a connection may take for its one request and the answer, unless it listens to the stream."""
_SPARE_SECONDS: Final = 30.0


class ConsoleConnection(H11Protocol):
    """A connection for one request."""

    def connection_made(self, transport: Any) -> None:
        """Begin to count."""
        super().connection_made(transport)
        loop = asyncio.get_running_loop()
        self._ends = loop.call_later(ANSWER_SECONDS, self._end, STREAM_SECONDS + _SPARE_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count no longer."""
        self._ends.cancel()
        super().connection_lost(exc)

    def _end(self, listens: float) -> None:
        # There is none before a request, whatever its type says.
        asked = self.scope["path"] if self.scope else ""  # type: ignore[redundant-expr]
        if listens and asked == "/stream":
            self._ends = asyncio.get_running_loop().call_later(listens, self._end, 0.0)
        else:
            self.transport.abort()
