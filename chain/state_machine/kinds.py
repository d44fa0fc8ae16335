"""A kind of entry of the queue, as a value: the component that schedules such entries declares it beside its tables."""

from dataclasses import dataclass

LANES = (0, 1, 2)
"""Duties (lots, draws, windows) first, then orders, then housekeeping."""


@dataclass(frozen=True, slots=True)
class Due:
    """A kind of entry; ``number`` is in the key of each entry and never changes.

    ``of_order``: the first part of an entry is the id of an order, which the entry keeps from being forgotten.
    """

    name: str
    number: int
    lane: int
    of_order: bool = False
