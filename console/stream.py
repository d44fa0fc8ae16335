"""The stream of events to open pages.

After a lost connection, a page continues with the event after the last one that it got.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from starlette.concurrency import run_in_threadpool

from console.index.records import order_of
from console.known import NodeState
from domain.vocabulary import read_event

STREAMS_MAX: Final = 32
"""Maximum number of pages that listen at once."""
STREAM_SECONDS: Final = 900.0
"""Seconds after which a stream ends; the browser then connects again by itself."""
_PAGE: Final = 200
_ALIVE_SECONDS: Final = 10.0


class Streams:
    """The streams of all pages that listen."""

    def __init__(self, known: NodeState, head: Callable[[], dict[str, Any]]) -> None:
        """Create the object without streams.

        ``head`` returns the chain's position, which a stream sends after new events.
        """
        self._known = known
        self._index = known.index
        self._head = head
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Event] = set()
        self._closed = False
        known.listen(self._wake)

    @property
    def full(self) -> bool:
        """True if the maximum number of pages is listening."""
        return len(self._waiting) >= STREAMS_MAX

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        """Make all streams look for new events. Other threads call this method."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        for event in self._waiting:
            event.set()

    async def lines(self, since: int) -> AsyncIterator[str]:
        """Yield the text of a stream: each event from number ``since`` on, and the chain's position after them."""
        self._loop = asyncio.get_running_loop()
        news = asyncio.Event()
        self._waiting.add(news)
        ends = time.monotonic() + STREAM_SECONDS
        trace_changes = self._index.trace_changes(0)[1]
        try:
            # Milliseconds until a page that lost its connection connects again.
            yield "retry: 1000\n\n"
            # The index was rebuilt and has fewer events than the page, so the page has to be loaded again.
            if since > self._known.snapshot.next_event:
                yield _line("again", {})
                since = self._known.snapshot.next_event
            while not self._closed and time.monotonic() < ends:
                news.clear()
                events = await run_in_threadpool(self._index.events, since, _PAGE)
                for event in events:
                    order_id = order_of(read_event(event))
                    value = {
                        "number": event.number,
                        "height": event.height,
                        "kind": event.type,
                        "order": order_id.hex() if order_id else "",
                    }
                    yield _line("change", value, event.number)
                    since = event.number + 1
                if len(events) == _PAGE:
                    continue
                orders, trace_changes = await run_in_threadpool(self._index.trace_changes, trace_changes)
                for order in orders:
                    yield _line("trace", {"order": order.hex()})
                yield _line("head", self._head())
                try:
                    await asyncio.wait_for(news.wait(), _ALIVE_SECONDS)
                except TimeoutError:
                    continue
        finally:
            self._waiting.discard(news)


def _line(kind: str, value: object, number: int = 0) -> str:
    id_line = f"id: {number}\n" if number else ""
    return f"{id_line}event: {kind}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n"
