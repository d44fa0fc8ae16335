"""Events that the market component emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change, Counts
from domain.market.records import Bid, Order


@dataclass(frozen=True, slots=True)
class BidPlaced(Change):
    """A bid was added to the book."""

    KIND: ClassVar[str] = "bid.placed"
    bid: bytes
    validator: str
    price: int
    record: Bid


@dataclass(frozen=True, slots=True)
class BidChanged(Change):
    """A bid got a new price, capacity and expiry."""

    KIND: ClassVar[str] = "bid.changed"
    bid: bytes
    validator: str
    price: int
    capacity: int
    expires_at: int
    placed_height: int


@dataclass(frozen=True, slots=True)
class BidClosed(Change):
    """A bid left the book: it expired, was withdrawn or declined, or its validator did not accept a match in time."""

    KIND: ClassVar[str] = "bid.closed"
    bid: bytes
    validator: str
    reason: str


@dataclass(frozen=True, slots=True)
class OrderSubmitted(Change):
    """An order was submitted and opened, and its deposit was locked. ``auditors`` are the validators that may audit it.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderSubmitted):
                print(event.consumer, event.deposit)
    """

    KIND: ClassVar[str] = "order.submitted"
    order: bytes
    consumer: str
    deposit: int
    auditors: tuple[str, ...]
    record: Order


@dataclass(frozen=True, slots=True)
class OrderOpened(Change):
    """An order was added to the book, for the first time or again. Its time in the book ends at ``expires_at`` (chain
    clock).

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
    """A validator can no longer win an order, because it declined or failed the order, or because no one could audit
    the rounds that it would close.
    """

    KIND: ClassVar[str] = "order.excluded"
    order: bytes
    validator: str


@dataclass(frozen=True, slots=True)
class OrderHeld(Change):
    """An order or one of its rounds is held for a reason, at most until ``until`` (chain clock). If the whole order is
    held, ``leg`` and ``round`` are 0.
    """

    KIND: ClassVar[str] = "order.held"
    order: bytes
    leg: int
    round: int
    reason: str
    until: int


@dataclass(frozen=True, slots=True)
class OrderReleased(Change):
    """An order or one of its rounds is no longer held for a reason. If the whole order was held, ``leg`` and ``round``
    are 0.
    """

    KIND: ClassVar[str] = "order.released"
    order: bytes
    leg: int
    round: int
    reason: str


@dataclass(frozen=True, slots=True)
class DeadlineMoved(Change):
    """An order's deadline moved by the time for which the order was held, or for which its panels waited for audit
    room.
    """

    KIND: ClassVar[str] = "order.deadline_moved"
    order: bytes
    deadline: int


@dataclass(frozen=True, slots=True)
class OrderUnmatched(Change):
    """The auction found no bid for an order. ``failed`` has the number of bids that fail each condition.

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
    """An order closed with a ``CloseReason``.

    ``failed`` has the number of bids that failed each condition in its last auction.

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
