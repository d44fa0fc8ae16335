"""The auction of a block, which turns orders and bids into fills, and into reasons for unmatched orders (design section
4).

The book holds all bids of the block before the auction begins. Orders of older blocks come first. The orders of one
block are sorted by a hash of the seed and the order's id. Each order takes the cheapest bid that satisfies all its
conditions. Bids that stood before the order's block come first, so that a validator that saw the order cannot undercut
a rival. A bid that was placed or changed later is taken only if none of the earlier bids fits. Among equal prices the
lowest ticket wins. A validator has one ticket, the hash of seed, order and validator, however many bids it has. A fill
takes capacity, bond and stake, which are then not available to later orders. The seed is the **previous** block's
beacon, so a proposer gains nothing if it chooses the order of its block's transactions. The result does not depend on
the order of the arguments.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from operator import attrgetter
from typing import Any

from domain.hashing import hash_fields
from domain.market.records import Bid, Histogram
from matching_engine.book import Book, Sold
from matching_engine.conditions import UNBOUNDED
from matching_engine.records import AuctionOrder, Fill, StandingBid
from matching_engine.search import Commons, Search


@dataclass(frozen=True, slots=True)
class Matched:
    """The results of an auction. Each order of the batch is in exactly one of the three fields.

    ``fills`` are in the order of the auction, in which they must be applied. ``unmatched`` are order ids with the
    reasons, in the order of the auction. ``carried`` are the ids of orders that the auction did not reach before it
    came to one of its limits, oldest first.
    """

    fills: tuple[Fill, ...]
    unmatched: tuple[tuple[bytes, Histogram], ...]
    carried: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class SimulatedMatch:
    """The result of a quote: the bids that satisfy the order, best first, and the reasons why the other bids do not
    satisfy it.
    """

    candidates: tuple[Bid, ...]
    histogram: Histogram


@dataclass(frozen=True, slots=True)
class Reads:
    """The limit on the reads of one auction. The reads that every order needs are not counted
    (:mod:`matching_engine.search`).

    The auction ends at ``most`` reads. The orders in ``waited`` together may use at most half of these reads.
    """

    most: int = UNBOUNDED
    waited: frozenset[bytes] = frozenset()


ANY_READS = Reads()

Related = Callable[[str], frozenset[str]]
"""Returns the validators that may not serve a replica beside a validator."""


def _alone(_: str) -> frozenset[str]:
    return frozenset()


def match(
    orders: Iterable[AuctionOrder],
    book: Book,
    seed: bytes,
    clock: int,
    fills_max: int,
    reads: Reads = ANY_READS,
    related: Related = _alone,
) -> Matched:
    """Run the auction of a block at ``clock`` (seconds), until ``fills_max`` orders have a bid.

    ``seed`` is the previous block's beacon. The histogram of an unmatched order counts the bids as they were when the
    auction came to that order. After the auction the book is as it was before. Raise ValueError if an order comes
    twice, which is a bug of the caller.

    An order with replicas takes a bid for each of them. The first takes the best bid; each other one takes the best bid
    of a validator that is none of the winners before it, and not related to one.
    """
    queue = sorted(orders, key=lambda order: (order.opened_height, _order_rank(seed, order)))
    if len({order.order_id for order in queue}) != len(queue):
        raise ValueError("an order is in the batch twice")
    book.trim()
    sold = Sold(book)
    commons = Commons(book, clock)
    numbers: dict[tuple[Any, ...], int] = {}
    # Orders with the same requirements get the same number, because numbers are faster to compare than the tuples.
    asks = [numbers.setdefault(_asked(order), len(numbers)) for order in queue]
    waiting = Counter(asks)
    searches: dict[int, Search] = {}
    unmatched: list[tuple[bytes, Histogram]] = []
    carried: list[bytes] = []
    read = read_by_waited = 0
    full = False
    for order, asked in zip(queue, asks, strict=True):
        waited = order.order_id in reads.waited
        # An order with its replicas may be more than all fills of a block, and is then the only one.
        sells = len(sold.fills) + (len(order.replicas) if sold.fills else 0)
        full = full or sells >= fills_max or read >= reads.most
        if full or (waited and 2 * read_by_waited >= reads.most):
            carried.append(order.order_id)
            continue
        search = searches.pop(asked, None) or Search(commons, sold, order)
        best = search.best(partial(_ticket, seed, order))
        more = _More()
        if best is not None:
            more = _find_more(commons, sold, order, best, seed, related)
        if best is None or more.failed is not None:
            unmatched.append((order.order_id, search.histogram() if more.failed is None else more.failed))
        else:
            for order_id, bid in zip((order.order_id, *order.replicas), (best.bid, *more.bids), strict=True):
                sold.take(_fill(order, order_id, bid))
        reads_of_order = search.take_reads() + sold.take_reads() + more.reads
        read += reads_of_order
        if waited:
            read_by_waited += reads_of_order
        waiting[asked] -= 1
        if waiting[asked]:
            searches[asked] = search
        else:
            search.end()
    for search in searches.values():
        search.end()
    fills = tuple(sold.fills)
    sold.undo()
    return Matched(fills, tuple(unmatched), tuple(carried))


@dataclass(slots=True)
class _More:
    """The bids for the replicas of an order; if one of them found none, ``failed`` has the reasons."""

    bids: list[Bid] = field(default_factory=list)
    failed: Histogram | None = None
    reads: int = 0


def _find_more(
    commons: Commons, sold: Sold, order: AuctionOrder, best: StandingBid, seed: bytes, related: Related
) -> _More:
    """Find a bid for each replica of an order. Nothing is sold meanwhile, since no validator gets two of them."""
    more = _More()
    winner = best.bid.validator
    taken = set(order.excluded)
    for _ in order.replicas:
        taken.update((winner, *related(winner)))
        search = Search(commons, sold, replace(order, excluded=tuple(sorted(taken))))
        found = search.best(partial(_ticket, seed, order))
        if found is None:
            more.failed = search.histogram()
        more.reads += search.take_reads()
        search.end()
        if found is None:
            break
        more.bids.append(found.bid)
        winner = found.bid.validator
    return more


def quote(order: AuctionOrder, book: Book, seed: bytes, clock: int) -> SimulatedMatch:
    """Return the candidates for ``order``; :func:`match` would choose the first one if this were the only order.

    If validators have equal prices, the order's id decides between them. The order in a quote has another id than the
    order that is submitted later. So a quote predicts the price, but not the validator.
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


_asked = attrgetter(*(field.name for field in fields(AuctionOrder) if field.name != "order_id"))
"""Function that returns all fields of an order except its id. Orders with equal fields share a search."""


def _order_rank(seed: bytes, order: AuctionOrder) -> bytes:
    return hash_fields("assay/match/order", seed, order.order_id)


def _is_later(order: AuctionOrder, bid: Bid) -> bool:
    return bid.placed_height >= order.opened_height


def _ticket(seed: bytes, order: AuctionOrder, validator: str) -> bytes:
    return hash_fields("assay/match/validator", seed, order.order_id, validator)


def _fill(order: AuctionOrder, order_id: bytes, bid: Bid) -> Fill:
    price = bid.offer.price
    return Fill(
        order_id=order_id,
        bid_id=bid.id,
        validator=bid.validator,
        work=order.work,
        price=price,
        job_bond=order.job_bond(price),
        tier=order.conditions.choose_tier(bid.offer.tiers),
        first=order.order_id,
    )
