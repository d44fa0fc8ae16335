"""Lists of all orders and bids, and lookup of an order or a bid by the first digits of its id."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from chain.client.client import ChainClient
from consumer.errors import ConsumerError, InvalidId
from domain.limits import QUERY_LIMIT_MAX
from domain.market.queries import BidsRequest, OrdersRequest
from domain.market.records import Bid, Order
from matching_engine.conditions import backed_work


class _HasId(Protocol):
    @property
    def id(self) -> bytes: ...


Item = TypeVar("Item", bound=_HasId)


def all_orders(client: ChainClient, consumer: str = "", validator: str = "") -> Iterator[Order]:
    """Yield the orders on the chain.

    If ``consumer`` is given, yield only the orders of this consumer. If ``validator`` is given, yield only the orders
    that have a leg of this validator.
    """

    def page(after: bytes) -> Sequence[Order]:
        return client.query(
            OrdersRequest(consumer=consumer, validator=validator, state=0, limit=QUERY_LIMIT_MAX, after=after)
        ).orders

    return all_pages(page)


def all_bids(client: ChainClient) -> Iterator[Bid]:
    """Yield every bid in the book."""
    return (each.bid for each in backed_bids(client))


@dataclass(frozen=True, slots=True)
class BackedBid:
    """A bid, and the largest work (FLOPs) that its validator's free stake backs at the bid's price.

    An order with more work does not match the bid.
    """

    bid: Bid
    backed: int

    @property
    def id(self) -> bytes:
        """The bid's id."""
        return self.bid.id


def backed_bids(client: ChainClient, validator: str = "") -> Iterator[BackedBid]:
    """Yield each bid in the book with the work that stake backs; if ``validator`` is given, only its bids."""

    def page(after: bytes) -> Sequence[BackedBid]:
        answer = client.query(BidsRequest(validator, QUERY_LIMIT_MAX, after))
        stakes = {backing.validator: backing.free_stake for backing in answer.backings}
        return [BackedBid(bid, backed_work(stakes.get(bid.validator, 0), bid.offer.price)) for bid in answer.bids]

    return all_pages(page)


def most_backed(client: ChainClient, needed: int) -> int:
    """Consider the bids whose stake backs less work than ``needed`` (FLOPs).

    Return the largest work that the stake of one of them backs, or 0 if there is no such bid.
    """
    return max((b.backed for b in backed_bids(client) if b.backed < needed), default=0)


def all_pages(page: Callable[[bytes], Sequence[Item]]) -> Iterator[Item]:
    """Yield the items of all pages of a query.

    ``page`` returns the page after the item with the given id; an empty id stands for the first page.
    """
    after = b""
    while True:
        items = page(after)
        yield from items
        if len(items) < QUERY_LIMIT_MAX:
            return
        after = items[-1].id


def find_order(client: ChainClient, text: str) -> bytes:
    """Return the id of the order whose id begins with ``text``, which has at least 8 hex digits.

    A whole id (64 digits) is returned without asking the chain. Raise InvalidId if ``text`` is not 8 to 64 hex digits,
    and ConsumerError unless exactly one order matches.
    """
    return _find(text, "order", lambda: all_orders(client))


def find_bid(client: ChainClient, text: str) -> bytes:
    """Return the id of the bid whose id begins with ``text``; the same rules hold as in :func:`find_order`."""
    return _find(text, "bid", lambda: all_bids(client))


def _find(text: str, noun: str, listed: Callable[[], Iterable[_HasId]]) -> bytes:
    if not re.fullmatch(r"[0-9a-fA-F]{8,64}", text):
        article = "an" if noun == "order" else "a"
        raise InvalidId(f"{text} is not the id of {article} {noun}", f"an id has 8 to 64 hex digits: assay {noun} list")
    if len(text) == 64:
        return bytes.fromhex(text)
    ids = [item.id for item in listed() if item.id.hex().startswith(text.lower())]
    if len(ids) != 1:
        count = f"{len(ids)} {noun}s have ids that begin" if ids else f"no {noun} has an id that begins"
        remedy = "give more digits of the id" if ids else f"see the ids with assay {noun} list"
        raise ConsumerError(f"{count} with {text}", remedy)
    return ids[0]
