"""Tables of the market: bids and orders, with the indices that the auction and the queries use."""

from dataclasses import dataclass

from chain.state_machine.kinds import Due
from chain.state_machine.store import Overlay
from chain.state_machine.tables import KeySet, Table
from domain.amount import MONEY_MAX
from domain.market.records import Bid, Order


@dataclass(frozen=True, slots=True)
class Load:
    """The capacity and stake that a validator's legs use, and the height of its last withdrawn or worsened bid."""

    validator: str
    # Work of live legs in FLOPs.
    work: int
    # Price in uassay of the work of legs that the validator's stake backs.
    value: int
    worsened_height: int
    # Stake in uassay that votes on slashes may take.
    slash: int = 0


@dataclass(frozen=True, slots=True)
class Sweep:
    """A pass over the open orders that could pay the price of a changed bid. It may take several blocks."""

    # Lowest price of the bids that changed before the pass began (uassay per PFLOP).
    price: int
    # Lowest price of the bids that changed after the pass began; 0 if none did.
    again: int
    # The last order that was tried: the parts of its key in OPEN_ORDERS.
    below: int = 0
    height: int = 0
    order_id: bytes = b""


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold. If leg and round are 0, it keeps an order from settling; otherwise it keeps a round from being
    verified.
    """

    order_id: bytes
    leg: int
    round: int
    reason: str
    since: int
    # Time of the chain clock at which the queue removes the hold.
    until: int

    @property
    def key(self) -> tuple[bytes, int, int, str]:
        """The parts of the key: order, leg, round and reason."""
        return self.order_id, self.leg, self.round, self.reason


@dataclass(frozen=True, slots=True)
class HeldTime:
    """The count and the time of the holds of an order and its rounds."""

    order_id: bytes
    # Number of holds now.
    holds: int = 0
    # Time of the chain clock since which there has been at least one hold.
    since: int = 0
    # Seconds of all earlier pauses together.
    total: int = 0


@dataclass(frozen=True, slots=True)
class OrderAuditors:
    """The validators that could audit an order when it was submitted.

    Later changes of their promises have no effect.
    """

    order_id: bytes
    # Operator addresses, in order.
    operators: tuple[str, ...]


LOADS = Table(0x1B, "load", Load, lambda r: (r.validator,))
BIDS = Table(0x20, "bid", Bid, lambda r: (r.id,))
# Key: validator, bid.
BIDS_OF = KeySet(0x21, "bid of a validator")
HOLDS = Table(0x24, "hold", Hold, lambda r: r.key)
HELD_TIMES = Table(0x25, "held time", HeldTime, lambda r: (r.order_id,))
ORDER_AUDITORS = Table(0x22, "auditors of an order", OrderAuditors, lambda r: (r.order_id,))
# Validators that have accepted a leg of an order. Key: order, validator.
ORDER_PARTIES = KeySet(0x23, "party of an order")
ORDERS = Table(0x28, "order", Order, lambda r: (r.id,))
# Key: consumer, order.
ORDERS_OF_CONSUMER = KeySet(0x29, "order of a consumer")
# Orders of which a validator has or had a leg. Key: validator, order.
ORDERS_OF_VALIDATOR = KeySet(0x2A, "order of a validator")
# Key: MONEY_MAX less the price limit, so that the highest limit comes first; the height that opened the order; order.
OPEN_ORDERS = KeySet(0x2B, "open order")
# Open orders that the auction has not tried yet. Key: the height that opened the order, order.
DIRTY_ORDERS = KeySet(0x2C, "order that was not tried")
SWEEP = Table(0x2D, "sweep", Sweep, lambda _: ())

# Parts of an entry: order.
TIME_TO_LIVE_DUE = Due("time to live", 12, lane=1, of_order=True)
ORDER_DUE = Due("order", 13, lane=1, of_order=True)
CLOSE_DUE = Due("close", 14, lane=1, of_order=True)
# Parts of an entry: order, leg, round, reason.
HOLD_DUE = Due("hold", 15, lane=1, of_order=True)
# Parts of an entry: bid.
BID_DUE = Due("bid", 20, lane=2)


def open_key(order: Order) -> tuple[int, int, bytes]:
    """Return the key of an order in OPEN_ORDERS. The keys sort by price limit, the highest first, and then by waiting
    time, the longest first.
    """
    return MONEY_MAX - order.price_limit, order.opened_height, order.id


def get_load(store: Overlay, validator: str) -> Load:
    """Return the load of a validator; an empty one if it has none."""
    return LOADS.get(store, validator) or Load(validator=validator, work=0, value=0, worsened_height=0)
