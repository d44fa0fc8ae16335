"""What the market keeps: bids, orders and their attempts, with the indices that the auction and the queries walk."""

from dataclasses import dataclass

from chain.state_machine.store import Overlay
from chain.state_machine.tables import Index, Table
from domain.records import Assignment, Bid, Order


@dataclass(frozen=True, slots=True)
class Load:
    """What a validator's live assignments take: the capacity that is reserved (FLOPs), and its value (uassay)."""

    validator: str
    work: int
    value: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """A pass over all open orders because the book changed; it may take several blocks."""

    # Of the last open order that was tried, with its id.
    height: int
    order_id: bytes
    # The book changed since the pass began.
    again: bool


LOADS = Table(0x1B, "load", Load, lambda r: (r.validator,))
BIDS = Table(0x20, "bid", Bid, lambda r: (r.id,))
# Validator, bid.
BIDS_OF = Index(0x21, "bid of a validator")
ORDERS = Table(0x28, "order", Order, lambda r: (r.id,))
# Consumer, order.
ORDERS_OF_CONSUMER = Index(0x29, "order of a consumer")
# Validator, order: those that it had an assignment of.
ORDERS_OF_VALIDATOR = Index(0x2A, "order of a validator")
# The height that opened it, order.
OPEN_ORDERS = Index(0x2B, "open order")
# Open orders that the auction has not tried yet: the height that opened it, order.
DIRTY_ORDERS = Index(0x2C, "order that was not tried")
SWEEP = Table(0x2D, "sweep", Sweep, lambda _: ())
ASSIGNMENTS = Table(0x30, "assignment", Assignment, lambda r: (r.order_id, r.attempt))
# Validator, order, attempt.
LIVE_ASSIGNMENTS = Index(0x31, "live assignment")


def get_load(store: Overlay, validator: str) -> Load:
    """Return what a validator's live assignments take."""
    return LOADS.get(store, validator) or Load(validator, 0, 0)
