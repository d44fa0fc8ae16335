"""Hooks of the market, through which later components act on an order that is sold, overdue, held or released."""

from dataclasses import dataclass

from chain.state_machine.hook import Hook
from domain.market.records import Bid, Order


@dataclass(frozen=True, slots=True)
class Match:
    """A sale of an order to a bid, with the price (uassay per PFLOP), the job bond (uassay) and the tier."""

    order: Order
    bid: Bid
    price: int
    job_bond: int
    tier: str


MATCHED: Hook[[Match], None] = Hook("matched")
"""Called when an order left the book because it was sold, to open its leg."""

ENDED: Hook[[Order], None] = Hook("ended")
"""Called when the end of an order is decided; the record is that from before."""

OVERDUE: Hook[[Order], None] = Hook("overdue")
"""Called when the deadline of a matched or running order has passed."""

RELEASED: Hook[[bytes], None] = Hook("released")
"""Called when a hold of this order or of one of its rounds ended, so that waiting work can go on."""

PAUSE_ENDED: Hook[[Order, int], None] = Hook("pause ended")
"""Called after an order was paused for a number of seconds, to move the deadlines of its leg."""
