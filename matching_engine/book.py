"""The order book: standing bids, by what the conditions read of them.

A book is fed with changes and lives as long as its owner likes. For each condition it has a column
(:mod:`matching_engine.columns`), which counts the bids that fail an order without looking at them. The bids lie in
pages in order of price (:mod:`matching_engine.pages`), which tell by sets of bits which bids pass. So a change of a bid
costs a few steps in each column, whatever the size of the book. A histogram costs a bisection for each condition. The
cheapest bid that satisfies an order is found by intersecting sets, page after page (:mod:`matching_engine.search`).

An auction counts off what it sells (:class:`Sold`) beside the book, which stays what the state says.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from domain.amount import price_ceil
from domain.market.records import Histogram
from matching_engine.columns import BookColumn, make_column
from matching_engine.conditions import CONDITIONS, STOOD, Condition
from matching_engine.pages import BookPages, Page
from matching_engine.records import Asked, Fill, Standing

Backing = tuple[bool, int, int, int]
"""What is one for all bids of a validator: jailed, free bond, free stake, and when it last worsened a bid."""

COLUMNS_MAX = 64
"""Orders keep their parameters for life, so that few bases occur; with more, a new auction begins without columns."""
READS_PER_REFRESH = 10
"""What it takes to bring a bid up to date, and to put it back as it was."""

_READ = (*CONDITIONS, STOOD)
"""What the book has columns of."""


class Book:
    """Standing bids by id."""

    def __init__(self, standing: Iterable[Standing] = ()) -> None:
        """Take the bids; ValueError for a bid twice, or a validator with two free amounts."""
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

    def put(self, row: Standing) -> None:
        """Put a bid in, or in place of what it was.

        Raises ValueError where other bids of the validator have another bond or stake, because it has one of each.
        """
        for bid_id in self._of_validator.get(row.bid.validator, ()):
            if bid_id != row.bid.id:
                _check_backing(row, _free(self._pages.places[bid_id].row))
                break
        self.set(row)

    def set(self, row: Standing) -> None:
        """Put a bid in, or in place of what it was, whatever other bids of its validator say."""
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
        """Take a bid out, if it is there."""
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

    def back(self, validator: str, backing: Backing) -> None:
        """Set what a validator can give, for all its bids."""
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
        """Drop the columns if they are many; nothing may use them meanwhile."""
        if len(self._columns) > COLUMNS_MAX:
            self._columns, self._columns_for = {}, {}
            for _, page in self._pages.upwards():
                page.slots = {}

    # --- questions -----------------------------------------------------------

    def __len__(self) -> int:
        """Return how many bids stand."""
        return len(self._pages.places)

    def standing(self) -> list[Standing]:
        """Return all bids by id."""
        return [self._pages.places[bid_id].row for bid_id in sorted(self._pages.places)]

    def of_validator(self, validator: str) -> list[Standing]:
        """Return the bids of a validator."""
        places = self._pages.places
        return [places[bid_id].row for bid_id in self._of_validator.get(validator, ())]

    def ids_of(self, validator: str) -> Sequence[bytes]:
        """Return the ids of the bids of a validator."""
        return self._of_validator.get(validator, ())

    def backing(self, validator: str) -> Backing | None:
        """Return what a validator can give, as :meth:`back` takes it; None where it has no bid."""
        for bid_id in self._of_validator.get(validator, ()):
            row = self._pages.places[bid_id].row
            return row.jailed, row.free_bond, row.free_stake, row.worsened_height
        return None

    def row(self, bid_id: bytes) -> Standing:
        """Return a bid that stands."""
        return self._pages.places[bid_id].row

    def histogram(self, order: Asked, clock: int) -> Histogram:
        """Count the bids that fail on each condition of ``order`` at ``clock`` (seconds)."""
        return make_histogram(
            (column, condition.want(order, clock))
            for condition, column in zip(CONDITIONS, self.columns(order), strict=False)
        )

    def columns(self, order: Asked) -> list[BookColumn]:
        """Return the columns of all conditions, and at last that of ``STOOD``; the first order that asks makes them."""
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
        """Yield the pages, the cheapest first, each with a price that none of its bids is below."""
        return self._pages.upwards()


class Sold:
    """What the fills of an auction took: nothing is sold twice, and the book is as it was when all is over.

    A fill takes work off its bid, and job bond and value off every bid of its validator. These bids are brought up to
    date in the book when that is needed: all of them before bids are counted (:meth:`settle`), and one that no longer
    does for an order when it is looked at (:meth:`refresh`), so that no other order looks at it in vain.
    """

    def __init__(self, book: Book) -> None:
        """Begin an auction, in which nothing is sold yet."""
        self._book = book
        self.fills: list[Fill] = []
        self._work: dict[bytes, int] = {}
        self._backed: dict[str, tuple[int, int]] = {}
        # Of each validator from whom a fill took: its bids that were brought up to date since the latest one.
        self._fresh: dict[str, dict[bytes, None]] = {}
        self._before: dict[bytes, Standing] = {}
        self._reads = 0

    def take(self, fill: Fill) -> None:
        """Take off what a fill takes."""
        self.fills.append(fill)
        bond, value = self._backed.get(fill.validator, (0, 0))
        value += price_ceil(fill.work, fill.price)
        self._backed[fill.validator] = bond + fill.job_bond, value
        self._work[fill.bid_id] = self._work.get(fill.bid_id, 0) + fill.work
        self._fresh[fill.validator] = {}

    def touches(self, row: Standing) -> bool:
        """Tell whether a fill took from the bid's validator."""
        return row.bid.validator in self._backed

    def current(self, bid_id: bytes) -> Standing:
        """Return a bid as it stands after the fills."""
        row = self._before.get(bid_id) or self._book.row(bid_id)
        taken = self._backed.get(row.bid.validator)
        if taken is None:
            return row
        return Standing(
            bid=row.bid,
            jailed=row.jailed,
            free_capacity=row.free_capacity - self._work.get(bid_id, 0),
            free_bond=row.free_bond - taken[0],
            free_stake=row.free_stake - taken[1],
            worsened_height=row.worsened_height,
        )

    def refresh(self, bid_id: bytes) -> None:
        """Bring a bid up to date in the book."""
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
        """Bring all bids up to date in the book."""
        for validator in self._fresh:
            for bid_id in self._book.ids_of(validator):
                self.refresh(bid_id)
        self._fresh = {}

    def take_reads(self) -> int:
        """Return the reads since the last call: bids that were brought up to date (:mod:`matching_engine.search`)."""
        reads, self._reads = self._reads, 0
        return reads

    def undo(self) -> None:
        """Put everything back."""
        for row in self._before.values():
            self._book.set(row)


def make_histogram(wishes: Iterable[tuple[BookColumn, Any]]) -> Histogram:
    """Count the bids that fail on each column for what is wanted of it."""
    counts = [(column.name, column.failing(want)) for column, want in wishes]
    return tuple([(name, count) for name, count in counts if count])


def _free(row: Standing) -> tuple[int, int]:
    return row.free_bond, row.free_stake


def _check_backing(row: Standing, free: tuple[int, int]) -> None:
    if _free(row) != free:
        raise ValueError(f"{row.bid.validator} has one bond and one stake, but two free amounts")
