"""What the market keeps: bids and orders, with the indices that the auction and the queries walk."""

from dataclasses import dataclass

from chain.state_machine.kinds import Due
from chain.state_machine.store import Overlay
from chain.state_machine.tables import KeySet, Table
from domain.amount import MONEY_MAX
from domain.market.records import Bid, Order


@dataclass(frozen=True, slots=True)
class Load:
    """What a validator's live legs take: the capacity that is reserved (FLOPs), and its value (uassay).

    And the last block in which it took back or worsened a bid.
    """

    validator: str
    work: int
    value: int
    worsened_height: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """A pass over the open orders that would pay what changed in the book; it may take several blocks."""

    # The cheapest price of what changed (uassay per PFLOP).
    price: int
    # The cheapest of what changed since the pass began; 0 where nothing did.
    again: int
    # The last order that was tried: what its limit lacks of the highest, the height that opened it, its id.
    below: int = 0
    height: int = 0
    order_id: bytes = b""


@dataclass(frozen=True, slots=True)
class Hold:
    """A reason for which an order (leg and round 0) does not settle, or a round is not verified."""

    order_id: bytes
    leg: int
    round: int
    reason: str
    since: int
    # When the queue takes it off.
    until: int

    @property
    def key(self) -> tuple[bytes, int, int, str]:
        """The order, the leg, the round and the reason."""
        return self.order_id, self.leg, self.round, self.reason


@dataclass(frozen=True, slots=True)
class HeldTime:
    """How many holds an order and its rounds have, since when at least one, and the seconds of those before."""

    order_id: bytes
    holds: int = 0
    since: int = 0
    total: int = 0


LOADS = Table(0x1B, "load", Load, lambda r: (r.validator,))
BIDS = Table(0x20, "bid", Bid, lambda r: (r.id,))
# Validator, bid.
BIDS_OF = KeySet(0x21, "bid of a validator")
HOLDS = Table(0x24, "hold", Hold, lambda r: r.key)
HELD_TIMES = Table(0x25, "held time", HeldTime, lambda r: (r.order_id,))
ORDERS = Table(0x28, "order", Order, lambda r: (r.id,))
# Consumer, order.
ORDERS_OF_CONSUMER = KeySet(0x29, "order of a consumer")
# Validator, order: those that it had a leg of.
ORDERS_OF_VALIDATOR = KeySet(0x2A, "order of a validator")
# What its price limit lacks of the highest, the height that opened it, order.
OPEN_ORDERS = KeySet(0x2B, "open order")
# Open orders that the auction has not tried yet: the height that opened it, order.
DIRTY_ORDERS = KeySet(0x2C, "order that was not tried")
SWEEP = Table(0x2D, "sweep", Sweep, lambda _: ())

# Order.
TIME_TO_LIVE_DUE = Due("time to live", 12, lane=1, of_order=True)
ORDER_DUE = Due("order", 13, lane=1, of_order=True)
CLOSE_DUE = Due("close", 14, lane=1, of_order=True)
# Order, leg, round, reason.
HOLD_DUE = Due("hold", 15, lane=1, of_order=True)
# Bid.
BID_DUE = Due("bid", 20, lane=2)


def open_key(order: Order) -> tuple[int, int, bytes]:
    """Return the key of an open order in the book: who would pay most comes first, then who waits longest."""
    return MONEY_MAX - order.price_limit, order.opened_height, order.id


def get_load(store: Overlay, validator: str) -> Load:
    """Return what a validator's live legs take."""
    return LOADS.get(store, validator) or Load(validator=validator, work=0, value=0, worsened_height=0)
