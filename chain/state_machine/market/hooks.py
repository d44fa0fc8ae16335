"""Hooks of the market: what the components above do with an order that is sold, or whose time is over."""

from dataclasses import dataclass

from chain.state_machine.hook import Hook
from domain.market.records import Bid, Order


@dataclass(frozen=True, slots=True)
class Match:
    """An order that the auction sold to a bid: at which price, with which job bond, in which tier."""

    order: Order
    bid: Bid
    price: int
    job_bond: int
    tier: str


MATCHED: Hook[[Match], None] = Hook("matched")
"""An order left the book because it was sold; what serves it opens."""

OVERDUE: Hook[[Order], None] = Hook("overdue")
"""The deadline of an order that is matched or runs has passed."""

WEIGH_OVERDUE: Hook[[Order], int] = Hook("weigh overdue")
"""Gas of ending what serves an order whose deadline has passed."""

RELEASED: Hook[[bytes], None] = Hook("released")
"""A hold of this order or of one of its rounds ended: what waited for it can go on."""

STOOD_STILL: Hook[[Order, int], None] = Hook("stood still")
"""An order stood still for so many seconds, by which the deadlines of what serves it move."""
