"""A follower of the chain's numbered events, without gaps, across restarts of the node and of the follower."""

from collections.abc import Iterator
from dataclasses import replace
from threading import Event
from typing import Final

from chain.client.away import is_away
from chain.client.client import ChainClient
from chain.client.errors import ChainError, ErrorKind
from domain.limits import EVENTS_LIMIT_MAX
from domain.node.queries import EventsRequest, LoggedEvent

_LONGEST_PAUSE: Final = 5.0
_SEARCH_SECONDS: Final = 1.0
"""Time (s) between two searches for new events; a search reads events that do not fit, so it costs more than a page."""


def follow_events(client: ChainClient, since: int, stop: Event, *, poll_seconds: float = 0.25) -> Iterator[LoggedEvent]:
    """Yield every event from number ``since`` on, in order, until ``stop`` is set.

    If the node does not answer, it is asked again, after pauses that grow. Raise ChainError if a number is missing. The
    event log has no gaps, so the node has then lost events, and the caller must read the state again.
    """
    pause = poll_seconds
    while not stop.is_set():
        try:
            page = client.query(EventsRequest(since, EVENTS_LIMIT_MAX))
        except ChainError as error:
            if not is_away(error):
                raise
            pause = min(pause * 2, _LONGEST_PAUSE)
            stop.wait(pause)
            continue
        pause = poll_seconds
        for event in page.events:
            if event.number != since:
                raise ChainError(
                    ErrorKind.BAD_RESPONSE,
                    f"event {since} is missing: the node continues with {event.number}",
                    "read the state again, or follow another node",
                )
            yield event
            since += 1
            if stop.is_set():
                return
        if not page.events:
            if page.next > since:
                raise ChainError(
                    ErrorKind.BAD_RESPONSE,
                    f"event {since} is missing: the node only has events up to {page.next - 1}",
                    "read the state again, or follow another node",
                )
            stop.wait(poll_seconds)


def search_events(client: ChainClient, request: EventsRequest, stop: Event | None = None) -> Iterator[LoggedEvent]:
    """Yield the events that fit a request, in order: at most ``limit``, or without an end until ``stop`` is set."""
    left = request.limit or EVENTS_LIMIT_MAX
    while stop is None or not stop.is_set():
        page = client.query(replace(request, limit=EVENTS_LIMIT_MAX if stop else left))
        yield from page.events
        left -= len(page.events)
        request = replace(request, since=page.resume)
        if page.resume < page.next and (stop or left):
            continue
        if stop is None:
            return
        stop.wait(_SEARCH_SECONDS)
