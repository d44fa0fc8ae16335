"""The book that is fed with changes: what it holds, counts and walks after each."""

from dataclasses import replace

import pytest

from domain.amount import PFLOP
from domain.market.records import Bid, Conditions, Offer
from matching_engine import book as module
from matching_engine.book import INDEXES_MAX, LOOKS, Book
from matching_engine.conditions import CONDITIONS
from matching_engine.match import match, quote
from matching_engine.records import Asked, Fill, Standing
from tests.support import whole_book

ORDER = Asked(b"o", 1, 1, PFLOP, 0, 9, Conditions(), (), 1_000, 10, 1_000, 1)
SEED = b"previous block"


def bid(name: str, price: int, *, by: str = "v", memory: int = 0, capacity: int = 100) -> Standing:
    offer = Offer(price=price, slot_speed=PFLOP, memory=memory, tiers=("exact",))
    return Standing(Bid(name.encode(), by, offer, 0, 99, 0), False, capacity * PFLOP, 100, 1_000)


def test_changes_are_seen_by_the_next_question() -> None:
    book = Book([bid("a", 5), bid("b", 10)])
    assert book.histogram(ORDER, 0) == (("price", 1),)
    book.put(bid("b", 9))
    book.put(bid("c", 12))
    book.remove(b"a")
    assert book.histogram(ORDER, 0) == (("price", 1),)
    assert [row.bid.id for row in book.standing()] == [b"b", b"c"]
    book.back("v", (True, 0, 1_000, 0))
    assert book.histogram(ORDER, 0) == (("jailed", 2), ("price", 1), ("bond", 2), ("least_bond", 2))
    book.remove(b"b")
    book.remove(b"c")
    book.remove(b"never there")
    assert book.histogram(ORDER, 0) == ()
    assert book.standing() == book.of_validator("v") == []


def test_what_a_validator_can_give_is_one_for_all_its_bids() -> None:
    book = Book([bid("a", 5), bid("b", 5, by="w")])
    with pytest.raises(ValueError, match="two free amounts"):
        book.put(replace(bid("c", 5), free_bond=1))
    book.put(replace(bid("a", 5), free_bond=1))
    book.put(replace(bid("c", 5), free_bond=1))
    assert [row.free_bond for row in book.standing()] == [1, 100, 1]


def test_a_fill_comes_off_and_can_be_put_back() -> None:
    book = Book([bid("a", 5), bid("b", 6), bid("c", 6, by="w")])
    rows = book.standing()
    before = book.apply_fill(Fill(b"o", b"a", "v", 10 * PFLOP, 5, 7, "exact"))
    assert [(r.free_capacity // PFLOP, r.free_bond, r.free_stake) for r in book.standing()] == [
        (90, 93, 950),
        (100, 93, 950),
        (100, 100, 1_000),
    ]
    book.restore(before)
    assert book.standing() == rows


def test_an_auction_leaves_the_book_as_it_was() -> None:
    book = Book([bid("a", 5, capacity=1), bid("b", 6)])
    rows = book.standing()
    orders = [replace(ORDER, order_id=bytes([n])) for n in range(3)]
    first = match(orders, book, SEED, 0, 9)
    assert len(first.fills) == 3
    assert book.standing() == rows
    assert match(orders, book, SEED, 0, 9) == first


def test_bids_come_by_price_and_then_only_those_of_the_narrowest_condition() -> None:
    """Far more cheap bids than are looked at one by one, and few with the memory."""
    cheap = [bid(f"{n:04}", 1 + n % 3, by=f"v{n % 50}") for n in range(2 * LOOKS)]
    large = [bid(f"large {n}", 4 + n, by="w", memory=8) for n in (3, 1, 2, 9)]
    book = Book([*cheap, *large])
    order = replace(ORDER, conditions=Conditions(memory=8))
    walked = [row.bid.offer.price for row in book.by_price(order, 0)]
    assert walked[-4:] == [5, 6, 7, 13]
    assert len(walked) == LOOKS + 4
    assert walked == sorted(walked)
    assert match([order], book, SEED, 0, 9).fills[0].bid_id == b"large 1"
    assert {row.bid.id for row in book.narrowest(order, 0)} == {row.bid.id for row in large}
    assert [b.id for b in quote(order, book, SEED, 0).candidates] == [
        b"large 1",
        b"large 2",
        b"large 3",
    ]


def test_a_price_that_is_cut_by_the_first_looks_is_still_decided_by_the_hash() -> None:
    rows = [bid(f"{n:04}", 5, by=f"v{n}") for n in range(LOOKS + 40)]
    for number in range(20):
        orders = [replace(ORDER, order_id=bytes([number]))]
        assert match(orders, Book(rows), SEED, 0, 9) == whole_book.match(orders, rows, SEED, 0, 9)


def test_the_number_of_indexes_is_bounded() -> None:
    book = Book([bid("a", 9)])
    for bps in range(1, 3 * INDEXES_MAX):
        assert book.histogram(replace(ORDER, share_work=112 * PFLOP, job_bond_bps=bps), 0) == tuple(
            (name, 1)
            for name, fails in (("capacity", True), ("bond", 1_008 * bps > 100 * 10_000))
            if fails
        )
        assert len(book._indexes) <= INDEXES_MAX
    assert len(CONDITIONS) < INDEXES_MAX


def test_many_changes_at_once_and_one_by_one_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [bid(f"{n}", 1 + n % 7, by=f"v{n % 5}", memory=n % 4) for n in range(40)]
    counts = []
    for limit in (0, 1_000):
        monkeypatch.setattr(module, "MOVED_ONE_BY_ONE", limit)
        book, found = Book(rows), []
        for n in range(40):
            offer = Offer(
                price=9 + n, slot_speed=PFLOP // (1 + n % 3), slots=1 + n % 2, tiers=("exact",)
            )
            book.put(replace(rows[n], bid=replace(rows[n].bid, offer=offer)))
            if n % 3 == 0:
                book.remove(rows[39 - n].bid.id)
            order = replace(
                ORDER, slots=3, seconds_left=20 + n, conditions=Conditions(memory=n % 4)
            )
            found.append(book.histogram(order, n % 99))
            assert found[-1] == whole_book.quote(order, book.standing(), SEED, n % 99).histogram
        counts.append(found)
    assert counts[0] == counts[1]
