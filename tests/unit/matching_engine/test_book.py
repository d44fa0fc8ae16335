"""The book that is fed with changes: what it holds, counts and walks after each."""

from dataclasses import replace

import pytest

from domain.amount import PFLOP
from domain.market.records import Bid, Conditions, Offer
from matching_engine import pages
from matching_engine.book import COLUMNS_MAX, READS_PER_REFRESH, Book, Sold
from matching_engine.conditions import CONDITIONS
from matching_engine.match import match, quote
from matching_engine.records import AuctionOrder, Fill, StandingBid
from tests.support import whole_book

ORDER = AuctionOrder(b"o", 1, 1, PFLOP, 0, 9, Conditions(), (), 1_000, 10, 1_000, 1)
SEED = b"previous block"


def bid(name: str, price: int, *, by: str = "v", memory: int = 0, capacity: int = 100) -> StandingBid:
    offer = Offer(price=price, slot_speed=PFLOP, memory=memory, tiers=("exact",))
    return StandingBid(Bid(name.encode(), by, offer, 0, 99, 0), False, capacity * PFLOP, 100, 1_000)


def test_changes_are_seen_by_the_next_question() -> None:
    book = Book([bid("a", 5), bid("b", 10)])
    assert book.histogram(ORDER, 0) == (("price", 1),)
    book.put(bid("b", 9))
    book.put(bid("c", 12))
    book.remove(b"a")
    assert book.histogram(ORDER, 0) == (("price", 1),)
    assert [row.bid.id for row in book.standing()] == [b"b", b"c"]
    book.set_backing("v", (True, 0, 1_000, 0))
    assert book.histogram(ORDER, 0) == (("jailed", 2), ("price", 1), ("bond", 2), ("least_bond", 2))
    book.remove(b"b")
    book.remove(b"c")
    book.remove(b"never there")
    assert book.histogram(ORDER, 0) == ()
    assert book.standing() == book.of_validator("v") == []


def test_what_a_validator_can_give_is_one_for_all_its_bids() -> None:
    book = Book([bid("a", 5), bid("b", 5, by="w")])
    with pytest.raises(ValueError, match="differ in free bond or free stake"):
        book.put(replace(bid("c", 5), free_bond=1))
    book.put(replace(bid("a", 5), free_bond=1))
    book.put(replace(bid("c", 5), free_bond=1))
    assert [row.free_bond for row in book.standing()] == [1, 100, 1]


def test_a_fill_comes_off_and_is_undone() -> None:
    book = Book([bid("a", 5), bid("b", 6), bid("c", 6, by="w")])
    rows = book.standing()
    sold = Sold(book)
    sold.take(Fill(b"o", b"a", "v", 10 * PFLOP, 5, 7, "exact", b"o"))
    assert book.standing() == rows
    after = [sold.current(row.bid.id) for row in rows]
    assert [(r.free_capacity // PFLOP, r.free_bond, r.free_stake) for r in after] == [
        (90, 93, 950),
        (100, 93, 950),
        (100, 100, 1_000),
    ]
    sold.refresh(b"b")
    assert book.standing() == [rows[0], after[1], rows[2]]
    sold.settle()
    sold.take(Fill(b"p", b"b", "v", 10 * PFLOP, 6, 3, "exact", b"p"))
    sold.settle()
    assert [(r.free_capacity // PFLOP, r.free_bond, r.free_stake) for r in book.standing()] == [
        (90, 90, 890),
        (90, 90, 890),
        (100, 100, 1_000),
    ]
    sold.undo()
    assert book.standing() == rows


def test_a_bid_is_brought_up_to_date_again_after_another_fill() -> None:
    book = Book([bid("a", 5), bid("b", 6)])
    rows = book.standing()
    sold = Sold(book)
    fill = Fill(
        order_id=b"o",
        bid_id=b"a",
        validator="v",
        work=10 * PFLOP,
        price=5,
        job_bond=7,
        tier="exact",
        first=b"o",
    )
    for taken in (7, 14):
        sold.take(fill)
        for _ in range(2):
            sold.refresh(b"b")
        assert sold.take_reads() == READS_PER_REFRESH
        assert [row.free_bond for row in book.standing()] == [100, 100 - taken]
    sold.settle()
    sold.settle()
    assert sold.take_reads() == READS_PER_REFRESH
    assert [row.free_bond for row in book.standing()] == [86, 86]
    sold.undo()
    assert book.standing() == rows


def test_an_auction_leaves_the_book_as_it_was() -> None:
    book = Book([bid("a", 5, capacity=1), bid("b", 6)])
    rows = book.standing()
    orders = [replace(ORDER, order_id=bytes([n])) for n in range(3)]
    first = match(orders, book, SEED, 0, 9)
    assert len(first.fills) == 3
    assert book.standing() == rows
    assert match(orders, book, SEED, 0, 9) == first


def test_a_few_bids_with_what_an_order_wants_are_found_among_thousands_without() -> None:
    cheap = [bid(f"{n:04}", 1 + n % 3, by=f"v{n % 50}") for n in range(3_000)]
    large = [bid(f"large {n}", 4 + n, by="w", memory=8) for n in (3, 1, 2, 9)]
    book = Book([*cheap, *large])
    order = replace(ORDER, conditions=Conditions(memory=8))
    assert match([order], book, SEED, 0, 9).fills[0].bid_id == b"large 1"
    assert [b.id for b in quote(order, book, SEED, 0).candidates] == [
        b"large 1",
        b"large 2",
        b"large 3",
    ]
    assert book.histogram(order, 0) == (("price", 1), ("memory", 3_000))


def test_equal_prices_on_several_pages_are_decided_by_the_hash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pages, "PAGE", 32)
    rows = [bid(f"{n:04}", 5, by=f"v{n}") for n in range(300)]
    for number in range(20):
        orders = [replace(ORDER, order_id=bytes([number]))]
        assert match(orders, Book(rows), SEED, 0, 9) == whole_book.match(orders, rows, SEED, 0, 9)


def test_the_number_of_columns_is_bounded_between_auctions() -> None:
    book = Book([bid("a", 9)])
    for bps in range(1, 3 * COLUMNS_MAX):
        order = replace(ORDER, share_work=112 * PFLOP, job_bond_bps=bps)
        (unmatched,) = match([order], book, SEED, 0, 9).unmatched
        assert unmatched[1] == tuple(
            (name, 1)
            for name, fails in (
                ("capacity", True),
                ("stake", True),
                ("bond", 1_008 * bps > 100 * 10_000),
            )
            if fails
        )
        assert len(book._columns) <= COLUMNS_MAX + len(CONDITIONS) + 1
    assert len(CONDITIONS) + 1 < COLUMNS_MAX
