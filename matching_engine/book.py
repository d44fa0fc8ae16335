"""The order book: all standing bids, indexed by the values that conditions read.

A book stays in memory and is updated with each change of a bid. It has a column for each condition
(:mod:`matching_engine.columns`), which counts the bids that fail an order without reading each of them. The bids are in
pages in order of price (:mod:`matching_engine.pages`); a page stores the bids that pass a condition as sets of bits. So
if a bid changes, each column is updated in a few steps, even in a large book. A histogram needs one bisection for each
condition. The search intersects these sets, page after page, to find the cheapest bid that satisfies an order
(:mod:`matching_engine.search`).

During an auction :class:`Sold` records the sales. After the auction the book again shows what the state holds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from domain.amount import price_ceil
from domain.market.records import Histogram
from matching_engine.columns import BookColumn, make_column
from matching_engine.conditions import CONDITIONS, STOOD, Condition
from matching_engine.pages import BookPages, Page
from matching_engine.records import AuctionOrder, Fill, StandingBid

Backing = tuple[bool, int, int, int]
"""Values that all bids of a validator share: jailed, free bond, free stake, and the height of the last worsened bid."""

COLUMNS_MAX = 64
"""Largest number of columns of a book. If there are more, a new auction drops all columns. Normally there are few: the
parameters of most orders are the same, so a condition needs few columns.
"""
READS_PER_REFRESH = 10
"""Number of reads that an auction counts each time that it updates a bid in the book, which it later has to restore."""

_READ = (*CONDITIONS, STOOD)
"""The conditions for which the book has columns."""


class Book:
    """All standing bids, by id."""

    def __init__(self, standing: Iterable[StandingBid] = ()) -> None:
        """Fill the book with bids.

        Raise ValueError if a bid occurs twice, or if two bids of one validator differ in free bond or free stake.
        """
        rows = list(standing)
        self._of_validator: dict[str, list[bytes]] = {}
        self._columns: dict[tuple[str, int], BookColumn] = {}
        self._columns_for: dict[tuple[int, ...], list[BookColumn]] = {}
        backing: dict[str, tuple[int, int]] = {}
        for row in rows:
            self._of_validator.setdefault(row.bid.validator, []).append(row.bid.id)
            _check_backing(row, backing.setdefault(row.bid.validator, _free(row)))
        self._pages = BookPages(rows)
        if len(self) != len(rows):
            raise ValueError("a bid is in the book twice")

    # --- changes -------------------------------------------------------------

    def put(self, row: StandingBid) -> None:
        """Add a bid, or replace the bid of the same id.

        Raise ValueError if another bid of the same validator has a different free bond or stake.
        """
        for bid_id in self._of_validator.get(row.bid.validator, ()):
            if bid_id != row.bid.id:
                _check_backing(row, _free(self._pages.places[bid_id].row))
                break
        self.set(row)

    def set(self, row: StandingBid) -> None:
        """Add a bid, or replace the bid of the same id, without comparing it with other bids of its validator."""
        place = self._pages.places.get(row.bid.id)
        if place is None:
            self._of_validator.setdefault(row.bid.validator, []).append(row.bid.id)
            for column in self._columns.values():
                column.add(column.has(row))
            self._pages.enter(row)
            return
        before, place.row = place.row, row
        same_page = self._pages.keeps(place, row)
        changed: list[tuple[BookColumn, Any, Any]] = []
        for column in self._columns.values():
            was, now = column.has(before), column.has(row)
            if was != now:
                column.remove(was)
                column.add(now)
                changed.append((column, was, now))
        if not same_page:
            place.row = before
            self._pages.leave(row.bid.id)
            self._pages.enter(row)
            return
        for column, was, now in changed:
            if slots := place.page.slots.get(column):
                slots.toggle(was, place.slot, there=False)
                slots.toggle(now, place.slot, there=True)

    def remove(self, bid_id: bytes) -> None:
        """Remove a bid, if it is there."""
        place = self._pages.places.get(bid_id)
        if place is None:
            return
        for column in self._columns.values():
            column.remove(column.has(place.row))
        of_validator = self._of_validator[place.row.bid.validator]
        of_validator.remove(bid_id)
        if not of_validator:
            del self._of_validator[place.row.bid.validator]
        self._pages.leave(bid_id)

    def set_backing(self, validator: str, backing: Backing) -> None:
        """Set the values of ``backing`` in all bids of a validator."""
        jailed, free_bond, free_stake, worsened_height = backing
        for row in self.of_validator(validator):
            self.set(
                replace(
                    row,
                    jailed=jailed,
                    free_bond=free_bond,
                    free_stake=free_stake,
                    worsened_height=worsened_height,
                )
            )

    def trim(self) -> None:
        """Drop all columns if there are more than ``COLUMNS_MAX``; no search may be using them."""
        if len(self._columns) > COLUMNS_MAX:
            self._columns, self._columns_for = {}, {}
            for _, page in self._pages.upwards():
                page.slots = {}

    # --- questions -----------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of bids."""
        return len(self._pages.places)

    def standing(self) -> list[StandingBid]:
        """Return all bids, in order of id."""
        return [self._pages.places[bid_id].row for bid_id in sorted(self._pages.places)]

    def of_validator(self, validator: str) -> list[StandingBid]:
        """Return the bids of a validator."""
        places = self._pages.places
        return [places[bid_id].row for bid_id in self._of_validator.get(validator, ())]

    def ids_of(self, validator: str) -> Sequence[bytes]:
        """Return the ids of the bids of a validator."""
        return self._of_validator.get(validator, ())

    def backing(self, validator: str) -> Backing | None:
        """Return the backing of a validator, as :meth:`set_backing` takes it; None if the validator has no bid."""
        for bid_id in self._of_validator.get(validator, ()):
            row = self._pages.places[bid_id].row
            return row.jailed, row.free_bond, row.free_stake, row.worsened_height
        return None

    def row(self, bid_id: bytes) -> StandingBid:
        """Return a bid, which must be in the book."""
        return self._pages.places[bid_id].row

    def histogram(self, order: AuctionOrder, clock: int) -> Histogram:
        """Return the number of bids that fail each condition of ``order`` at ``clock`` (seconds)."""
        return make_histogram(
            (column, condition.want(order, clock))
            for condition, column in zip(CONDITIONS, self.columns(order), strict=False)
        )

    def columns(self, order: AuctionOrder) -> list[BookColumn]:
        """Return the columns of all conditions, the last one for ``STOOD``; build them if they are not there yet."""
        bases = tuple([condition.basis(order) for condition in _READ])
        columns = self._columns_for.get(bases)
        if columns is None:
            columns = list(map(self._column, _READ, bases))
            self._columns_for[bases] = columns
        return columns

    def _column(self, condition: Condition, basis: int) -> BookColumn:
        column = self._columns.get((condition.name, basis))
        if column is None:
            rows = (place.row for place in self._pages.places.values())
            column = make_column(condition, basis, rows)
            self._columns[condition.name, basis] = column
        return column

    def upwards(self) -> Iterable[tuple[int, Page]]:
        """Yield the pages, the cheapest first, each with a price at or below the prices of all its bids."""
        return self._pages.upwards()


class Sold:
    """A record of the capacity, bond and stake that the fills of an auction have used, so that nothing is sold twice.

    A fill reduces the free capacity of its bid, and the free bond and stake of all bids of its validator. The book is
    updated only when needed. Before bids are counted, :meth:`settle` updates all these bids. If a search finds a bid
    that no longer fits, it calls :meth:`refresh`, so that other searches do not have to read this bid, too. At the end
    of the auction :meth:`undo` restores the book.
    """

    def __init__(self, book: Book) -> None:
        """Begin an auction without sales."""
        self._book = book
        self.fills: list[Fill] = []
        self._work: dict[bytes, int] = {}
        self._backed: dict[str, tuple[int, int]] = {}
        # For each validator with a fill: its bids that were updated in the book since its latest fill.
        self._fresh: dict[str, dict[bytes, None]] = {}
        self._before: dict[bytes, StandingBid] = {}
        self._reads = 0

    def take(self, fill: Fill) -> None:
        """Record a fill."""
        self.fills.append(fill)
        bond, value = self._backed.get(fill.validator, (0, 0))
        value += price_ceil(fill.work, fill.price)
        self._backed[fill.validator] = bond + fill.job_bond, value
        self._work[fill.bid_id] = self._work.get(fill.bid_id, 0) + fill.work
        self._fresh[fill.validator] = {}

    def touches(self, row: StandingBid) -> bool:
        """Return whether the bid's validator has a fill in this auction."""
        return row.bid.validator in self._backed

    def current(self, bid_id: bytes) -> StandingBid:
        """Return a bid with the capacity, bond and stake that are free after the fills so far."""
        row = self._before.get(bid_id) or self._book.row(bid_id)
        used = self._backed.get(row.bid.validator)
        if used is None:
            return row
        bond, value = used
        return StandingBid(
            bid=row.bid,
            jailed=row.jailed,
            free_capacity=row.free_capacity - self._work.get(bid_id, 0),
            free_bond=row.free_bond - bond,
            free_stake=row.free_stake - value,
            worsened_height=row.worsened_height,
        )

    def refresh(self, bid_id: bytes) -> None:
        """Update a bid in the book, if its validator had a fill since the last update."""
        before = self._book.row(bid_id)
        fresh = self._fresh.get(before.bid.validator)
        if fresh is None or bid_id in fresh:
            return
        fresh[bid_id] = None
        self._reads += READS_PER_REFRESH
        current = self.current(bid_id)
        self._before.setdefault(bid_id, before)
        self._book.set(current)

    def settle(self) -> None:
        """Update in the book all bids of validators with a fill."""
        for validator in self._fresh:
            for bid_id in self._book.ids_of(validator):
                self.refresh(bid_id)
        self._fresh = {}

    def take_reads(self) -> int:
        """Return the number of reads since the last call, and reset it (see :mod:`matching_engine.search`)."""
        reads, self._reads = self._reads, 0
        return reads

    def undo(self) -> None:
        """Restore the book to its content before the auction."""
        for row in self._before.values():
            self._book.set(row)


def make_histogram(wishes: Iterable[tuple[BookColumn, Any]]) -> Histogram:
    """Return the number of bids that fail the required value of each column, without zeros."""
    counts = [(column.name, column.failing(want)) for column, want in wishes]
    return tuple([(name, count) for name, count in counts if count])


def _free(row: StandingBid) -> tuple[int, int]:
    return row.free_bond, row.free_stake


def _check_backing(row: StandingBid, free: tuple[int, int]) -> None:
    if _free(row) != free:
        raise ValueError(f"bids of {row.bid.validator} differ in free bond or free stake; a validator has one of each")
