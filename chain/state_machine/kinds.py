"""The type for kinds of queue entries. A component declares the kinds that it schedules next to its tables."""

from dataclasses import dataclass

LANES = (0, 1, 2)
"""The lanes of the queue: duties (lots, draws, windows) first, then orders, then housekeeping."""


@dataclass(frozen=True, slots=True)
class Due:
    """A kind of queue entry. Its ``number`` is part of the key of each entry, and never changes.

    ``of_order`` means that the first part of an entry is the id of an order. This order must not be deleted as long as
    the entry exists.
    """

    name: str
    number: int
    lane: int
    of_order: bool = False
