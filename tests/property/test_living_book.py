"""The book that lives between blocks against the state: commits, dropped blocks, restarts, late and early askers.

Whatever happened before, the book at a state is what the state says, and the auction over it is the one that looks at
every bid for every order.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from chain.state_machine.context import HEAD, Head
from chain.state_machine.ledger.tables import BOND_ACCOUNTS
from chain.state_machine.market import book as living
from chain.state_machine.market.book import (
    LivingBook,
    book_step,
    get_standing,
    version_of,
)
from chain.state_machine.market.tables import BIDS, LOADS, Load
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.store import MemoryStore, Overlay
from domain.amount import PFLOP
from domain.ledger.records import BondAccount
from domain.market.records import Bid, Conditions, Offer
from domain.registry.records import Validator
from matching_engine.match import match, quote
from matching_engine.records import AuctionOrder
from tests.property.matching_twin import random_order
from tests.support import whole_book
from tests.support.small_book import small_bounds

STEPS = 40
VALIDATOR = Validator("", "", bytes(32), bytes(20), 0, False, "", b"", 0, 0, 0, 0)
ANYTHING = AuctionOrder(b"anything", 1, 1, PFLOP, 0, 99, Conditions(), (), 1_000, 10, 1_000, 1)


@pytest.fixture(autouse=True)
def bounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a few bids be as many as thousands, and a few blocks an age."""
    monkeypatch.setattr(living, "STEPS_KEPT", 4)
    monkeypatch.setattr(living, "KEYS_KEPT", 12)
    with small_bounds():
        yield


@dataclass
class World:
    """A committed state with one book that has followed it, more or less."""

    random: Random
    store: MemoryStore = field(default_factory=MemoryStore)
    older: MemoryStore = field(default_factory=MemoryStore)
    book: LivingBook = field(default_factory=LivingBook)
    bids: int = 0

    def __post_init__(self) -> None:
        genesis = Overlay(self.store)
        HEAD.put(genesis, Head("chain", "coin", 0, 0, 0, b"genesis", b"beacon"))
        for name in ("a", "b", "c"):
            VALIDATORS.put(genesis, replace(VALIDATOR, operator=name, stake=10**9))
        self.store.apply(genesis.changes())

    def change(self, overlay: Overlay) -> None:
        """Change a few things that the book is made of, or nothing."""
        random = self.random
        for _ in range(random.choice((0, 1, 2, 5))):
            name = random.choice("abc")
            what = random.randrange(7)
            if what < 2:
                self.bids += 1
                offer = Offer(
                    price=random.randint(1, 4),
                    slot_speed=random.choice((PFLOP, PFLOP // 2)),
                    slots=random.choice((1, 1, 2, 3)),
                    memory=random.choice((0, 8, 9)),
                    regions=random.choice(((), ("eu",), ("eu", "us"))),
                    tiers=("exact",),
                )
                bid_id = self.bids.to_bytes(32, "big")
                BIDS.put(overlay, Bid(bid_id, name, offer, 9 * PFLOP, random.randint(1, 60), 1))
            elif what < 4:
                self.change_bid(overlay)
            elif what == 4:
                validator = VALIDATORS.must(overlay, name)
                jailed, stake = random.random() < 0.3, random.choice((0, 9, 10**9))
                VALIDATORS.put(overlay, replace(validator, jailed=jailed, stake=stake))
            elif what == 5:
                BOND_ACCOUNTS.put(overlay, BondAccount(name, random.choice((0, 3, 10**9)), ()))
            else:
                LOADS.put(overlay, Load(name, 0, random.choice((0, 5, 10**8)), random.randint(0, 2)))

    def change_bid(self, overlay: Overlay) -> None:
        """Withdraw a bid, or let it sell or offer something else."""
        bids = BIDS.scan(overlay)
        if not bids:
            return
        bid = self.random.choice(bids)
        match self.random.randrange(3):
            case 0:
                BIDS.delete(overlay, bid.id)
            case 1:
                sold = self.random.randint(0, 9) * PFLOP
                BIDS.put(overlay, replace(bid, reserved=sold))
            case 2:
                offer = replace(bid.offer, price=self.random.randint(1, 4))
                BIDS.put(overlay, replace(bid, offer=offer))

    def step(self) -> None:
        """Make a block and commit it, or drop it; ask in its midst, at its end, and from behind."""
        block = Overlay(self.store)
        self.change(block)
        if self.random.random() < 0.7:
            self.ask(block, self.store)
        transaction = Overlay(block)
        self.change(transaction)
        if self.random.random() < 0.3:
            self.ask(transaction, self.store)
        transaction.merge_into_parent()
        if self.random.random() < 0.3:
            return
        self.commit(block)

    def commit(self, block: Overlay) -> None:
        head = HEAD.must(block)
        height = head.height + 1
        HEAD.put(block, replace(head, height=height, last_hash=b"block %d" % height))
        before = version_of(self.store)
        self.older = deepcopy(self.store)
        self.store.apply(block.changes())
        # Rarely the book is not told, as after a restart from another state.
        if self.random.random() < 0.95:
            self.book.follow(book_step(before, version_of(self.store), block.changes()))

    def ask(self, overlay: Overlay, committed: MemoryStore) -> None:
        """Compare book, auction and quote."""
        book = self.book.at(overlay, version_of(committed))
        standing = get_standing(overlay)
        assert book.standing() == standing
        orders = [random_order(self.random, ["a", "b", "c"]) for _ in range(4)]
        orders = [*{order.order_id: order for order in [*orders, ANYTHING]}.values()]
        arguments = (self.random.randbytes(4), self.random.randint(0, 50), 9)
        expected = whole_book.match(orders, standing, *arguments)
        assert match(orders, book, *arguments) == expected
        assert book.standing() == standing
        seed, clock, _ = arguments
        for order in orders:
            expected_quote = whole_book.quote(order, standing, seed, clock)
            assert quote(order, book, seed, clock) == expected_quote


@pytest.mark.parametrize("worlds", [range(15), pytest.param(range(15, 200), marks=pytest.mark.nightly)], ids=len)
def test_the_living_book_is_what_the_state_says(worlds: range) -> None:
    for number in worlds:
        world = World(Random(number))
        for _ in range(STEPS):
            world.step()
            what = world.random.random()
            if what < 0.3:
                world.ask(Overlay(world.store), world.store)
            elif what < 0.4 and len(world.older):
                world.ask(Overlay(world.older), world.older)
            elif what < 0.45:
                world.book = LivingBook()


def test_a_book_that_nobody_asks_keeps_a_bounded_number_of_steps() -> None:
    world = World(Random(1))
    for _ in range(20):
        world.commit(Overlay(world.store))
    assert len(world.book._steps) == 4
    world.ask(Overlay(world.store), world.store)
    keys = 0
    for _ in range(100):
        block = Overlay(world.store)
        world.change(block)
        world.commit(block)
        keys = max(keys, sum(len(step.keys) for step in world.book._steps))
    assert 0 < keys <= 12
    world.ask(Overlay(world.store), world.store)
