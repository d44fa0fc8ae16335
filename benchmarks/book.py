"""The auction of a block over a book of 10,000 bids that lives between blocks, state in LevelDB.

Every repeat commits a block that changed a few bids, and then measures the next block's auction: catching up with the
commit and the block's own changes, and matching. The baseline is the auction without such a book on the same state:
reading and decoding all bids, and looking at every one for each order (``tests/support/whole_book.py``).
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from random import Random
from time import perf_counter

from benchmarks.figures import Figures, Row
from benchmarks.state_tree import HEAD as COMMITTED
from chain.app.storage import Storage
from chain.state_machine.context import HEAD, Head
from chain.state_machine.ledger.tables import BOND_ACCOUNTS
from chain.state_machine.market.book import LivingBook, book_step, get_standing, version_of
from chain.state_machine.market.tables import BIDS
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.store import Overlay
from domain.amount import PFLOP
from domain.ledger.records import BondAccount
from domain.market.records import Bid, Conditions, Offer
from domain.registry.records import Validator
from matching_engine.match import Matched, match
from matching_engine.records import Asked
from tests.support import whole_book

NAME = "book"
BIDS_STANDING = 10_000
VALIDATORS_BIDDING = 400
CHANGED = 10
"""Bids that each block changes."""
REPEATS = 5
CLOCK = 1_000
_SEED = sha256(b"seed").digest()
_CLASSES = ("a100", "cpu", "h100")
_REGIONS = ("de", "fr", "jp", "uk", "us")


def run() -> Figures:
    """Measure, and return the table."""
    random = Random(1)
    market = _Market(random)
    one = [_asked(0)]
    nobody = [_asked(number, memory=1 << 60) for number in range(16)]
    many = [_asked(number, work=PFLOP // 100) for number in range(1_000)]
    rows = [
        market.row("1 order, 10000 bids", one),
        market.row("16 orders nobody fits, 10000 bids", nobody),
        market.row("1000 orders, 10000 bids", many, compared=False),
        market.derived(),
    ]
    market.storage.close()
    return Figures(NAME, rows)


class _Market:
    """Bids of random prices, classes, memory, slots, speeds and regions, and a book that follows their commits."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._height = 0
        self._book = LivingBook()
        self.storage = Storage.temporary()
        overlay = Overlay(self.storage.snapshot())
        HEAD.put(overlay, Head("assay-bench", "uassay", 0, 0, 0, _SEED, _SEED))
        names = [f"validator {number:04}" for number in range(VALIDATORS_BIDDING)]
        for name in names:
            VALIDATORS.put(overlay, replace(_VALIDATOR, operator=name))
            BOND_ACCOUNTS.put(overlay, BondAccount(name, 10**15, ()))
        for number in range(BIDS_STANDING):
            bid_id = sha256(b"bid %d" % number).digest()
            offer = Offer(
                price=random.randint(500_000, 1_500_000),
                slot_speed=random.choice((10**12, 10**13, 10**14)),
                slots=random.choice((1, 2, 4, 8, 12, 16, 24, 32, 64)),
                device_class=random.choice(_CLASSES),
                memory=random.choice((16, 40, 80)) << 30,
                regions=tuple(sorted(random.sample(_REGIONS, random.choice((1, 2))))),
                tiers=("exact",),
                providers_bps=7_000,
            )
            bid = Bid(bid_id, random.choice(names), offer, 10**18, CLOCK + 10**6, 1)
            BIDS.put(overlay, bid)
        self._write(overlay)
        self._reader = Overlay(self.storage.snapshot())

    def row(self, case: str, orders: Sequence[Asked], *, compared: bool = True) -> Row:
        """Measure the auction of ``orders``, and compare what it decides."""
        living = whole = float("inf")
        self._auction(orders)
        for _ in range(REPEATS):
            self._commit()
            seconds, matched = self._auction(orders)
            living = min(living, seconds)
            if compared:
                seconds, expected = self._whole(orders)
                whole = min(whole, seconds)
                if matched != expected:
                    raise RuntimeError(f"{case}: the two auctions decide differently")
        baseline = 1_000 * whole if compared else None
        return Row(case, 1_000 * living, "ms", baseline)

    def derived(self) -> Row:
        """Measure the first auction after a start, with all indexes that it asks for."""
        self._book = LivingBook()
        seconds, _ = self._auction([_asked(0, memory=1 << 60)])
        return Row("start: the book derived from 10000 bids", 1_000 * seconds, "ms")

    def _auction(self, orders: Sequence[Asked]) -> tuple[float, Matched]:
        block = Overlay(self._reader)
        self._change(block)
        start = perf_counter()
        book = self._book.at(block, version_of(self._reader))
        matched = match(orders, book, _SEED, CLOCK, len(orders))
        return perf_counter() - start, matched

    def _whole(self, orders: Sequence[Asked]) -> tuple[float, Matched]:
        # As a node after a commit: nothing is decoded yet.
        block = Overlay(Overlay(self.storage.snapshot()))
        self._repeat(block)
        start = perf_counter()
        matched = whole_book.match(orders, get_standing(block), _SEED, CLOCK, len(orders))
        return perf_counter() - start, matched

    def _change(self, block: Overlay) -> None:
        """Change what a few bids offer."""
        self._changed = []
        for number in self._random.sample(range(BIDS_STANDING), CHANGED):
            bid = BIDS.must(block, sha256(b"bid %d" % number).digest())
            offer = replace(bid.offer, price=self._random.randint(500_000, 1_500_000))
            self._changed.append(replace(bid, offer=offer))
        self._repeat(block)

    def _repeat(self, block: Overlay) -> None:
        for bid in self._changed:
            BIDS.put(block, bid)

    def _commit(self) -> None:
        """Commit a block that changed a few bids."""
        self._height += 1
        block = Overlay(self._reader)
        self._change(block)
        seed = sha256(b"block %d" % self._height).digest()
        HEAD.put(block, replace(HEAD.must(block), height=self._height, last_hash=seed, beacon=seed))
        before = version_of(self._reader)
        self._write(block)
        self._reader = Overlay(self.storage.snapshot())
        self._book.follow(book_step(before, version_of(self._reader), block.changes()))

    def _write(self, overlay: Overlay) -> None:
        self.storage.commit(COMMITTED, overlay.changes(), {})


_VALIDATOR = Validator("", "", bytes(32), bytes(20), 10**15, False, "", b"", 0, 0, 0, 0)


def _asked(number: int, *, work: int = PFLOP, memory: int = 80 << 30) -> Asked:
    """Return an order that a few of a hundred bids fit, with ``memory`` as they have it."""
    conditions = Conditions(
        device_class="h100", memory=memory, regions=("de", "fr", "uk"), tiers=("exact",)
    )
    return Asked(
        order_id=sha256(b"order %d" % number).digest(),
        rounds=10,
        slots=10,
        share_work=work // 100,
        outer_work=0,
        price_limit=1_200_000,
        conditions=conditions,
        excluded=(),
        seconds_left=86_400,
        verify_seconds=1_200,
        job_bond_bps=1_000,
        opened_height=1,
    )
