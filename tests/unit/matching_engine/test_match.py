"""Small auctions spelled out: price, ties, batch order, reservations, histograms, the cap."""

from dataclasses import replace
from random import Random

import pytest

from domain.amount import PFLOP
from domain.hashing import hash_fields
from domain.market.records import Bid, Conditions, Offer
from matching_engine.book import Book
from matching_engine.match import Matched, SimulatedMatch, match, quote
from matching_engine.records import AuctionOrder, Fill, StandingBid

SEED = b"previous block"
ANY = Conditions()


def order(name: str, *, work: int = 1, limit: int = 9, height: int = 1) -> AuctionOrder:
    return AuctionOrder(name.encode(), 1, 1, work * PFLOP, 0, limit, ANY, (), 1_000, 10, 1_000, height)


def offer(
    name: str,
    price: int,
    *,
    by: str = "v",
    capacity: int = 100,
    bond: int = 100,
    stake: int = 1_000,
) -> StandingBid:
    bid = Bid(name.encode(), by, Offer(price=price, slot_speed=PFLOP, tiers=("exact",)), 0, 99, 0)
    return StandingBid(bid, False, capacity * PFLOP, bond, stake)


def winners(matched: Matched) -> dict[str, str]:
    return {fill.order_id.decode(): fill.bid_id.decode() for fill in matched.fills}


def first_of(tag: str, seed: bytes, *parts: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return min(parts, key=lambda part: hash_fields(tag, seed, *part))


def test_the_cheapest_bid_wins_at_its_own_price() -> None:
    offers = [offer("dear", 9), offer("cheap", 4), offer("middle", 5)]
    assert match([order("o", work=10)], Book(offers), SEED, 0, 9) == Matched(
        (Fill(b"o", b"cheap", "v", 10 * PFLOP, 4, 5, "exact", b"o"),), (), ()
    )


def test_an_empty_market() -> None:
    assert match([], Book([offer("b", 1)]), SEED, 0, 9) == Matched((), (), ())
    assert match([order("o")], Book([]), SEED, 0, 9) == Matched((), ((b"o", ()),), ())
    assert quote(order("o"), Book([]), SEED, 0) == SimulatedMatch((), ())


@pytest.mark.parametrize("seed", [b"", b"one", b"two", b"three", b"four"])
def test_equal_prices_go_to_the_lowest_hash_of_seed_order_and_validator(seed: bytes) -> None:
    offers = [offer(name, 5, by=name) for name in ("a", "b", "c", "d")] + [offer("dear", 6)]
    for name in ("o1", "o2", "o3", "o4", "o5"):
        pairs = [(name.encode(), bid.encode()) for bid in ("a", "b", "c", "d")]
        expected = first_of("assay/match/validator", seed, *pairs)[1].decode()
        assert winners(match([order(name)], Book(offers), seed, 0, 9)) == {name: expected}


def test_many_equal_bids_are_one_ticket() -> None:
    """The bid with the lowest id stands for the validator, whatever the seed."""
    offers = [offer(f"many{n}", 5, by="many") for n in range(64)] + [offer("one", 5, by="one")]
    book = Book(offers)
    won = [winners(match([order("o")], book, b"%d" % n, 0, 9))["o"] for n in range(200)]
    assert set(won) == {"many0", "one"}
    assert 60 < won.count("one") < 140


def test_a_bid_that_stood_comes_before_a_cheaper_one_placed_since() -> None:
    def later(name: str, price: int) -> StandingBid:
        made = offer(name, price, by=name)
        return replace(made, bid=replace(made.bid, placed_height=1))

    asked = order("o", height=1)
    both = Book([offer("stood", 5), later("under", 4)])
    assert winners(match([asked], both, SEED, 0, 9)) == {"o": "stood"}
    assert [bid.id for bid in quote(asked, both, SEED, 0).candidates] == [b"stood", b"under"]
    assert winners(match([replace(asked, opened_height=2)], both, SEED, 0, 9)) == {"o": "under"}
    # Where nothing that stood fits, the order is for those that came since, the cheapest first.
    since = Book([offer("dear", 10), later("under", 4), later("over", 5)])
    assert winners(match([asked], since, SEED, 0, 9)) == {"o": "under"}


@pytest.mark.parametrize("seed", [b"", b"one", b"two", b"three", b"four"])
def test_within_a_block_the_seed_says_who_comes_first(seed: bytes) -> None:
    """One capacity, five orders of one height: the lowest hash gets it."""
    names = ["o1", "o2", "o3", "o4", "o5"]
    keys = [(name.encode(),) for name in names]
    expected = first_of("assay/match/order", seed, *keys)[0].decode()
    matched = match([order(name) for name in names], Book([offer("b", 5, capacity=1)]), seed, 0, 9)
    assert winners(matched) == {expected: "b"}
    assert len(matched.unmatched) == 4


def test_an_older_order_comes_before_any_younger_one() -> None:
    orders = [order(f"young{i}", height=2) for i in range(5)] + [order("old", height=1)]
    assert winners(match(orders, Book([offer("b", 5, capacity=1)]), SEED, 0, 9)) == {"old": "b"}


def test_capacity_is_reserved_and_the_next_order_takes_the_next_bid() -> None:
    orders = [order("first", work=3, height=1), order("second", work=3, height=2)]
    offers = [offer("small", 4, capacity=5), offer("large", 5, capacity=9)]
    assert winners(match(orders, Book(offers), SEED, 0, 9)) == {"first": "small", "second": "large"}


def test_a_smaller_order_still_fits_what_is_left() -> None:
    orders = [order("first", work=3, height=1), order("second", work=2, height=2)]
    offers = [offer("small", 4, capacity=5), offer("large", 5, capacity=9)]
    assert winners(match(orders, Book(offers), SEED, 0, 9)) == {"first": "small", "second": "small"}


def test_one_bond_account_backs_all_bids_of_a_validator() -> None:
    """Work 10 at 5 and at 6 needs bonds of 5 and 6; 10 covers the first only."""
    orders = [order("first", work=10, height=1), order("second", work=10, height=2)]
    offers = [offer("one", 5, capacity=10, bond=10), offer("two", 6, capacity=10, bond=10)]
    matched = match(orders, Book(offers), SEED, 0, 9)
    assert winners(matched) == {"first": "one"}
    assert matched.unmatched == ((b"second", (("capacity", 1), ("bond", 1))),)
    richer = [replace(item, free_bond=11) for item in offers]
    assert winners(match(orders, Book(richer), SEED, 0, 9)) == {"first": "one", "second": "two"}


def test_one_stake_backs_all_bids_of_a_validator() -> None:
    """Work 10 at 5 and at 6 is worth 50 and 60: what the first took is gone for the second."""
    orders = [order("first", work=10, height=1), order("second", work=10, height=2)]
    offers = [offer("one", 5, stake=109), offer("two", 6, stake=109), offer("next", 7, by="w")]
    full = [replace(item, free_capacity=10 * PFLOP) for item in offers]
    assert winners(match(orders, Book(full), SEED, 0, 9)) == {"first": "one", "second": "next"}
    matched = match(orders, Book(full[:2]), SEED, 0, 9)
    assert winners(matched) == {"first": "one"}
    assert matched.unmatched == ((b"second", (("capacity", 1), ("stake", 1))),)
    enough = [replace(item, free_stake=110) for item in full]
    assert winners(match(orders, Book(enough), SEED, 0, 9)) == {"first": "one", "second": "two"}


def test_the_bond_of_another_validator_is_its_own() -> None:
    orders = [order("first", work=10, height=1), order("second", work=10, height=2)]
    offers = [
        offer("one", 5, by="v", capacity=10, bond=5),
        offer("two", 6, by="w", capacity=10, bond=6),
    ]
    assert winners(match(orders, Book(offers), SEED, 0, 9)) == {"first": "one", "second": "two"}


def test_the_histogram_counts_each_bid_under_all_it_fails_on() -> None:
    offers = [
        offer("dear", 10),
        offer("dear and full", 11, capacity=0),
        replace(offer("jailed", 1), jailed=True),
    ]
    matched = match([order("o")], Book(offers), SEED, 0, 9)
    assert matched.unmatched == ((b"o", (("jailed", 1), ("price", 2), ("capacity", 1))),)
    assert not matched.fills


def test_orders_beyond_the_cap_are_carried_oldest_first() -> None:
    orders = [order(f"o{height}", height=height) for height in (4, 1, 3, 2)]
    matched = match(orders, Book([offer("b", 5)]), SEED, 0, 2)
    assert winners(matched) == {"o1": "b", "o2": "b"}
    assert matched.carried == (b"o3", b"o4")
    assert match(orders, Book([offer("b", 5)]), SEED, 0, 0).carried == (b"o1", b"o2", b"o3", b"o4")
    assert match(orders, Book([offer("b", 5)]), SEED, 0, 4).carried == ()


def test_a_quote_has_the_candidates_best_first_and_why_the_others_fail() -> None:
    offers = [offer("b", 6), offer("c", 3), offer("dear", 10), offer("a", 4)]
    quoted = quote(order("o"), Book(offers), SEED, 0)
    assert [bid.id for bid in quoted.candidates] == [b"c", b"a", b"b"]
    assert quoted.histogram == (("price", 1),)
    assert not match([order("o")], Book([offer("dear", 10)]), SEED, 0, 9).fills


def test_the_clock_reaches_the_conditions() -> None:
    assert winners(match([order("o")], Book([offer("b", 5)]), SEED, 98, 9)) == {"o": "b"}
    assert match([order("o")], Book([offer("b", 5)]), SEED, 99, 9).unmatched == ((b"o", (("expired", 1),)),)


def test_what_comes_twice_is_a_bug() -> None:
    with pytest.raises(ValueError, match="order is in the batch twice"):
        match([order("o"), order("o", work=2)], Book([]), SEED, 0, 9)
    with pytest.raises(ValueError, match=r"bid .* in the book twice"):
        match([], Book([offer("b", 5), offer("b", 6)]), SEED, 0, 9)
    with pytest.raises(ValueError, match="differ in free bond or free stake"):
        match([], Book([offer("a", 5, bond=1), offer("b", 6, bond=2)]), SEED, 0, 9)
    with pytest.raises(ValueError, match="differ in free bond or free stake"):
        match([], Book([offer("a", 5, stake=1), offer("b", 6, stake=2)]), SEED, 0, 9)


def test_candidates_come_by_price_up_to_the_limit() -> None:
    offers = [offer(str(number), price) for number, price in enumerate((5, 3, 5, 7, 3, 9))]
    Random(1).shuffle(offers)
    quoted = quote(order("o", limit=7), Book(offers), SEED, 0).candidates
    assert [(bid.offer.price, bid.id) for bid in quoted] == [
        (3, b"1"),
        (3, b"4"),
        (5, b"0"),
        (5, b"2"),
        (7, b"3"),
    ]
    assert quote(order("o", limit=2), Book(offers), SEED, 0).candidates == ()
