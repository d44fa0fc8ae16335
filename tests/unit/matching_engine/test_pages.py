"""Pages: every bid lies on the page of its price, and there are neither too many pages nor too full ones."""

from collections.abc import Iterator
from random import Random

import pytest

from domain.market.records import Bid, Offer
from matching_engine import pages
from matching_engine.bands import slots_of
from matching_engine.pages import BookPages, key_of
from matching_engine.records import StandingBid
from tests.support.small_book import small_bounds


@pytest.fixture(autouse=True)
def bounds() -> Iterator[None]:
    with small_bounds():
        yield


def bid(name: int, price: int) -> StandingBid:
    return StandingBid(
        Bid(name.to_bytes(4, "big"), "v", Offer(price=price, slot_speed=1), 0, 99, 0),
        False,
        1,
        1,
        1,
    )


def check(book: BookPages, rows: dict[bytes, StandingBid]) -> None:
    """Check that the pages hold these bids in order, each where its place says."""
    seen: list[StandingBid] = []
    for low, page in book.upwards():
        on_page = sorted((page.row(slot) for slot in slots_of(page.bids)), key=key_of)
        assert len(page) == len(on_page) < pages.PAGE
        assert not on_page or low <= on_page[0].bid.offer.price
        seen += on_page
    assert seen == sorted(rows.values(), key=key_of)
    for bid_id, place in book.places.items():
        assert place.page.row(place.slot) is place.row is rows[bid_id]


def test_bids_lie_in_order_of_price_through_every_change() -> None:
    for number in range(40):
        random = Random(number)
        rows = {row.bid.id: row for row in (bid(n, random.randint(1, 9)) for n in range(20))}
        book = BookPages(rows.values())
        for step in range(20, 150):
            if rows and random.random() < 0.55:
                gone = random.choice([*rows])
                del rows[gone]
                book.leave(gone)
            else:
                row = rows[step.to_bytes(4, "big")] = bid(step, random.randint(1, 9))
                book.enter(row)
            check(book, rows)


def test_bids_that_flap_leave_no_pages_behind() -> None:
    """A bidder places thousands at prices all over, and takes them back, block after block."""
    book = BookPages([bid(n, 5) for n in range(20)])
    most = 0
    for block in range(30):
        for n in range(100, 300):
            book.enter(bid(n, 1 + (n * block) % 50))
        most = max(most, sum(1 for _ in book.upwards()))
        for n in range(100, 300):
            book.leave(n.to_bytes(4, "big"))
        assert sum(1 for _ in book.upwards()) <= 20 // pages.PAGE_LEAST + 1
    assert most <= 220 // pages.PAGE_LEAST + 1
