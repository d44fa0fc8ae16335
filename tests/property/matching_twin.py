"""A slow, obvious auction: the twin of ``matching_engine``, written from the protocol alone; and random books for both.

It keeps no book. For each order it walks all bids, and for each bid adds up again what the fills so far have taken.
``python -m tests.property.matching_twin BOOKS`` compares the two on as many books as are asked for.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from math import ceil
from random import Random

from domain.amount import PFLOP
from domain.market.records import Bid, Conditions, Offer
from matching_engine.book import Book
from matching_engine.match import Matched, match
from matching_engine.records import AuctionOrder, Fill, StandingBid
from tests.support.small_book import small_bounds


def field(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def order_hash(seed: bytes, order: AuctionOrder) -> bytes:
    return sha256(field(b"assay/match/order") + field(seed) + field(order.order_id)).digest()


def ticket(seed: bytes, order: AuctionOrder, offer: StandingBid) -> tuple[bytes, bytes]:
    parts = (b"assay/match/validator", seed, order.order_id, offer.bid.validator.encode())
    return sha256(b"".join(field(part) for part in parts)).digest(), offer.bid.id


def bond_at(order: AuctionOrder, price: int) -> int:
    price = max(price, ceil(Fraction(order.price_limit, 2)))
    locked = ceil(Fraction(order.work * price, 10**15))
    return max(order.payload_fee, ceil(Fraction(locked * order.job_bond_bps, 10_000)))


def bond_of(order: AuctionOrder, offer: StandingBid) -> int:
    return bond_at(order, offer.bid.offer.price)


def value_of(fill: Fill) -> int:
    return ceil(Fraction(fill.work * fill.price, 10**15))


def tier_of(order: AuctionOrder, offer: StandingBid) -> str:
    """Return the first tier of the order's list that the bid offers, of an order without a list the bid's first."""
    offered = offer.bid.offer.tiers
    if not order.conditions.tiers:
        return offered[0] if offered else ""
    common = [tier for tier in order.conditions.tiers if tier in offered]
    return common[0] if common else ""


def reasons(order: AuctionOrder, offer: StandingBid, clock: int, fills: Sequence[Fill]) -> list[str]:
    """Return why the bid cannot take the order after ``fills``; nothing means that it can."""
    bid, terms, wanted = offer.bid, offer.bid.offer, order.conditions
    failed = []
    sold = sum(fill.work for fill in fills if fill.bid_id == bid.id)
    bonded = sum(fill.job_bond for fill in fills if fill.validator == bid.validator)
    if not clock < bid.expires_at:
        failed.append("expired")
    if offer.jailed:
        failed.append("jailed")
    if bid.validator in order.excluded:
        failed.append("excluded")
    if not offer.worsened_height < order.opened_height:
        failed.append("firm")
    if not terms.price <= order.price_limit:
        failed.append("price")
    if wanted.device_class and terms.device_class != wanted.device_class:
        failed.append("device_class")
    if not terms.memory >= wanted.memory:
        failed.append("memory")
    if wanted.regions and (not terms.regions or not set(terms.regions) <= set(wanted.regions)):
        failed.append("regions")
    if not tier_of(order, offer):
        failed.append("tier")
    if not order.work >= terms.min_work:
        failed.append("min_work")
    if terms.max_work and not order.work <= terms.max_work:
        failed.append("max_work")
    # Slot after slot is taken by whoever is free first, and the aggregation comes last.
    busy = [0] * terms.slots
    for _ in range(order.slots):
        busy[busy.index(min(busy))] += order.share_work
    if terms.max_payload and not order.payload_bytes <= terms.max_payload:
        failed.append("max_payload")
    speed = terms.slot_speed
    accept = order.accept_seconds + (speed and ceil(Fraction(order.trial_work, speed)))
    if (order.trial_work and not speed) or accept > order.accept_max:
        failed.append("accept")
    seconds = speed and ceil(Fraction(max(busy) + order.outer_work, speed))
    needed = accept + order.rounds * seconds + order.verify_seconds
    if not speed or needed > order.seconds_left:
        failed.append("deadline")
    backed = sum(value_of(fill) for fill in fills if fill.validator == bid.validator)
    asked = ceil(Fraction(order.work * terms.price, 10**15))
    if not sold + order.work <= offer.free_capacity:
        failed.append("capacity")
    if not backed + asked <= offer.free_stake:
        failed.append("stake")
    for name, bond in (("bond", _bond_by_price(order, offer)), ("least_bond", bond_at(order, 0))):
        largest = min(offer.free_bond - bonded, terms.max_job_bond or 2**99)
        if not bond <= largest:
            failed.append(name)
    return failed


def _bond_by_price(order: AuctionOrder, offer: StandingBid) -> int:
    """Return what the bond would be without a least."""
    locked = ceil(Fraction(order.work * offer.bid.offer.price, 10**15))
    return ceil(Fraction(locked * order.job_bond_bps, 10_000))


def alone(_: str) -> frozenset[str]:
    return frozenset()


def twin_match(
    orders: Sequence[AuctionOrder],
    offers: Sequence[StandingBid],
    seed: bytes,
    clock: int,
    fills_max: int,
    related: Callable[[str], frozenset[str]] = alone,
) -> tuple[list[Fill], dict[bytes, dict[str, int]], list[bytes]]:
    """Return fills, counts of failed conditions by unmatched order, and carried orders."""
    fills: list[Fill] = []
    unmatched: dict[bytes, dict[str, int]] = {}
    carried: list[bytes] = []
    waiting = list(orders)
    while waiting:
        oldest = min(order.opened_height for order in waiting)
        order = min(
            (order for order in waiting if order.opened_height == oldest),
            key=lambda order: order_hash(seed, order),
        )
        waiting.remove(order)
        if carried or len(fills) >= fills_max or (fills and len(fills) + len(order.replicas) >= fills_max):
            carried.append(order.order_id)
            continue
        sold: list[Fill] = []
        excluded = set(order.excluded)
        for order_id in (order.order_id, *order.replicas):
            asked = replace(order, excluded=tuple(sorted(excluded)))
            fitting = [offer for offer in offers if not reasons(asked, offer, clock, fills)]
            if not fitting:
                counts: dict[str, int] = {}
                for offer in offers:
                    for name in reasons(asked, offer, clock, fills):
                        counts[name] = counts.get(name, 0) + 1
                unmatched[order.order_id] = counts
                sold = []
                break
            stood = [offer for offer in fitting if offer.bid.placed_height < order.opened_height]
            fitting = stood or fitting
            cheapest = min(offer.bid.offer.price for offer in fitting)
            best, _ = min(
                ((offer, ticket(seed, order, offer)) for offer in fitting if offer.bid.offer.price == cheapest),
                key=lambda pair: pair[1],
            )
            bid = best.bid
            excluded.update((bid.validator, *related(bid.validator)))
            sold.append(
                Fill(
                    order_id,
                    bid.id,
                    bid.validator,
                    order.work,
                    bid.offer.price,
                    bond_of(order, best),
                    tier_of(order, best),
                    order.order_id,
                )
            )
        fills += sold
    return fills, unmatched, carried


# --- random books with little in them, so that prices tie and conditions fail often ---

REGIONS = ("eu", "us", "asia")
DEVICES = ("cpu", "h100")
TIERS = ("exact", "tolerance")
SHAPES = (
    (1, 1, 1, 0),
    (1, 1, PFLOP, 0),
    (1, 3, PFLOP, 0),
    (3, 1, PFLOP - 1, 1),
    (1, 1, 5 * PFLOP, 0),
    (2, 2, PFLOP, PFLOP // 2),
    (1, 4, PFLOP, PFLOP + 1),
)
"""Rounds, slots, FLOPs of a share and of an aggregation."""


@dataclass(frozen=True)
class Case:
    """The arguments of one auction."""

    orders: list[AuctionOrder]
    offers: list[StandingBid]
    seed: bytes
    clock: int
    fills_max: int
    # Validators 0 and 1 are related, and so are 2 and 3.
    pairs: bool = False

    def related(self, validator: str) -> frozenset[str]:
        return frozenset((f"{validator[:-1]}{int(validator[-1]) ^ 1}",)) if self.pairs else frozenset()


def some(random: Random, values: tuple[str, ...], chance: float) -> tuple[str, ...]:
    return tuple(value for value in values if random.random() < chance)


def random_case(number: int) -> Case:
    """Return the book with this number; the same number gives the same book."""
    random = Random(number)
    validators = [f"assayvaloper{i}" for i in range(random.randint(1, 4))]
    bonds = {name: random.choice((0, 2, 40, 10**9)) for name in validators}
    stakes = {name: random.choice((9, 30, *[10**9] * 4)) for name in validators}
    clock = random.randint(0, 50)
    easy = random.random() < 0.5  # half of the books let most bids through
    worsened = {name: 0 if easy else random.choice((0, 0, 1, 2)) for name in validators}
    offers = [
        replace(
            random_offer(random, name, bonds[name], stakes[name], clock, easy),
            worsened_height=worsened[name],
        )
        for name in (random.choice(validators) for _ in range(random.randint(0, 8)))
    ]
    orders = [random_order(random, validators, easy) for _ in range(random.randint(0, 7))]
    fills_max = random.choice((0, 2, 5, 256))
    return Case(orders, offers, random.randbytes(32), clock, fills_max, pairs=random.random() < 0.3)


def random_offer(random: Random, validator: str, bond: int, stake: int, clock: int, easy: bool) -> StandingBid:
    bid = Bid(
        id=sha256(random.randbytes(8)).digest(),
        validator=validator,
        offer=Offer(
            price=random.choice((1, 2, 2, 3, 10)),
            device_class=random.choice(DEVICES),
            memory=random.choice((8, 16)),
            slot_speed=random.choice((PFLOP, PFLOP // 3, 1, 0)),
            slots=random.randint(1, 4),
            regions=some(random, REGIONS, 0.5),
            tiers=some(random, TIERS, 0.8),
            min_work=0 if easy else random.choice((0, 2 * PFLOP)),
            max_work=0 if easy else random.choice((0, 4 * PFLOP)),
            max_payload=0 if easy else random.choice((0, 0, 4)),
            max_job_bond=0 if easy else random.choice((0, 0, 3)),
        ),
        capacity=0,
        expires_at=clock + (9 if easy else random.choice((0, 1, 9))),
        placed_height=random.choice((0, 0, 1, 2)),
    )
    if easy:
        bid = replace(bid, offer=replace(bid.offer, slot_speed=PFLOP, tiers=TIERS))
    jailed = not easy and random.random() < 0.2
    return StandingBid(bid, jailed, random.choice((0, 5, 9, 100)) * PFLOP, bond, stake)


def random_order(random: Random, validators: list[str], easy: bool = False) -> AuctionOrder:
    conditions = Conditions(
        device_class=random.choice(("", "", *DEVICES)),
        memory=random.choice((0, 0, 9)),
        regions=() if easy else some(random, REGIONS, 0.6),
        tiers=random.choice(((), TIERS[:1], TIERS[1:], TIERS, TIERS[::-1])),
    )
    rounds, slots, share_work, outer_work = random.choice(SHAPES)
    return AuctionOrder(
        order_id=sha256(random.randbytes(8)).digest(),
        rounds=rounds,
        slots=slots,
        share_work=share_work,
        outer_work=outer_work,
        price_limit=random.choice((0, 2, 3, 99)),
        conditions=Conditions() if easy and random.random() < 0.7 else conditions,
        excluded=() if easy else some(random, tuple(validators), 0.2),
        seconds_left=random.choice((0, 24, 25, 1_000)),
        verify_seconds=20,
        job_bond_bps=random.choice((0, 1_000, 10_000)),
        opened_height=random.randint(1, 3),
        payload_bytes=random.choice((0, 5)),
        trial_work=0 if easy else random.choice((0, share_work)),
        accept_seconds=0 if easy else random.choice((0, 3)),
        accept_max=random.choice((2, 5, 10**6)),
        payload_fee=0 if easy else random.choice((0, 3)),
        replicas=tuple(random.randbytes(4) for _ in range(random.choice((0, 0, 0, 0, 0, 0, 1, 2)))),
    )


# --- both together ---


def run(case: Case) -> Matched:
    return match(case.orders, Book(case.offers), case.seed, case.clock, case.fills_max, related=case.related)


def compare_with_twin(case: Case) -> Matched:
    """Run both and compare everything; return the result."""
    result = run(case)
    fills, unmatched, carried = twin_match(
        case.orders, case.offers, case.seed, case.clock, case.fills_max, case.related
    )
    assert list(result.fills) == fills
    assert [(order_id, dict(histogram)) for order_id, histogram in result.unmatched] == list(unmatched.items())
    assert list(result.carried) == carried
    return result


def main(books: int) -> None:
    """Compare the two on this number of books, every other one with small pages and bands."""
    fills = unmatched = 0
    for number in range(books):
        with small_bounds() if number % 2 else nullcontext():
            result = compare_with_twin(random_case(number))
        fills += len(result.fills)
        unmatched += len(result.unmatched)
    print(f"{books} books: the same {fills} fills and {unmatched} histograms")


if __name__ == "__main__":
    main(int(sys.argv[1]))
