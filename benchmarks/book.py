"""The auction of a block, with an order book that is kept between blocks, and the order book alone at a large size.

The first rows have 10,000 bids, with the state in LevelDB. Every repeat commits a block that changes a few bids, and
then measures the next block's auction: applying the commit and the block's own changes to the book, and matching. The
baseline is the auction on the same state without such a book: reading and decoding all bids, and checking every bid
for each order (``tests/support/whole_book.py``).

In the rows of the order book alone, all bids differ in price, speed and capacity, and all validators in their bonds; a
validator has 50 bids. The baseline is the goal. Times are process time on one core: the minimum and the median of the
repeats.
"""

import gc
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from random import Random
from statistics import median
from time import perf_counter, process_time

from benchmarks.figures import Figures, Row
from benchmarks.state_tree import HEAD as COMMITTED
from chain.app.storage import Storage
from chain.state_machine.context import HEAD, Head
from chain.state_machine.ledger.tables import BOND_ACCOUNTS
from chain.state_machine.market.book import LivingBook, book_step, get_standing, version_of
from chain.state_machine.market.tables import BIDS
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.staking.tables import POWERS_GIVEN
from chain.state_machine.store import Overlay
from domain.amount import PFLOP
from domain.ledger.records import BondAccount
from domain.market.records import Bid, Conditions, Offer
from domain.registry.records import Validator
from matching_engine.book import Book
from matching_engine.match import Matched, match, quote
from matching_engine.records import AuctionOrder, StandingBid
from tests.support import whole_book

NAME = "book"
BIDS_STANDING = 10_000
VALIDATORS_BIDDING = 400
CHANGED = 10
"""Number of bids that each block changes."""
REPEATS = 5
CHANGES = 1_000
"""Number of bids that are inserted, changed and withdrawn per repeat."""
CLOCK = 1_000
_SEED = sha256(b"seed").digest()
_CLASSES = ("a100", "cpu", "h100")
_REGIONS = ("de", "fr", "jp", "uk", "us")


def run() -> Figures:
    """Measure and return the table."""
    random = Random(1)
    market = _Market(random)
    one = [_asked(0)]
    unfit = [_asked(number, memory=1 << 60) for number in range(16)]
    many = [_asked(number, work=PFLOP // 100) for number in range(1_000)]
    rows = [
        market.row("1 order, 10000 bids", one),
        market.row("16 orders without a fitting bid, 10000 bids", unfit),
        market.row("1000 orders, 10000 bids", many, compared=False),
        market.derived(),
    ]
    market.storage.close()
    for bids in (100_000, 1_000_000):
        rows += _large(bids)
    return Figures(NAME, [*rows, _memory(100_000)])


class _Market:
    """A state with random bids, and an order book that follows its commits."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._height = 0
        self._book = LivingBook()
        self.storage = Storage.temporary()
        overlay = Overlay(self.storage.snapshot())
        HEAD.put(
            overlay,
            Head(
                chain_id="assay-bench",
                denom="uassay",
                height=0,
                time_ns=0,
                clock_ns=0,
                last_hash=_SEED,
                beacon=_SEED,
            ),
        )
        names = [f"validator {number:04}" for number in range(VALIDATORS_BIDDING)]
        for name in names:
            VALIDATORS.put(overlay, replace(_VALIDATOR, operator=name))
            POWERS_GIVEN.set(overlay, 1, name)
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
            bid = Bid(
                id=bid_id,
                validator=random.choice(names),
                offer=offer,
                capacity=10**18,
                expires_at=CLOCK + 10**6,
                placed_height=1,
            )
            BIDS.put(overlay, bid)
        self._write(overlay)
        self._reader = Overlay(self.storage.snapshot())

    def row(self, case: str, orders: Sequence[AuctionOrder], *, compared: bool = True) -> Row:
        """Measure the auction of ``orders``; with ``compared``, check that the baseline makes the same decisions."""
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
        return Row(case=case, value=1_000 * living, unit="ms", baseline=baseline)

    def derived(self) -> Row:
        """Measure the first auction after the start of a node, which builds the book and its indexes."""
        self._book = LivingBook()
        seconds, _ = self._auction([_asked(0, memory=1 << 60)])
        return Row("start: the book derived from 10000 bids", 1_000 * seconds, "ms")

    def _auction(self, orders: Sequence[AuctionOrder]) -> tuple[float, Matched]:
        block = Overlay(self._reader)
        self._change(block)
        start = perf_counter()
        book = self._book.at(block, version_of(self._reader))
        matched = match(orders, book, _SEED, CLOCK, len(orders))
        return perf_counter() - start, matched

    def _whole(self, orders: Sequence[AuctionOrder]) -> tuple[float, Matched]:
        # The state is as in a node that has decoded nothing since its last commit.
        block = Overlay(Overlay(self.storage.snapshot()))
        self._repeat(block)
        start = perf_counter()
        matched = whole_book.match(orders, get_standing(block), _SEED, CLOCK, len(orders))
        return perf_counter() - start, matched

    def _change(self, block: Overlay) -> None:
        """Change the prices of ``CHANGED`` random bids in a block."""
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
        """Commit a block that changes a few bids, and apply the changes to the order book."""
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
        self.storage.commit(COMMITTED, overlay.changes())


_VALIDATOR = Validator(
    operator="",
    moniker="",
    cons_key=bytes(32),
    cons_address=bytes(20),
    stake=10**15,
    jailed=False,
    endpoint="",
    certificate=b"",
    orders_settled=0,
    legs_failed=0,
    audits_answered=0,
    audits_missed=0,
)


def _asked(number: int, *, work: int = PFLOP, memory: int = 80 << 30, seconds: int = 86_400) -> AuctionOrder:
    """Return an order that requires at least ``memory``; a few percent of the bids fit the default."""
    conditions = Conditions(device_class="h100", memory=memory, regions=("de", "fr", "uk"), tiers=("exact",))
    return AuctionOrder(
        order_id=sha256(b"order %d" % number).digest(),
        rounds=10,
        slots=10,
        share_work=work // 100,
        outer_work=0,
        price_limit=1_200_000,
        conditions=conditions,
        excluded=(),
        seconds_left=seconds,
        verify_seconds=1_200,
        job_bond_bps=1_000,
        opened_height=2,
        payload_bytes=10**6,
        trial_work=work // 100,
        accept_seconds=60,
        accept_max=3_600,
        payload_fee=50,
    )


# --- the order book alone ------------------------------------------------------------------------


def _large(bids: int) -> list[Row]:
    """Return the rows of an order book with ``bids`` bids: its construction, auctions, and changes of bids."""
    random = Random(2)
    standing = [_standing(random, number, bids) for number in range(bids)]
    start = process_time()
    book = Book(standing)
    match([_asked(0)], book, _SEED, CLOCK, 1)
    rows = [Row(f"start: {bids} bids, and the first order", process_time() - start, "s")]
    cases = {
        "1 order": ([_asked(0)], None),
        "1000 orders": ([_asked(number, work=_SMALL) for number in range(1_000)], 50.0),
        "1000 orders, each other work": (
            [_asked(number, work=_SMALL + number * 10**9) for number in range(1_000)],
            None,
        ),
        "375 orders, each other work, no bid in time": (
            [_asked(number, work=PFLOP + number * 10**9, seconds=1_262) for number in range(375)],
            None,
        ),
    }
    for case, (orders, goal) in cases.items():
        times = []
        for number in range(REPEATS):
            seed = sha256(b"seed %d" % number).digest()
            start = process_time()
            match(orders, book, seed, CLOCK, len(orders))
            times.append(1_000 * (process_time() - start))
        rows.append(_times(f"{case}, {bids} bids", times, "ms", goal))
    return rows + _changes(random, book, standing)


_SMALL = PFLOP // 100


def _changes(random: Random, book: Book, standing: Sequence[StandingBid]) -> list[Row]:
    """Return the rows for the time to insert, to change and to withdraw a bid."""
    bids = len(standing)
    chosen = random.sample(range(bids), REPEATS * CHANGES)
    rows: dict[str, list[float]] = {"insert": [], "change": [], "withdraw": []}
    for number in range(REPEATS):
        old = [standing[at] for at in chosen[number::REPEATS]]
        new = [replace(row, bid=replace(row.bid, id=sha256(b"new" + row.bid.id).digest())) for row in old]
        prices = [random.randint(500_000, 1_500_000) for _ in old]
        changed = [
            replace(row, bid=replace(row.bid, offer=replace(row.bid.offer, price=price)))
            for row, price in zip(new, prices, strict=True)
        ]
        for name, todo in (("insert", new), ("change", changed), ("withdraw", changed)):
            start = process_time()
            for row in todo:
                if name == "withdraw":
                    book.remove(row.bid.id)
                else:
                    book.put(row)
            rows[name].append(1_000_000 * (process_time() - start) / CHANGES)
    goal = 50.0 * max(1, bids // 100_000)
    return [_times(f"{name} a bid, {bids} bids", times, "us", goal) for name, times in rows.items()]


def _memory(bids: int) -> Row:
    """Return the row for the memory per bid of an order book with its indexes, after every page was read."""
    random, storage = Random(3), Storage.temporary()
    overlay = Overlay(storage.snapshot())
    HEAD.put(
        overlay,
        Head(
            chain_id="assay-bench",
            denom="uassay",
            height=0,
            time_ns=0,
            clock_ns=0,
            last_hash=_SEED,
            beacon=_SEED,
        ),
    )
    for row in (_standing(random, number, bids) for number in range(bids)):
        VALIDATORS.put(overlay, replace(_VALIDATOR, operator=row.bid.validator))
        BOND_ACCOUNTS.put(overlay, BondAccount(row.bid.validator, row.free_bond, ()))
        BIDS.put(overlay, row.bid)
    storage.commit(COMMITTED, overlay.changes())
    del overlay, row
    gc.collect()
    tracemalloc.start()
    living = LivingBook()
    state = Overlay(storage.snapshot())
    book = living.at(state, version_of(state))
    for asked in (_asked(0, seconds=1_262), _asked(1)):
        quote(asked, book, _SEED, CLOCK)
    for _, page in book.upwards():
        for column in book.columns(asked):
            page.slots_by(column)
    del state
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    storage.close()
    return Row(
        case=f"memory of a bid, of {bids}",
        value=used / bids,
        unit="bytes",
        baseline=1_000,
        goal=1.0,
    )


def _times(case: str, times: Sequence[float], unit: str, goal: float | None) -> Row:
    least = min(times)
    return Row(
        case=case,
        value=least,
        unit=unit,
        baseline=goal,
        goal=goal and 1.0,
        columns={"median": median(times)},
    )


def _standing(random: Random, number: int, bids: int) -> StandingBid:
    """Return a bid whose price, speed and capacity differ from the values of all other bids."""
    of_validator = Random(number % (bids // 50))
    offer = Offer(
        price=random.randint(500_000, 1_500_000),
        slot_speed=random.randint(10**12, 10**14),
        slots=random.choice((1, 2, 4, 8, 12, 16, 24, 32, 64)),
        device_class=random.choice(_CLASSES),
        memory=random.choice((16, 40, 80)) << 30,
        regions=tuple(sorted(random.sample(_REGIONS, random.choice((1, 2))))),
        tiers=("exact",),
        min_work=random.randint(0, 10**13),
        max_work=random.randint(10**15, 10**19),
        providers_bps=7_000,
        max_payload=random.randint(10**6, 10**12),
        max_job_bond=random.randint(10**6, 10**9),
    )
    bid = Bid(
        id=sha256(b"bid %d" % number).digest(),
        validator=f"validator {number % (bids // 50):05}",
        offer=offer,
        capacity=10**18,
        expires_at=random.randint(2 * CLOCK, 10**6),
        placed_height=1,
    )
    free_bond, free_stake = of_validator.randint(10**6, 10**12), of_validator.randint(10**9, 10**15)
    return StandingBid(
        bid=bid,
        jailed=False,
        free_capacity=random.randint(10**14, 10**18),
        free_bond=free_bond,
        free_stake=free_stake,
    )
