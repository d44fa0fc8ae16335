"""The books follow the events of a chain."""

from collections.abc import Iterable

from domain.events import Event
from domain.vocabulary import read_event
from localnet.simulator.rebuilt import attest, chain, disputes, market, members, panels, rounds
from localnet.simulator.rebuilt.books import Rebuilt, take

ROWS = (attest, chain, disputes, market, members, panels, rounds)
"""The modules that register what :func:`take` does with each event."""


def follow(books: Rebuilt, events: Iterable[Event]) -> None:
    """Take events in the order of their numbers, and fees with those of their transaction."""
    for event in events:
        if event.type == "tx" and event.get("fee"):
            books.fees += int("".join(filter(str.isdigit, event.get("fee"))))
        change = read_event(event) if event.number else None
        if change is not None:
            books.number += 1
            assert event.number == books.number, f"event {event.number} behind {books.number - 1}"
            take(change, books)
