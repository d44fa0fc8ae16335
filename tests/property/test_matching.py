"""The auction against its twin, and what must hold of it whatever the book."""

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.amount import PFLOP, WORK_MAX
from domain.market.records import Bid, Conditions, Offer
from matching_engine.book import Book
from matching_engine.conditions import CONDITIONS
from matching_engine.match import match, quote
from matching_engine.records import AuctionOrder, Fill, StandingBid
from tests.property.matching_twin import (
    Case,
    compare_with_twin,
    random_case,
    reasons,
    run,
    value_of,
)
from tests.support.small_book import small_bounds
from tests.support.whole_book import failing, fitting

BOOKS = 2_000
NAMES = tuple(row.name for row in CONDITIONS)


def change_offer(offered: StandingBid, **changes: Any) -> StandingBid:
    bid = offered.bid
    return replace(offered, bid=replace(bid, offer=replace(bid.offer, **changes)))


def test_the_twin_agrees_on_thousands_of_books() -> None:
    """And the books are worth it: fills, ties, carried orders and each failed condition occur."""
    seen: Counter[str] = Counter()
    for number in range(BOOKS):
        case = random_case(number)
        # Every other book has small pages and bands, so that a few bids are as many as thousands.
        with small_bounds() if number % 2 else nullcontext():
            result = compare_with_twin(case)
        seen["fills"] += len(result.fills)
        seen["carried"] += len(result.carried)
        seen["several fills"] += len(result.fills) > 2
        for _, histogram in result.unmatched:
            seen.update(name for name, _ in histogram)
        for order in case.orders:
            bids = quote(order, Book(case.offers), case.seed, case.clock).candidates
            seen["ties"] += len(bids) > 1 and bids[0].offer.price == bids[1].offer.price
    for name in (*NAMES, "fills", "carried", "several fills", "ties"):
        assert seen[name] > 40, name


IDS = st.binary(min_size=1, max_size=4)
AMOUNTS = st.one_of(st.integers(0, 6), st.integers(0, WORK_MAX))


def bids(validator: str) -> st.SearchStrategy[Bid]:
    return st.builds(
        Bid,
        id=IDS,
        validator=st.just(validator),
        offer=st.builds(
            Offer,
            price=st.one_of(st.integers(0, 3), st.integers(0, 2**63 - 1)),
            device_class=st.sampled_from(["cpu", "h100"]),
            memory=st.integers(0, 3),
            slot_speed=AMOUNTS,
            slots=st.integers(1, 4),
            regions=st.lists(st.sampled_from(["eu", "us"]), max_size=2).map(tuple),
            tiers=st.lists(st.sampled_from(["exact", "attested"]), max_size=2).map(tuple),
            min_work=st.sampled_from([0, 0, 3]),
            max_work=st.sampled_from([0, 0, 3]),
            max_payload=st.sampled_from([0, 0, 3]),
            max_job_bond=st.sampled_from([0, 0, 3]),
        ),
        capacity=st.just(0),
        expires_at=st.integers(0, 9),
        placed_height=st.integers(0, 2),
    )


@st.composite
def offers_of_validators(draw: st.DrawFn) -> list[StandingBid]:
    offers: list[StandingBid] = []
    for validator in ("a", "b", "c"):
        bond = draw(st.one_of(st.integers(0, 9), st.integers(0, 2**63 - 1)))
        stake = draw(st.one_of(st.integers(0, 9), st.integers(0, 2**63 - 1)))
        jailed = draw(st.booleans())
        placed = draw(st.lists(bids(validator), max_size=3))
        worsened = draw(st.integers(0, 2))
        offers += [StandingBid(bid, jailed, draw(AMOUNTS), bond, stake, worsened) for bid in placed]
    return list({offer.bid.id: offer for offer in offers}.values())


ORDERS = st.lists(
    st.builds(
        AuctionOrder,
        order_id=IDS,
        rounds=st.integers(1, 5),
        slots=st.integers(1, 9),
        share_work=AMOUNTS,
        outer_work=AMOUNTS,
        price_limit=st.one_of(st.integers(0, 3), st.integers(0, 2**63 - 1)),
        conditions=st.builds(
            Conditions,
            device_class=st.sampled_from(["", "cpu"]),
            memory=st.integers(0, 3),
            regions=st.lists(st.sampled_from(["eu", "us"]), max_size=2).map(tuple),
            tiers=st.lists(st.sampled_from(["exact", "attested"]), max_size=2, unique=True).map(tuple),
        ),
        excluded=st.lists(st.sampled_from(["a", "b"]), max_size=1).map(tuple),
        seconds_left=st.integers(0, 30),
        verify_seconds=st.integers(0, 9),
        job_bond_bps=st.integers(0, 10_000),
        opened_height=st.integers(0, 2),
        payload_bytes=st.integers(0, 4),
        trial_work=AMOUNTS,
        accept_seconds=st.integers(0, 3),
        accept_max=st.integers(0, 9),
        payload_fee=st.integers(0, 3),
    ),
    max_size=6,
    unique_by=lambda order: order.order_id,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine
@given(ORDERS, offers_of_validators(), st.binary(max_size=4), st.integers(0, 9), st.integers(0, 7))
def test_the_twin_agrees_on_hostile_books(
    orders: list[AuctionOrder], offers: list[StandingBid], seed: bytes, clock: int, fills_max: int
) -> None:
    compare_with_twin(Case(orders, offers, seed, clock, fills_max))


CASES = st.integers(0, 2**32).map(random_case)


@settings(deadline=None)
@given(CASES)
def test_nothing_is_oversold_and_every_order_ends_in_one_place(case: Case) -> None:
    result = run(case)
    offers = {offer.bid.id: offer for offer in case.offers}
    work: Counter[bytes] = Counter()
    bonds: Counter[str] = Counter()
    values: Counter[str] = Counter()
    for fill in result.fills:
        work[fill.bid_id] += fill.work
        bonds[fill.validator] += fill.job_bond
        values[fill.validator] += value_of(fill)
    assert all(amount <= offers[bid_id].free_capacity for bid_id, amount in work.items())
    for offer in case.offers:
        assert bonds[offer.bid.validator] <= offer.free_bond
        assert values[offer.bid.validator] <= offer.free_stake
    ended = [
        *{fill.first: None for fill in result.fills},
        *(order_id for order_id, _ in result.unmatched),
        *result.carried,
    ]
    assert sorted(ended) == sorted(order.order_id for order in case.orders)
    for order in case.orders:
        fills = [fill for fill in result.fills if fill.first == order.order_id]
        if fills:
            assert [fill.order_id for fill in fills] == [order.order_id, *order.replicas]
            winners = [fill.validator for fill in fills]
            assert len(set(winners)) == len(winners)
            assert not any(case.related(winner).intersection(winners) for winner in winners)


@settings(deadline=None)
@given(CASES)
def test_the_order_of_the_arguments_does_not_matter(case: Case) -> None:
    random = Random(case.seed)
    orders, offers = list(case.orders), list(case.offers)
    random.shuffle(orders)
    random.shuffle(offers)
    shuffled = replace(case, orders=orders, offers=offers)
    assert run(shuffled) == run(case)
    for order in orders:
        assert quote(order, Book(offers), case.seed, case.clock) == quote(
            order, Book(case.offers), case.seed, case.clock
        )


IRRELEVANT: list[Callable[[StandingBid], StandingBid]] = [
    lambda offer: change_offer(offer, price=100),
    lambda offer: replace(offer, bid=replace(offer.bid, expires_at=0)),
    lambda offer: change_offer(offer, slot_speed=0),
    lambda offer: replace(offer, free_capacity=0),
]


@pytest.mark.parametrize("spoil", IRRELEVANT)
@settings(deadline=None)
@given(case=CASES)
def test_a_bid_that_fits_nobody_changes_no_fill(case: Case, spoil: Callable[[StandingBid], StandingBid]) -> None:
    for offer in case.offers[:2]:
        useless = spoil(replace(offer, bid=replace(offer.bid, id=b"useless")))
        more = replace(case, offers=[*case.offers, useless])
        assert run(more).fills == run(case).fills


@settings(deadline=None)
@given(CASES)
def test_without_the_losing_bids_the_fills_are_the_same(case: Case) -> None:
    result = run(case)
    winners = {fill.bid_id for fill in result.fills}
    fewer = replace(case, offers=[offer for offer in case.offers if offer.bid.id in winners])
    assert run(fewer).fills == result.fills


def with_bids_that_stood(case: Case) -> Case:
    """Return the case with every bid older than every order: then the price alone decides."""
    stood = [replace(o, bid=replace(o.bid, placed_height=0)) for o in case.offers]
    return replace(case, offers=stood)


def alone(order: AuctionOrder, case: Case) -> Fill | None:
    single = replace(order, replicas=())
    fills = match([single], Book(case.offers), case.seed, case.clock, 1).fills
    return fills[0] if fills else None


@settings(deadline=None)
@given(CASES)
def test_an_order_alone_that_asks_for_less_is_not_worse_off(case: Case) -> None:
    """Each of these only widens what fits: a match stays one, at no higher price."""
    case = with_bids_that_stood(case)
    for order in case.orders:
        before = alone(order, case)
        for relaxed in (
            replace(order, seconds_left=order.seconds_left + 50),
            replace(order, verify_seconds=0),
            replace(order, payload_bytes=0),
            replace(order, trial_work=0),
            replace(order, accept_max=10**9),
            replace(order, payload_fee=0),
            replace(order, excluded=()),
            replace(order, job_bond_bps=0),
            replace(order, conditions=Conditions()),
            replace(order, conditions=replace(order.conditions, memory=0)),
        ):
            after = alone(relaxed, case)
            if before:
                assert after
                assert after.price <= before.price
        # The bond grows with the limit; without one, a higher limit changes nothing that is already matched.
        free = replace(order, job_bond_bps=0)
        before, higher = alone(free, case), replace(free, price_limit=free.price_limit + 1)
        assert before is None or alone(higher, case) == before


@settings(deadline=None)
@given(CASES)
def test_a_cheaper_bid_alone_wins(case: Case) -> None:
    case = with_bids_that_stood(case)
    for order in case.orders:
        before = alone(order, case)
        if not before:
            continue
        loser = next((o for o in case.offers if o.bid.id != before.bid_id), None)
        if loser is None or before.price == 0:
            continue
        cheaper = change_offer(loser, price=before.price - 1)
        offers = [cheaper if offer is loser else offer for offer in case.offers]
        after = alone(order, replace(case, offers=offers))
        assert after
        fits = fitting(order, case.clock)(cheaper)
        assert after.bid_id == (cheaper.bid.id if fits else before.bid_id)


@settings(deadline=None)
@given(CASES)
def test_a_quote_is_what_the_auction_does(case: Case) -> None:
    for order in case.orders:
        quoted = quote(order, Book(case.offers), case.seed, case.clock)
        fill = alone(order, case)
        assert (fill.bid_id if fill else None) == (quoted.candidates[0].id if quoted.candidates else None)
        by_hand = [offer for offer in case.offers if not reasons(order, offer, case.clock, [])]
        assert sorted(bid.id for bid in quoted.candidates) == sorted(o.bid.id for o in by_hand)
        ranks = [(bid.placed_height >= order.opened_height, bid.offer.price) for bid in quoted.candidates]
        assert ranks == sorted(ranks)


@settings(deadline=None)
@given(CASES)
def test_satisfying_is_failing_nothing(case: Case) -> None:
    for order in case.orders:
        for offer in case.offers:
            names = failing(order, case.clock)(offer)
            assert fitting(order, case.clock)(offer) == (names == ())
            assert list(names) == [name for name in NAMES if name in names]


@settings(deadline=None)
@given(CASES)
def test_older_orders_come_first(case: Case) -> None:
    """Orders of later blocks change nothing for those of the first."""
    first = [order for order in case.orders if order.opened_height == 1]
    ids = {order.order_id for order in first}
    all_fills = run(replace(case, fills_max=256)).fills
    only_first = run(replace(case, orders=first, fills_max=256)).fills
    assert tuple(fill for fill in all_fills if fill.first in ids) == only_first


@settings(deadline=None)
@given(CASES)
def test_the_next_block_takes_up_what_was_carried(case: Case) -> None:
    """With the same seed and what is left, two capped batches do what one large batch does."""
    whole = run(replace(case, fills_max=256))
    first = run(replace(case, fills_max=2))
    left = [
        replace(
            offer,
            free_capacity=offer.free_capacity - sum(fill.work for fill in first.fills if fill.bid_id == offer.bid.id),
            free_bond=offer.free_bond - sum(f.job_bond for f in first.fills if f.validator == offer.bid.validator),
            free_stake=offer.free_stake - sum(value_of(f) for f in first.fills if f.validator == offer.bid.validator),
        )
        for offer in case.offers
    ]
    carried = [order for order in case.orders if order.order_id in first.carried]
    second = run(replace(case, orders=carried, offers=left, fills_max=256))
    assert first.fills + second.fills == whole.fills
    assert first.unmatched + second.unmatched == whole.unmatched


def test_the_seed_decides_ties_fairly() -> None:
    """Over many seeds each of three validators wins about as often, however many equal bids it has."""
    order = AuctionOrder(b"order", 1, 1, PFLOP, 0, 9, Conditions(), (), 1_000, 10, 0, 1)
    offers = [
        StandingBid(
            Bid(
                b"%s%d" % (name, n),
                name.decode(),
                Offer(price=5, slot_speed=PFLOP, tiers=("exact",)),
                0,
                99,
                0,
            ),
            False,
            9 * PFLOP,
            0,
            5,
        )
        for name in (b"a", b"b", b"c")
        for n in range(1 if name == b"a" else 30)
    ]
    wins = Counter(
        match([order], Book(offers), number.to_bytes(4, "big"), 0, 1).fills[0].validator for number in range(900)
    )
    assert set(wins) == {"a", "b", "c"}
    assert all(240 < count < 360 for count in wins.values())
