"""A search in the event log by order, account and type.

The log has no index: an index would cost two more writes per event in every block. A search looks at the stored bytes
of a bounded number of events, and decodes only those that contain the wanted text. The caller continues with
``resume``, so no event is missed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

from chain.app.storage import decode_event
from domain.node.queries import EventsRequest, EventsResponse, LoggedEvent

EVENTS_READ_MAX = 10_000
"""Largest number of events that one search reads, which takes about 20 ms."""

Rows = Callable[[int, int], Iterator[tuple[int, bytes]]]
"""(first number, number after the last) -> numbers and bytes of stored events."""


@dataclass(frozen=True, slots=True)
class EventSearch:
    """The conditions of a request for events."""

    since: int
    values: tuple[str, ...]  # each must be the value of an attribute
    type: str

    @classmethod
    def of(cls, request: EventsRequest) -> Self | None:
        """Return the search of a request, or None if the request has no conditions."""
        values = tuple(value for value in (request.order_id.hex(), request.account) if value)
        return cls(max(request.since, 1), values, request.type) if values or request.type else None

    def run(self, rows: Rows, until: int, limit: int) -> EventsResponse:
        """Return the first ``limit`` events that fit, and the number from which to continue."""
        stop = min(until, self.since + EVENTS_READ_MAX)
        needles = [value.encode() for value in self.values]
        events: list[LoggedEvent] = []
        for number, data in rows(self.since, stop):
            if all(needle in data for needle in needles) and self._fits(event := decode_event(number, data)):
                events.append(event)
                if len(events) == limit:
                    return EventsResponse(tuple(events), until, number + 1)
        return EventsResponse(tuple(events), until, max(stop, min(self.since, until)))

    def _fits(self, event: LoggedEvent) -> bool:
        kind = self.type
        if kind and event.type != kind and not (kind.endswith(".") and event.type.startswith(kind)):
            return False
        # An attribute may be a list of values, such as the seats of a panel, or the JSON of a record.
        return all(any(value in text for _, text in event.attributes) for value in self.values)
