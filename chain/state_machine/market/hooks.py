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
