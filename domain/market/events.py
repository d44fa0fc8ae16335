"""Events that the market component emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change, Counts
from domain.market.records import Bid, Order


@dataclass(frozen=True, slots=True)
class BidPlaced(Change):
    """A bid is in the book."""

    KIND: ClassVar[str] = "bid.placed"
    bid: bytes
    validator: str
    price: int
    record: Bid


@dataclass(frozen=True, slots=True)
class BidChanged(Change):
    """A bid has a new price, capacity and expiry."""

    KIND: ClassVar[str] = "bid.changed"
    bid: bytes
    validator: str
    price: int
    capacity: int
    expires_at: int
    placed_height: int


@dataclass(frozen=True, slots=True)
class BidClosed(Change):
    """A bid left the book: expired, withdrawn, declined or not accepted."""

    KIND: ClassVar[str] = "bid.closed"
    bid: bytes
    validator: str
    reason: str


@dataclass(frozen=True, slots=True)
class OrderSubmitted(Change):
    """An order is there, and its deposit locked; it opens in the same moment.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderSubmitted):
                print(event.consumer, event.deposit)
    """

    KIND: ClassVar[str] = "order.submitted"
    order: bytes
    consumer: str
    deposit: int
    record: Order


@dataclass(frozen=True, slots=True)
class OrderOpened(Change):
    """An order is in the book, for the first time or again, until ``expires_at`` on the chain clock.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderOpened):
                print(event.price_limit, event.expires_at)
    """

    KIND: ClassVar[str] = "order.opened"
    order: bytes
    consumer: str
    work: int
    price_limit: int
    deposit: int
    leg: int
    opened_at: int
    opened_height: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class OrderExcluded(Change):
    """A validator gets no match with an order any more: it declined or failed it, or nobody could audit it."""

    KIND: ClassVar[str] = "order.excluded"
    order: bytes
    validator: str


@dataclass(frozen=True, slots=True)
class OrderHeld(Change):
    """An order (leg and round 0), or a round of it, is held for a reason until a time on the chain clock at most."""

    KIND: ClassVar[str] = "order.held"
    order: bytes
    leg: int
    round: int
    reason: str
    until: int


@dataclass(frozen=True, slots=True)
class OrderReleased(Change):
    """An order (leg and round 0), or a round of it, is no longer held for a reason."""

    KIND: ClassVar[str] = "order.released"
    order: bytes
    leg: int
    round: int
    reason: str


@dataclass(frozen=True, slots=True)
class DeadlineMoved(Change):
    """An order stood still, because its panels waited for audit room or it was held: it has that much more time."""

    KIND: ClassVar[str] = "order.deadline_moved"
    order: bytes
    deadline: int


@dataclass(frozen=True, slots=True)
class OrderUnmatched(Change):
    """The auction found none, with one attribute for each condition that bids failed on.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderUnmatched):
                print(dict(event.failed))
    """

    KIND: ClassVar[str] = "order.unmatched"
    order: bytes
    failed: Counts


@dataclass(frozen=True, slots=True)
class OrderClosed(Change):
    """An order ended with a ``CloseReason``; ``failed`` is what its last auction failed on.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderClosed):
                print(assay.CloseReason(event.reason).name, event.refunded)
    """

    KIND: ClassVar[str] = "order.closed"
    order: bytes
    reason: int
    refunded: int
    failed: Counts
