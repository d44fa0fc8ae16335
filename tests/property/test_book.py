"""A book that lives through inserts, changes and withdrawals, against one that is built anew, and against none.

Pages and bands are small, so that they are cut, joined and cut again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from random import Random

import pytest

from domain.amount import PFLOP
from matching_engine.book import Backing, Book
from matching_engine.match import Reads, match, quote
from matching_engine.records import AuctionOrder, StandingBid
from tests.property.matching_twin import random_offer, random_order
from tests.support import whole_book
from tests.support.small_book import small_bounds

WORLDS = 150
UNBOUNDED = 10**9


@pytest.fixture(autouse=True)
def bounds() -> Iterator[None]:
    with small_bounds():
        yield


@dataclass
class World:
    """A book, and the list of bids that it must equal."""

    random: Random
    book: Book = field(default_factory=Book)
    rows: dict[bytes, StandingBid] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = [f"v{number}" for number in range(self.random.randint(1, 9))]
        self.easy = self.random.random() < 0.6
        self.backings = {name: self.random_backing() for name in self.names}

    def random_backing(self) -> Backing:
        random = self.random
        return (
            random.random() < 0.1,
            random.choice((0, 2, 40, 10**9)),
            random.choice((9, 30, 10**9, 10**9)),
            random.choice((0, 0, 0, 1, 2)),
        )

    def random_row(self, validator: str) -> StandingBid:
        jailed, bond, stake, worsened = self.backings[validator]
        row = random_offer(self.random, validator, bond, stake, 5, self.easy)
        return replace(row, jailed=jailed, worsened_height=worsened)

    def put(self, row: StandingBid) -> None:
        self.rows[row.bid.id] = row
        self.book.put(row)

    def change(self) -> None:
        """Place, change, sell of or withdraw a bid, or change what a validator can give."""
        random = self.random
        what = random.random()
        if what < 0.5 or not self.rows:
            self.put(self.random_row(random.choice(self.names)))
            return
        row = self.rows[random.choice(sorted(self.rows))]
        if what < 0.7:
            changed = self.random_row(row.bid.validator)
            self.put(replace(changed, bid=replace(changed.bid, id=row.bid.id)))
        elif what < 0.75:
            self.put(replace(row, free_capacity=random.choice((0, 5, 9, 100)) * PFLOP))
        elif what < 0.9:
            del self.rows[row.bid.id]
            self.book.remove(row.bid.id)
        else:
            self.back(random.choice(self.names))

    def back(self, validator: str) -> None:
        backing = self.backings[validator] = self.random_backing()
        self.book.set_backing(validator, backing)
        for bid_id, row in self.rows.items():
            if row.bid.validator == validator:
                jailed, bond, stake, worsened = backing
                self.rows[bid_id] = StandingBid(row.bid, jailed, row.free_capacity, bond, stake, worsened)

    def standing(self) -> list[StandingBid]:
        return [self.rows[bid_id] for bid_id in sorted(self.rows)]

    def orders(self) -> list[AuctionOrder]:
        """Return random orders, some of which ask the same."""
        orders = [random_order(self.random, self.names, self.easy) for _ in range(self.random.randint(1, 9))]
        again = [order for order in orders if self.random.random() < 0.5]
        return orders + [replace(order, order_id=sha256(order.order_id).digest()) for order in again]


def test_a_book_with_a_past_decides_counts_and_reads_as_one_without() -> None:
    for number in range(WORLDS):
        random = Random(number)
        world = World(random)
        for _ in range(random.randint(1, 6)):
            for _ in range(random.choice((1, 5, 40))):
                world.change()
            standing, orders = world.standing(), world.orders()
            seed, clock = random.randbytes(4), random.randint(0, 9)
            expected = whole_book.match(orders, standing, seed, clock, UNBOUNDED)
            assert match(orders, world.book, seed, clock, UNBOUNDED) == expected
            assert world.book.standing() == standing
            # So many reads that orders are carried: the two carry the same.
            waited = frozenset(order.order_id for order in orders if random.random() < 0.3)
            limits = 9, Reads(random.randint(1, 40), waited)
            carried = match(orders, world.book, seed, clock, *limits)
            assert carried == match(orders, Book(standing), seed, clock, *limits)
            for order in orders[:3]:
                quoted = quote(order, world.book, seed, clock)
                assert quoted == whole_book.quote(order, standing, seed, clock)
