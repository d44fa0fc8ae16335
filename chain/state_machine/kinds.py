"""Kinds of queue entries; the component that schedules entries of a kind declares the kind beside its tables."""

from dataclasses import dataclass

LANES = (0, 1, 2)
"""The lanes of the queue: duties (lots, draws, windows) first, then orders, then housekeeping."""


@dataclass(frozen=True, slots=True)
class Due:
    """A kind of queue entry; ``number`` is in the key of each entry and never changes.

    ``of_order`` means that the first part of an entry is the id of an order, which must not be deleted before the
    entry.
    """

    name: str
    number: int
    lane: int
    of_order: bool = False
