"""What a search looks at, and what it counts of that, in books that somebody made to slow it down."""

from dataclasses import fields, replace
from random import Random
from typing import Any

import pytest

from domain.amount import PFLOP
from domain.market.records import Bid, Conditions, Offer
from matching_engine import search as module
from matching_engine.book import Book, Sold
from matching_engine.conditions import CONDITIONS, STOOD
from matching_engine.match import Reads, match
from matching_engine.records import AuctionOrder, Fill, StandingBid
from matching_engine.search import BIDS_PER_READ, VALUES_PER_READ, Commons, Search
from tests.support import whole_book
from tests.support.small_book import small_bounds

SEED = b"previous block"
ORDER = AuctionOrder(b"o", 1, 1, PFLOP, 0, 99, Conditions(), (), 1_000, 10, 1_000, 1)
MANY = 4_000


def bid(number: int, price: int, *, by: str, stake: int = 10**9, **offered: Any) -> StandingBid:
    offer = replace(Offer(price=price, slot_speed=PFLOP, tiers=("exact",)), **offered)
    made = Bid(number.to_bytes(4, "big"), by, offer, 0, 99, 0)
    return StandingBid(made, False, 100 * PFLOP, 10**6, stake)


def orders(count: int, **changes: Any) -> list[AuctionOrder]:
    """Return orders that each ask for something else."""
    return [replace(ORDER, order_id=bytes([number]), share_work=PFLOP + number, **changes) for number in range(count)]


def reads_of(book: Book, asked: AuctionOrder) -> int:
    search = Search(Commons(book, 0), Sold(book), asked)
    search.best(lambda validator: validator.encode())
    return search.take_reads()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return the bids that are tested one by one, as they come."""
    seen: list[bytes] = []
    still_fitting = Search._still_fitting

    def look(self: Search, bid_id: bytes, *, doubt: bool) -> StandingBid | None:
        seen.append(bid_id)
        return still_fitting(self, bid_id, doubt=doubt)

    monkeypatch.setattr(Search, "_still_fitting", look)
    return seen


def test_an_ordinary_order_reads_next_to_nothing_in_a_large_book() -> None:
    random = Random(1)
    rows = [bid(n, random.randint(1, 10**6), by=f"v{n // 50}", memory=random.randint(0, 99)) for n in range(3 * MANY)]
    book = Book(rows)
    asked = replace(ORDER, price_limit=10**6, conditions=Conditions(memory=80))
    assert reads_of(book, asked) <= 1
    nobody = replace(asked, conditions=Conditions(memory=100))
    assert reads_of(book, nobody) == 0
    few = replace(asked, conditions=Conditions(memory=99), seconds_left=11)
    assert reads_of(book, few) <= len(rows) // BIDS_PER_READ


def test_equal_prices_are_counted_and_stop_the_auction() -> None:
    """Each order draws among all validators, so each reads them all; another block goes on."""
    rows = [bid(n, 5, by=f"v{n // 4}") for n in range(MANY)]
    book, asked = Book(rows), orders(8)
    each = MANY + MANY // 4 + MANY // BIDS_PER_READ
    assert reads_of(book, asked[0]) == each
    matched = match(asked, book, SEED, 0, 9, Reads(3 * each))
    assert len(matched.fills) == 3
    assert len(matched.carried) == 5
    assert matched.fills == whole_book.match(asked, rows, SEED, 0, 3).fills
    # However little may be read, one order is tried.
    assert len(match(asked, book, SEED, 0, 9, Reads(1)).fills) == 1


def test_orders_that_waited_leave_half_of_the_reads_to_new_ones() -> None:
    book = Book([bid(n, 5, by=f"v{n // 4}") for n in range(MANY)])
    waited, fresh = orders(8), [replace(order, opened_height=2) for order in orders(12)[8:]]
    reads = Reads(20_000, frozenset(order.order_id for order in waited))
    matched = match([*waited, *fresh], book, SEED, 0, 99, reads)
    tried = {fill.order_id for fill in matched.fills}
    assert [sum(order.order_id in tried for order in group) for group in (waited, fresh)] == [2, 2]
    assert len(matched.carried) == 8
    alone = match(waited, book, SEED, 0, 99, Reads(20_000))
    assert len(alone.fills) == 4


def test_orders_that_ask_the_same_read_a_price_once() -> None:
    book = Book([bid(n, 5, by="v") for n in range(MANY)])
    asked = [replace(ORDER, order_id=bytes([number])) for number in range(9)]
    assert len(match(asked, book, SEED, 0, 9, Reads(2 * MANY)).fills) == 9


def test_a_validator_that_is_sold_out_is_looked_at_once_by_all_orders(looks: list[bytes]) -> None:
    """Thousands of its bids are the cheapest, and its stake is for one order; each order asks for something else."""
    rows = [bid(n, 5, by="sold out", stake=6) for n in range(MANY)]
    rows += [bid(MANY + n, 6 + n, by=f"v{n}") for n in range(50)]
    asked = orders(50)
    matched = match(asked, Book(rows), SEED, 0, 99)
    assert matched == whole_book.match(asked, rows, SEED, 0, 99)
    assert [fill.validator for fill in matched.fills].count("sold out") == 1
    assert len(looks) <= MANY + 50 * 50


def test_bids_just_short_of_what_an_order_needs_are_not_looked_at_one_by_one(
    looks: list[bytes],
) -> None:
    """The cheapest bids have a byte less than the memory that everybody asks for."""
    rows = [bid(n, 1 + n % 7, by=f"v{n // 64}", memory=80 - 1) for n in range(MANY)]
    rows += [bid(MANY + n, 50, by=f"w{n}", memory=80) for n in range(2_000)]
    asked = orders(20, conditions=Conditions(memory=80))
    matched = match(asked, Book(rows), SEED, 0, 99)
    assert {fill.price for fill in matched.fills} == {50}
    assert len([seen for seen in looks if seen < MANY.to_bytes(4, "big")]) == 0


def test_lists_of_regions_that_nobody_else_has_are_counted() -> None:
    rows = [bid(n, 5, by=f"v{n // 64}", regions=(f"r{n:04}",)) for n in range(MANY)]
    book = Book(rows)
    asked = replace(ORDER, conditions=Conditions(regions=("r0001", "r0002")))
    assert reads_of(book, ORDER) < 2 * MANY
    assert reads_of(book, asked) >= MANY // VALUES_PER_READ
    many = [replace(order, conditions=Conditions(regions=(f"r{n:04}",))) for n, order in enumerate(orders(9))]
    assert match(many, book, SEED, 0, 9) == whole_book.match(many, rows, SEED, 0, 9)
    assert len(match(many, book, SEED, 0, 9, Reads(MANY)).carried) == 5


def test_cheap_bids_placed_since_are_passed_over(looks: list[bytes]) -> None:
    """Thousands of bids that came after the order, below all others."""
    since = [bid(n, 1, by=f"v{n // 64}") for n in range(MANY)]
    since = [replace(row, bid=replace(row.bid, placed_height=1)) for row in since]
    stood = bid(MANY, 50, by="w")
    asked = orders(20)
    matched = match(asked, Book([*since, stood]), SEED, 0, 99)
    assert {fill.price for fill in matched.fills} == {50}
    assert all(seen == stood.bid.id for seen in looks)
    assert reads_of(Book([*since, stood]), ORDER) <= 3


def test_reads_are_the_same_whatever_the_pages() -> None:
    """Cut anew after a start, or grown bid by bid: the number decides how many orders a block tries."""
    random = Random(3)
    rows = [
        bid(
            n,
            random.randint(1, 50),
            by=f"v{n // 20}",
            memory=random.randint(0, 9),
            slots=1 + n % 30,
        )
        for n in range(1_000)
    ]
    random.shuffle(rows)
    grown = Book()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("matching_engine.pages.PAGE", 64)
        match(orders(1), grown, SEED, 0, 9)
        for row in rows:
            grown.put(row)
        asked = [replace(order, conditions=Conditions(memory=n % 12)) for n, order in enumerate(orders(40))]
        patch.setattr(module, "BIDS_PER_READ", 16)
        for order in asked:
            assert reads_of(grown, order) == reads_of(Book(rows), order)


def test_what_earlier_fills_made_unfit_is_counted_the_same_whatever_the_pages() -> None:
    """Few validators with many bids and little bond: most bids that an order looks at are not what they were."""
    for number in range(60):
        random = Random(number)
        rows = [bid(n, random.randint(1, 5), by=f"v{n % 3}", stake=30, memory=random.randint(0, 30)) for n in range(80)]
        with small_bounds():
            grown = Book()
            match(orders(1), grown, SEED, 0, 9)
            for row in random.sample(rows, len(rows)):
                grown.put(row)
            asked = [replace(order, conditions=Conditions(memory=random.randint(0, 30))) for order in orders(30)]
            for most in (20, 60, 150, 400):
                matched = match(asked, grown, SEED, 0, 99, Reads(most))
                assert matched == match(asked, Book(rows), SEED, 0, 99, Reads(most))


def test_columns_count_anew_after_every_change() -> None:
    """A column keeps its last answer, which reads are charged by; a node that starts anew has none."""
    random = Random(5)
    asked = replace(ORDER, excluded=("v1",), conditions=Conditions(memory=5, regions=("eu",)), seconds_left=12)
    rows: dict[bytes, StandingBid] = {}
    grown = Book()
    for _ in range(300):
        number = random.randrange(8)
        bid_id = number.to_bytes(4, "big")
        if bid_id in rows and random.random() < 0.5:
            del rows[bid_id]
            grown.remove(bid_id)
        else:
            rows[bid_id] = bid(
                number,
                random.choice((1, 200)),
                by=f"v{number % 3}",
                memory=random.randint(0, 9),
                slots=random.randint(1, 3),
                slot_speed=random.choice((PFLOP // 4, PFLOP)),
                regions=random.choice((("eu",), ("us",))),
            )
            grown.put(rows[bid_id])
        fresh = Book(rows.values())
        for condition, column, anew in zip(
            (*CONDITIONS, STOOD), grown.columns(asked), fresh.columns(asked), strict=True
        ):
            want = condition.want(asked, 0)
            wish, expected = column.wish(want), anew.wish(want)
            # An equal want takes the answer that the column kept.
            assert column.wish(want) is wish
            assert wish.failing == expected.failing, column.name
            assert column.reading(want) == anew.reading(want), column.name


def test_what_is_wanted_in_common_depends_on_that_part_of_an_order_alone() -> None:
    """Orders of an auction with the same ``common`` share wishes and sets of bids."""
    others = AuctionOrder(
        order_id=b"p",
        rounds=2,
        slots=3,
        share_work=2 * PFLOP,
        outer_work=5,
        price_limit=7,
        conditions=Conditions(device_class="h100", memory=8, regions=("eu",), tiers=("exact",)),
        excluded=("v",),
        seconds_left=500,
        verify_seconds=20,
        job_bond_bps=500,
        opened_height=9,
        payload_bytes=3,
        trial_work=PFLOP,
        accept_seconds=1,
        accept_max=50,
        payload_fee=4,
    )
    for field in fields(AuctionOrder):
        changed = replace(ORDER, **{field.name: getattr(others, field.name)})
        for condition in (*CONDITIONS, STOOD):
            if changed.common == ORDER.common:
                assert condition.basis(changed) == condition.basis(ORDER), condition.name
                assert condition.own or condition.want(changed, 5) == condition.want(ORDER, 5), (
                    condition.name,
                    field.name,
                )


def test_a_fill_takes_only_from_what_conditions_say_is_taken() -> None:
    """The other conditions are not tested again after a fill, and orders share what passes those in common."""
    row = bid(1, 5, by="v")
    sold = Sold(Book([row]))
    fill = Fill(
        order_id=b"o",
        bid_id=row.bid.id,
        validator="v",
        work=PFLOP,
        price=5,
        job_bond=7,
        tier="exact",
        first=b"o",
    )
    sold.take(fill)
    after = sold.current(row.bid.id)
    for condition in (*CONDITIONS, STOOD):
        changes = condition.has(row, 1_000) != condition.has(after, 1_000)
        assert changes == condition.taken, condition.name
        assert condition.own or not condition.taken, condition.name
