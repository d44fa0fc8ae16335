"""The search for the cheapest bids that satisfy an order, page after page.

On a page the sets of bids that pass each condition are intersected, the condition first that most bids fail. What is
left passes them all, but for bids in doubt, and bids of validators from whom a fill of this auction took: these are
tested one by one. A fill only takes away, so a bid that was passed over never comes back, and orders that ask the same
go on with one search where the one before stopped.

``reads`` count what a search looks at beyond what every search does. They depend on bids and orders alone, not on how
the bids came to lie on their pages: the number is the same on every node.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from domain.market.records import Histogram
from matching_engine.bands import Bands, slots_of
from matching_engine.book import Book, Sold, make_histogram
from matching_engine.columns import Wish
from matching_engine.conditions import CONDITIONS, PRICE, STOOD
from matching_engine.pages import Page
from matching_engine.records import Asked, Standing

BIDS_PER_READ = 8_192
"""Bids, in order of price, that an intersection passes in the time of one read."""
VALUES_PER_READ = 4
"""Different values of a column that are compared with what an order wants in that time."""
FEW = 64
"""So many bids of a page are sorted by price, and doubts about them removed; more are read band by band."""

COMMONS_MAX = 64
"""An auction remembers so many different things that orders want in common; with more it begins anew."""

_PRICE = CONDITIONS.index(PRICE)
_OWN = tuple([number for number, condition in enumerate(CONDITIONS) if condition.own])
_TAKEN = tuple([number for number, condition in enumerate(CONDITIONS) if condition.taken])

Candidates = list[tuple[bytes, bool]]
"""Bids of one price by id, and whether they are in doubt."""
Doubted = tuple[Wish, int]
"""The bids of a page about which a condition leaves a doubt."""


class Common:
    """What many orders of an auction want alike, and which bids pass that.

    An auction changes bids in nothing but what fills take, and no condition that orders have in common reads that. So
    all this stays true until the auction ends.
    """

    def __init__(self, book: Book, order: Asked, clock: int) -> None:
        """Take what ``order`` wants at ``clock`` (seconds)."""
        self.columns = book.columns(order)
        self.wishes = [
            column.wish(condition.want(order, clock))
            for condition, column in zip(CONDITIONS, self.columns, strict=False)
        ]
        """Of all conditions, those of the order's own among them."""
        common = [wish for wish in self.wishes if not wish.column.condition.own]
        self.values = sum([wish.column.reading(wish.want) for wish in common])
        self.failing = max([wish.failing for wish in common])
        self._narrow = _narrow(common)
        self.stood = self.columns[-1].wish(STOOD.want(order, clock))
        self._passing: dict[Page, tuple[int, list[Doubted]]] = {}

    def passing(self, page: Page) -> tuple[int, list[Doubted]]:
        """Return which bids of a page pass or are in doubt, and the doubts."""
        found = self._passing.get(page)
        if found is None:
            found = self._passing[page] = _intersect(page, page.bids, self._narrow)
        return found


class Commons:
    """What the orders of an auction at ``clock`` (seconds) want in common."""

    def __init__(self, book: Book, clock: int) -> None:
        """Remember nothing yet."""
        self.book, self.clock = book, clock
        self._commons: dict[tuple[Any, ...], Common] = {}

    def of(self, order: Asked) -> Common:
        """Return what ``order`` has in common with others."""
        key = order.common
        common = self._commons.get(key)
        if common is None:
            if len(self._commons) >= COMMONS_MAX:
                self._commons = {}
            common = self._commons[key] = Common(self.book, order, self.clock)
        return common


class Search:
    """The bids that satisfy an order, price by price: first those that stood before it, then the others."""

    def __init__(self, commons: Commons, sold: Sold, order: Asked) -> None:
        """Prepare to search."""
        self._book, self._sold = commons.book, sold
        common = self._common = commons.of(order)
        wishes = self._wishes = list(common.wishes)
        values, columns, clock = common.values, common.columns, commons.clock
        for number in _OWN:
            column, want = columns[number], CONDITIONS[number].want(order, clock)
            wishes[number] = column.wish(want)
            values += column.reading(want)
        self._reads = values // VALUES_PER_READ
        self._price = wishes[_PRICE]
        self._narrow = _narrow([wishes[number] for number in _OWN if number != _PRICE])
        self._stood = common.stood
        # Bids of the price that was reached, as they stand, by validator, and each validator's by id.
        self._group: dict[str, list[Standing]] = {}
        self._fills_seen = 0
        self._histogram: Histogram = ()
        self._counted = -1
        self._walking = self._walk(later=False)
        self._rest = [self._walk(later=True)] if self._stood.failing else []

    def best(self, ticket: Callable[[str], bytes]) -> Standing | None:
        """Return the bid that takes the order; between validators of the same price the lowest ``ticket`` decides."""
        self._drop_sold()
        while not self._group:
            candidates = next(self._walking, None)
            if candidates is not None:
                self._group = self._fitting(candidates)
                self._reads += sum(map(len, self._group.values()))
            elif self._rest:
                self._walking = self._rest.pop()
            else:
                return None
        winner = next(iter(self._group))
        if len(self._group) > 1:
            self._reads += len(self._group)
            winner = min(self._group, key=ticket)
        return self._group[winner][0]

    def all(self) -> list[Standing]:
        """Return all bids that satisfy the order."""
        walks = [self._walking, *self._rest]
        groups = [self._fitting(candidates) for walk in walks for candidates in walk]
        return [row for group in groups for rows in group.values() for row in rows]

    def histogram(self) -> Histogram:
        """Return how many bids fail on which condition after the fills so far."""
        if self._counted != len(self._sold.fills):
            self._counted = len(self._sold.fills)
            self._sold.settle()
            self._histogram = make_histogram((wish.column, wish.want) for wish in self._wishes)
        return self._histogram

    def take_reads(self) -> int:
        """Return the reads since the last call."""
        reads, self._reads = self._reads, 0
        return reads

    def end(self) -> None:
        """Let go of what refers to the search itself, so that its memory is free at once."""
        self._walking, self._rest = iter(()), []

    # --- bids one by one -----------------------------------------------------

    def _fitting(self, candidates: Candidates) -> dict[str, list[Standing]]:
        """Return the candidates that satisfy the order, by validator."""
        group: dict[str, list[Standing]] = {}
        for bid_id, doubt in sorted(candidates):
            row = self._book.row(bid_id)
            if doubt or self._sold.touches(row):
                still = self._still_fitting(bid_id, doubt=doubt)
                if still is None:
                    continue
                row = still
            group.setdefault(row.bid.validator, []).append(row)
        return group

    def _still_fitting(self, bid_id: bytes, *, doubt: bool) -> Standing | None:
        """Return a bid as it stands after the fills, if it fits.

        A bid that they made unfit is brought up to date in the book, so that no other search looks at it in vain.
        """
        row = self._sold.current(bid_id)
        if self._fits(row, doubt=doubt):
            return row
        if not doubt or self._fits(self._book.row(bid_id), doubt=True):
            self._sold.refresh(bid_id)
        return None

    def _fits(self, row: Standing, *, doubt: bool) -> bool:
        """Test all conditions of a bid in doubt; of another, those on which a fill can have made it fail."""
        wishes = self._wishes if doubt else [self._wishes[number] for number in _TAKEN]
        for wish in wishes:  # noqa: SIM110 -- a generator costs as much as the tests
            if not wish.does(row):
                return False
        return True

    def _drop_sold(self) -> None:
        """Drop the bids that the latest fills made unfit."""
        fills = self._sold.fills
        if self._group:
            for number in range(self._fills_seen, len(fills)):
                validator = fills[number].validator
                before = self._group.pop(validator, [])
                rows = [self._still_fitting(row.bid.id, doubt=False) for row in before]
                if left := [row for row in rows if row is not None]:
                    self._group[validator] = left
        self._fills_seen = len(fills)

    # --- the walk ------------------------------------------------------------

    def _walk(self, *, later: bool) -> Iterator[Candidates]:
        """Yield the candidates of each price, the lowest first, and count what is read on the way."""
        failing = max([self._common.failing, *[wish.failing for wish in self._narrow]])
        passing = len(self._book) - failing
        if later:
            passing = min(passing, self._stood.failing)
        reads = reached = 0
        found: Candidates = []
        for low, bids in self._upwards(later=later) if passing else ():
            if found and low > reached:
                reads = self._charge(-reached, passing, reads)
                yield found
                found = []
            for price, bid_id, doubt in bids:
                if found and price > reached:
                    reads = self._charge(-reached, passing, reads)
                    yield found
                    found = []
                reached = price
                found.append((bid_id, doubt))
        if found:
            reads = self._charge(-reached, passing, reads)
            yield found
        self._charge(self._price.want, passing, reads)

    def _charge(self, want: int, passing: int, before: int) -> int:
        """Count what was read up to a price; at most one read for each bid that could have been found."""
        passed = len(self._book) - self._price.column.failing(want)
        reads = min(passed // BIDS_PER_READ, passing)
        self._reads += reads - before
        return reads

    def _upwards(self, *, later: bool) -> Iterator[tuple[int, list[tuple[int, bytes, bool]]]]:
        """Yield candidates (price, id, doubt) by ascending price, some at a time after a price that none is below."""
        for low, page in self._book.upwards():
            if -low < self._price.want:
                return
            yield low, []
            mask, doubt = self._passing(page, later=later)
            for part in self._cheapest_first(page, mask):
                bids = []
                for slot in slots_of(part):
                    bid = page.row(slot).bid
                    if -bid.offer.price >= self._price.want:
                        bids.append((bid.offer.price, bid.id, bool(doubt >> slot & 1)))
                if bids:
                    bids.sort()
                    yield bids[0][0], bids

    def _cheapest_first(self, page: Page, mask: int) -> Iterable[int]:
        """Return the bids of ``mask`` in parts by ascending price; of few bids, all at once."""
        if mask.bit_count() <= FEW:
            return (mask,)
        by_price = page.slots_by(self._price.column)
        return by_price.highest_first(mask) if isinstance(by_price, Bands) else (mask,)

    def _passing(self, page: Page, *, later: bool) -> tuple[int, int]:
        """Return which bids of a page pass all conditions but the price, and which of them are in doubt."""
        found, common_doubts = self._common.passing(page)
        unsure = 0
        if self._stood.failing:
            stood, unsure = page.slots_by(self._stood.column).passing(self._stood.want)
            found &= ~stood | unsure if later else stood
        found, doubts = _intersect(page, found, self._narrow)
        doubts += common_doubts
        too_late = _failing_of(self._stood, page, found & unsure)
        found ^= found & unsure & ~too_late if later else too_late
        few = found.bit_count() <= FEW
        doubt = 0
        for wish, doubted in doubts:
            if few:
                found ^= _failing_of(wish, page, found & doubted)
            else:
                doubt |= doubted
        return found, doubt & found


def _narrow(wishes: Iterable[Wish]) -> list[Wish]:
    """Return the wishes for which some bids fail, first that for which most do."""
    return sorted([wish for wish in wishes if wish.failing], key=lambda wish: -wish.failing)


def _intersect(page: Page, found: int, wishes: Iterable[Wish]) -> tuple[int, list[Doubted]]:
    """Return which of these bids of a page pass the wishes or are in doubt, and the doubts."""
    doubts: list[Doubted] = []
    for wish in wishes:
        if not found:
            break
        passing, doubted = page.slots_by(wish.column).passing(wish.want)
        found &= passing
        if doubted:
            doubts.append((wish, doubted))
    return found, doubts


def _failing_of(wish: Wish, page: Page, bids: int) -> int:
    """Return which of these bids fail, looking at each."""
    failing = 0
    for slot in slots_of(bids):
        if not wish.does(page.row(slot)):
            failing |= 1 << slot
    return failing
