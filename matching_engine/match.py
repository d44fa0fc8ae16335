"""The auction of a block: orders and bids in, fills and reasons out (design section 4).

All bids of the block are in the book first. Then orders, older blocks first and within a block by a hash with the seed,
each take the cheapest bid that satisfies all their conditions. Bids that stood before the order's block come first, so
that nobody who saw the order goes below a rival's price; one that was placed or changed since serves it where none of
those does. Among equal prices each validator has one ticket, the hash of seed, order and validator, however many bids
it has. What a fill takes is gone for the orders after it. The seed is the **previous** block's beacon:
whoever orders a block's transactions gains nothing by it, and the result does not depend on the order of the arguments.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from domain.hashing import hash_fields
from domain.market.records import Bid, Histogram
from matching_engine.book import Book
from matching_engine.conditions import fitting
from matching_engine.records import Asked, Fill, Standing


@dataclass(frozen=True, slots=True)
class Matched:
    """What a batch did. Each order of the batch is in exactly one of the three.

    ``fills`` are in the order of the auction, which is the order to apply them in. ``unmatched`` are order ids with the
    reasons, in the order of the auction. ``carried`` are the orders beyond the cap, oldest first, for the next block.
    """

    fills: tuple[Fill, ...]
    unmatched: tuple[tuple[bytes, Histogram], ...]
    carried: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class SimulatedMatch:
    """What would match now: bids that satisfy the order, best first, and why the others do not."""

    candidates: tuple[Bid, ...]
    histogram: Histogram


def match(orders: Iterable[Asked], book: Book, seed: bytes, clock: int, fills_max: int) -> Matched:
    """Run the auction of a block at ``clock`` (seconds), until ``fills_max`` orders have found a bid.

    ``seed`` is the previous block's beacon. An unmatched order's histogram shows the book at its turn; when the auction
    is over, the book is as it was before. ValueError for an order that comes twice: a bug of the caller.
    """
    queue = sorted(orders, key=lambda order: (order.opened_height, _order_rank(seed, order)))
    if len({order.order_id for order in queue}) != len(queue):
        raise ValueError("an order is in the batch twice")
    fills: list[Fill] = []
    unmatched: list[tuple[bytes, Histogram]] = []
    before: list[Standing] = []
    for order in queue:
        if len(fills) == fills_max:
            break
        best = _best(order, book, seed, clock)
        if best is None:
            unmatched.append((order.order_id, book.histogram(order, clock)))
            continue
        fill = _fill(order, best.bid)
        before += book.apply_fill(fill)
        fills.append(fill)
    book.restore(reversed(before))
    carried = tuple(order.order_id for order in queue[len(fills) + len(unmatched) :])
    return Matched(tuple(fills), tuple(unmatched), carried)


def quote(order: Asked, book: Book, seed: bytes, clock: int) -> SimulatedMatch:
    """Return what :func:`match` would choose from if ``order`` came alone: the first candidate.

    The order's id enters the hash for equal prices: a quote before submission stands for its price.
    """
    fits = fitting(order, clock)
    bids = [row.bid for row in book.narrowest(order, clock) if fits(row)]
    bids.sort(key=lambda bid: (_is_later(order, bid), bid.offer.price, _ticket(seed, order, bid)))
    return SimulatedMatch(tuple(bids), book.histogram(order, clock))


def _best(order: Asked, book: Book, seed: bytes, clock: int) -> Standing | None:
    """Return the bid that takes the order, reading no further than the price that it has."""
    fits = fitting(order, clock)
    stood: list[Standing] = []
    later: list[Standing] = []
    for row in book.by_price(order, clock):
        price = row.bid.offer.price
        if stood and price != stood[0].bid.offer.price:
            break
        found = later if _is_later(order, row.bid) else stood
        if (not found or price == found[0].bid.offer.price) and fits(row):
            found.append(row)
    return min(stood or later, key=lambda row: _ticket(seed, order, row.bid), default=None)


def _order_rank(seed: bytes, order: Asked) -> bytes:
    return hash_fields("assay/match/order", seed, order.order_id)


def _is_later(order: Asked, bid: Bid) -> bool:
    return bid.placed_height >= order.opened_height


def _ticket(seed: bytes, order: Asked, bid: Bid) -> tuple[bytes, bytes]:
    drawn = hash_fields("assay/match/validator", seed, order.order_id, bid.validator)
    return drawn, bid.id


def _fill(order: Asked, bid: Bid) -> Fill:
    price, tier = bid.offer.price, order.conditions.choose_tier(bid.offer.tiers)
    bond = order.job_bond(price)
    return Fill(order.order_id, bid.id, bid.validator, order.work, price, bond, tier)
