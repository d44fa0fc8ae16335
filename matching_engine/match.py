"""The auction of a block: orders and bids in, fills and reasons out (design section 4).

All bids of the block are in the book first. Then orders, older blocks first and within a block by a
hash with the seed, each take the cheapest bid that satisfies all their conditions; among equal
prices the lowest hash of seed, order and bid. What a fill takes is gone for the orders after it.
The seed is the **previous** block's hash, so that whoever orders a block's transactions gains
nothing by it: the result does not depend on the order of the arguments.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from domain.hashing import hash_fields
from domain.records import Bid
from matching_engine.book import Asked, Book, Fill, Offered, job_bond
from matching_engine.predicates import PREDICATES, predicates_failed, satisfies

Histogram = tuple[tuple[str, int], ...]
"""How many bids failed on which predicate, in the order of ``PREDICATES``, without zeros.

A bid counts under each predicate that it fails. An empty histogram means that no bid stands.
"""


@dataclass(frozen=True, slots=True)
class Matched:
    """What a batch did. Each order of the batch is in exactly one of the three."""

    fills: tuple[Fill, ...]  # in the order of the auction, which is the order to apply them in
    unmatched: tuple[tuple[bytes, Histogram], ...]  # (order id, why), in the order of the auction
    carried: tuple[bytes, ...]  # orders beyond the cap, oldest first: for the next block


@dataclass(frozen=True, slots=True)
class Quote:
    """What would match now: bids that satisfy the order, best first, and why the others do not."""

    candidates: tuple[Bid, ...]
    histogram: Histogram


def match(
    orders: Iterable[Asked],
    offers: Iterable[Offered],
    seed: bytes,
    clock: int,
    orders_max: int,
) -> Matched:
    """Run the auction of a block over at most ``orders_max`` orders, at ``clock`` (seconds).

    ``seed`` is the previous block's hash. An unmatched order's histogram shows the book at its
    turn. ValueError for an order or a bid that comes twice: a bug of the caller.
    """
    queue = sorted(orders, key=lambda order: (order.opened_height, _order_rank(seed, order)))
    if len({order.order_id for order in queue}) != len(queue):
        raise ValueError("an order is in the batch twice")
    book = Book(offers)
    fills: list[Fill] = []
    unmatched: list[tuple[bytes, Histogram]] = []
    for order in queue[:orders_max]:
        best = next(_ranked(order, book, seed, clock), None)
        if best is None:
            unmatched.append((order.order_id, _histogram(order, book.offers(), clock)))
            continue
        fill = _fill(order, best.bid)
        book.apply_fill(fill)
        fills.append(fill)
    carried = tuple(order.order_id for order in queue[orders_max:])
    return Matched(tuple(fills), tuple(unmatched), carried)


def quote(order: Asked, offers: Iterable[Offered], seed: bytes, clock: int) -> Quote:
    """Return what :func:`match` would choose from if ``order`` came alone: the first candidate.

    The order's id enters the hash for equal prices: a quote before submission stands for its price.
    """
    book = Book(offers)
    candidates = tuple(offer.bid for offer in _ranked(order, book, seed, clock))
    return Quote(candidates, _histogram(order, book.offers(), clock))


def _ranked(order: Asked, book: Book, seed: bytes, clock: int) -> Iterator[Offered]:
    """Yield the offers that satisfy the order, best first, reading no further than is asked for."""
    for level in book.levels(order.price_limit):
        fitting = [offer for offer in level if satisfies(order, offer, clock)]
        yield from sorted(fitting, key=lambda offer: _bid_rank(seed, order, offer))


def _order_rank(seed: bytes, order: Asked) -> bytes:
    return hash_fields("assay/match/order", seed, order.order_id)


def _bid_rank(seed: bytes, order: Asked, offer: Offered) -> bytes:
    return hash_fields("assay/match/bid", seed, order.order_id, offer.bid.id)


def _fill(order: Asked, bid: Bid) -> Fill:
    bond = job_bond(order.work, bid.offer.price, order.job_bond_bps)
    return Fill(order.order_id, bid.id, bid.validator, order.work, bid.offer.price, bond)


def _histogram(order: Asked, offers: Sequence[Offered], clock: int) -> Histogram:
    counts = dict.fromkeys(PREDICATES, 0)
    for offer in offers:
        for name in predicates_failed(order, offer, clock):
            counts[name] += 1
    return tuple((name, count) for name, count in counts.items() if count)
