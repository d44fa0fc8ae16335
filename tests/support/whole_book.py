"""The auction over a list of bids, which looks at every one for every order: what the book with its indexes must equal.

It reads the same table of conditions. What the table says is checked by ``tests/property/matching_twin.py``, which is
written from the protocol alone.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from domain.amount import price_ceil
from domain.hashing import hash_fields
from domain.market.records import Histogram
from matching_engine.conditions import CONDITIONS
from matching_engine.match import Matched, SimulatedMatch
from matching_engine.records import AuctionOrder, Fill, StandingBid


def fitting(order: AuctionOrder, clock: int) -> Callable[[StandingBid], bool]:
    """Return the test whether a standing bid satisfies all conditions of ``order`` at ``clock`` (seconds)."""
    tests = [(row.has, row.basis(order), row.test(row.want(order, clock))) for row in CONDITIONS]
    return lambda standing: all(test(has(standing, basis)) for has, basis, test in tests)


def failing(order: AuctionOrder, clock: int) -> Callable[[StandingBid], tuple[str, ...]]:
    """Return the function from a bid to the names of all conditions on which it fails ``order``."""
    tests = [(row.name, row.has, row.basis(order), row.test(row.want(order, clock))) for row in CONDITIONS]

    def failed(standing: StandingBid) -> tuple[str, ...]:
        return tuple([name for name, has, basis, accepts in tests if not accepts(has(standing, basis))])

    return failed


def match(
    orders: Iterable[AuctionOrder], bids: Sequence[StandingBid], seed: bytes, clock: int, orders_max: int
) -> Matched:
    """Run the auction of a block as ``matching_engine.match.match`` does."""
    rows = list(bids)
    queue = sorted(
        orders,
        key=lambda order: (
            order.opened_height,
            hash_fields("assay/match/order", seed, order.order_id),
        ),
    )
    fills: list[Fill] = []
    unmatched: list[tuple[bytes, Histogram]] = []
    for order in queue[:orders_max]:
        sold: list[Fill] = []
        excluded = set(order.excluded)
        for order_id in (order.order_id, *order.replicas):
            asked = replace(order, excluded=tuple(sorted(excluded)))
            ranked = _ranked(asked, rows, seed, clock)
            if not ranked:
                unmatched.append((order.order_id, _histogram(asked, rows, clock)))
                sold = []
                break
            bid, price = ranked[0].bid, ranked[0].bid.offer.price
            excluded.add(bid.validator)
            sold.append(
                Fill(
                    order_id,
                    bid.id,
                    bid.validator,
                    order.work,
                    price,
                    order.job_bond(price),
                    order.conditions.choose_tier(bid.offer.tiers),
                    order.order_id,
                )
            )
        for fill in sold:
            rows = [_after(fill, row) for row in rows]
        fills += sold
    carried = tuple(order.order_id for order in queue[orders_max:])
    return Matched(tuple(fills), tuple(unmatched), carried)


def quote(order: AuctionOrder, bids: Sequence[StandingBid], seed: bytes, clock: int) -> SimulatedMatch:
    """Return the candidates and the histogram as ``matching_engine.match.quote`` does."""
    ranked = _ranked(order, bids, seed, clock)
    return SimulatedMatch(tuple(row.bid for row in ranked), _histogram(order, bids, clock))


def _ranked(order: AuctionOrder, rows: Sequence[StandingBid], seed: bytes, clock: int) -> list[StandingBid]:
    fits = fitting(order, clock)
    return sorted(
        filter(fits, rows),
        key=lambda row: (
            row.bid.placed_height >= order.opened_height,
            row.bid.offer.price,
            hash_fields("assay/match/validator", seed, order.order_id, row.bid.validator),
            row.bid.id,
        ),
    )


def _histogram(order: AuctionOrder, rows: Sequence[StandingBid], clock: int) -> Histogram:
    failed, counts = failing(order, clock), dict.fromkeys((row.name for row in CONDITIONS), 0)
    for row in rows:
        for name in failed(row):
            counts[name] += 1
    return tuple((name, count) for name, count in counts.items() if count)


def _after(fill: Fill, row: StandingBid) -> StandingBid:
    if row.bid.validator != fill.validator:
        return row
    return replace(
        row,
        free_capacity=row.free_capacity - (fill.work if row.bid.id == fill.bid_id else 0),
        free_bond=row.free_bond - fill.job_bond,
        free_stake=row.free_stake - price_ceil(fill.work, fill.price),
    )
