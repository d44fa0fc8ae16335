"""The auction of a block: orders and bids in, fills and reasons out (design section 4).

All bids of the block are in the book first. Then orders, older blocks first and within a block by a hash with the seed,
each take the cheapest bid that satisfies all their conditions. Bids that stood before the order's block come first, so
that nobody who saw the order goes below a rival's price; one that was placed or changed since serves it where none of
those does. Among equal prices each validator has one ticket, the hash of seed, order and validator, however many bids
it has. What a fill takes is gone for the orders after it. The seed is the **previous** block's beacon:
whoever orders a block's transactions gains nothing by it, and the result does not depend on the order of the arguments.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import partial
from operator import attrgetter
from typing import Any

from domain.hashing import hash_fields
from domain.market.records import Bid, Histogram
from matching_engine.book import Book, Sold
from matching_engine.conditions import UNBOUNDED
from matching_engine.records import Asked, Fill
from matching_engine.search import Commons, Search


@dataclass(frozen=True, slots=True)
class Matched:
    """What a batch did. Each order of the batch is in exactly one of the three.

    ``fills`` are in the order of the auction, which is the order to apply them in. ``unmatched`` are order ids with the
    reasons, in the order of the auction. ``carried`` are the orders for which no room was left, oldest first.
    """

    fills: tuple[Fill, ...]
    unmatched: tuple[tuple[bytes, Histogram], ...]
    carried: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class SimulatedMatch:
    """What would match now: bids that satisfy the order, best first, and why the others do not."""

    candidates: tuple[Bid, ...]
    histogram: Histogram


@dataclass(frozen=True, slots=True)
class Reads:
    """How much an auction may read beyond what every order takes (:mod:`matching_engine.search`).

    It ends when ``most`` is reached. Orders in ``waited`` leave half of that to the others.
    """

    most: int = UNBOUNDED
    waited: frozenset[bytes] = frozenset()


ANY_READS = Reads()


def match(
    orders: Iterable[Asked],
    book: Book,
    seed: bytes,
    clock: int,
    fills_max: int,
    reads: Reads = ANY_READS,
) -> Matched:
    """Run the auction of a block at ``clock`` (seconds), until ``fills_max`` orders have found a bid.

    ``seed`` is the previous block's beacon. An unmatched order's histogram shows the book at its turn; when the auction
    is over, the book is as it was before. ValueError for an order that comes twice: a bug of the caller.
    """
    queue = sorted(orders, key=lambda order: (order.opened_height, _order_rank(seed, order)))
    if len({order.order_id for order in queue}) != len(queue):
        raise ValueError("an order is in the batch twice")
    book.trim()
    sold, commons = Sold(book), Commons(book, clock)
    numbers: dict[tuple[Any, ...], int] = {}
    # A number for each different thing that is asked: numbers are compared sooner than what they stand for.
    asks = [numbers.setdefault(_asked(order), len(numbers)) for order in queue]
    left = Counter(asks)
    searches: dict[int, Search] = {}
    unmatched: list[tuple[bytes, Histogram]] = []
    carried: list[bytes] = []
    read = read_by_waited = 0
    for order, asked in zip(queue, asks, strict=True):
        waited = order.order_id in reads.waited
        full = len(sold.fills) == fills_max or read >= reads.most
        if full or (waited and 2 * read_by_waited >= reads.most):
            carried.append(order.order_id)
            continue
        search = searches.pop(asked, None) or Search(commons, sold, order)
        best = search.best(partial(_ticket, seed, order))
        if best is None:
            unmatched.append((order.order_id, search.histogram()))
        else:
            sold.take(_fill(order, best.bid))
        taken = search.take_reads() + sold.take_reads()
        read += taken
        if waited:
            read_by_waited += taken
        left[asked] -= 1
        if left[asked]:
            searches[asked] = search
        else:
            search.end()
    for search in searches.values():
        search.end()
    fills = tuple(sold.fills)
    sold.undo()
    return Matched(fills, tuple(unmatched), tuple(carried))


def quote(order: Asked, book: Book, seed: bytes, clock: int) -> SimulatedMatch:
    """Return what :func:`match` would choose from if ``order`` came alone: the first candidate.

    The order's id enters the hash for equal prices: a quote before submission stands for its price.
    """
    book.trim()
    search = Search(Commons(book, clock), Sold(book), order)
    bids = [row.bid for row in search.all()]
    bids.sort(
        key=lambda bid: (
            _is_later(order, bid),
            bid.offer.price,
            _ticket(seed, order, bid.validator),
            bid.id,
        )
    )
    return SimulatedMatch(tuple(bids), search.histogram())


_asked = attrgetter(*(field.name for field in fields(Asked) if field.name != "order_id"))
"""What an order asks for: orders that ask the same share a search."""


def _order_rank(seed: bytes, order: Asked) -> bytes:
    return hash_fields("assay/match/order", seed, order.order_id)


def _is_later(order: Asked, bid: Bid) -> bool:
    return bid.placed_height >= order.opened_height


def _ticket(seed: bytes, order: Asked, validator: str) -> bytes:
    return hash_fields("assay/match/validator", seed, order.order_id, validator)


def _fill(order: Asked, bid: Bid) -> Fill:
    price, tier = bid.offer.price, order.conditions.choose_tier(bid.offer.tiers)
    bond = order.job_bond(price)
    return Fill(
        order_id=order.order_id,
        bid_id=bid.id,
        validator=bid.validator,
        work=order.work,
        price=price,
        job_bond=bond,
        tier=tier,
    )
