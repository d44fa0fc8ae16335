"""The search for the cheapest bids that satisfy an order, page after page.

On each page the search intersects the sets of bids that pass each condition, beginning with the condition that most
bids fail. The remaining bids pass all conditions, except for two groups of bids that are tested one by one: bids in
doubt, and bids of validators with a fill in this auction. A fill only reduces amounts, so a bid that failed never
passes later. For this reason, orders with the same requirements share a search, and each order continues where the
previous order stopped.

``reads`` counts the work of a search, without the work that every search needs. This count depends only on bids and
orders, not on the distribution of bids over pages, so it is the same on every node.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from domain.market.records import Histogram
from matching_engine.bands import Bands, slots_of
from matching_engine.book import Book, Sold, make_histogram
from matching_engine.columns import Wish
from matching_engine.conditions import CONDITIONS, PRICE, STOOD
from matching_engine.pages import Page
from matching_engine.records import AuctionOrder, StandingBid

BIDS_PER_READ = 8_192
"""Number of bids that an intersection of sets processes in the time of one read."""
VALUES_PER_READ = 4
"""Number of different values in a column that can be compared with a wish in the time of one read."""
FEW = 64
"""Largest number of bids of a page that are tested and sorted by price at once. If there are more bids, they are read
band by band.
"""

COMMONS_MAX = 64
"""Largest number of entries in an auction's cache of the wishes that orders share. A full cache is emptied."""

_PRICE = CONDITIONS.index(PRICE)
_OWN = tuple([number for number, condition in enumerate(CONDITIONS) if condition.own])
_TAKEN = tuple([number for number, condition in enumerate(CONDITIONS) if condition.taken])

Candidates = list[tuple[bytes, bool]]
"""Bids of one price: the id of each bid, and True if the bid is in doubt."""
Doubted = tuple[Wish, int]
"""A wish, and the bids of a page of which it is in doubt whether they satisfy this wish."""


class Common:
    """The wishes that many orders of an auction share, and the bids that pass these wishes.

    During an auction, only fills change bids, and no condition that orders have in common reads a value that a fill
    changes. So the results stay valid until the auction ends.
    """

    def __init__(self, book: Book, order: AuctionOrder, clock: int) -> None:
        """Compute the wishes of ``order`` at ``clock`` (seconds)."""
        self.columns = book.columns(order)
        self.wishes = [
            column.wish(condition.want(order, clock))
            for condition, column in zip(CONDITIONS, self.columns, strict=False)
        ]
        """The wishes of all conditions, including those that depend on this order alone."""
        common = [wish for wish in self.wishes if not wish.column.condition.own]
        self.values = sum([wish.column.reading(wish.want) for wish in common])
        self.failing = max([wish.failing for wish in common])
        self._narrow = _narrow(common)
        self.stood = self.columns[-1].wish(STOOD.want(order, clock))
        self._passing: dict[Page, tuple[int, list[Doubted]]] = {}

    def passing(self, page: Page) -> tuple[int, list[Doubted]]:
        """Return two values: the page's bids that pass the shared wishes or are in doubt; and, for each wish, the bids
        that are in doubt.
        """
        found = self._passing.get(page)
        if found is None:
            found = self._passing[page] = _intersect(page, page.bids, self._narrow)
        return found


class Commons:
    """A cache of the wishes that many orders of an auction at ``clock`` (seconds) share."""

    def __init__(self, book: Book, clock: int) -> None:
        """Start with an empty cache."""
        self.book, self.clock = book, clock
        self._commons: dict[tuple[Any, ...], Common] = {}

    def of(self, order: AuctionOrder) -> Common:
        """Return the wishes that ``order`` shares with orders like it; compute them if they are not in the cache."""
        key = order.common
        common = self._commons.get(key)
        if common is None:
            if len(self._commons) >= COMMONS_MAX:
                self._commons = {}
            common = self._commons[key] = Common(self.book, order, self.clock)
        return common


class Search:
    """A search for the bids that satisfy an order, price by price: first bids older than the order, then the others."""

    def __init__(self, commons: Commons, sold: Sold, order: AuctionOrder) -> None:
        """Prepare the search; it reads no page yet."""
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
        # Bids at the current price by validator, with the amounts left after the fills so far. A validator's bids are
        # in order of id.
        self._group: dict[str, list[StandingBid]] = {}
        self._fills_seen = 0
        self._histogram: Histogram = ()
        self._counted = -1
        self._walking = self._walk(later=False)
        self._rest = [self._walk(later=True)] if self._stood.failing else []

    def best(self, ticket: Callable[[str], bytes]) -> StandingBid | None:
        """Return the bid that takes the order, or None; among validators of equal price the lowest ``ticket`` wins."""
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

    def all(self) -> list[StandingBid]:
        """Return all bids that satisfy the order."""
        walks = [self._walking, *self._rest]
        groups = [self._fitting(candidates) for walk in walks for candidates in walk]
        return [row for group in groups for rows in group.values() for row in rows]

    def histogram(self) -> Histogram:
        """Return the number of bids that fail each condition after the fills so far."""
        if self._counted != len(self._sold.fills):
            self._counted = len(self._sold.fills)
            self._sold.settle()
            self._histogram = make_histogram((wish.column, wish.want) for wish in self._wishes)
        return self._histogram

    def take_reads(self) -> int:
        """Return the reads since the last call, and reset them."""
        reads, self._reads = self._reads, 0
        return reads

    def end(self) -> None:
        """Drop the generators, which refer to the search, so that its memory is freed at once."""
        self._walking, self._rest = iter(()), []

    # --- bids one by one -----------------------------------------------------

    def _fitting(self, candidates: Candidates) -> dict[str, list[StandingBid]]:
        """Return those candidates that satisfy the order, grouped by validator."""
        group: dict[str, list[StandingBid]] = {}
        for bid_id, doubt in sorted(candidates):
            row = self._book.row(bid_id)
            if doubt or self._sold.touches(row):
                still = self._still_fitting(bid_id, doubt=doubt)
                if still is None:
                    continue
                row = still
            group.setdefault(row.bid.validator, []).append(row)
        return group

    def _still_fitting(self, bid_id: bytes, *, doubt: bool) -> StandingBid | None:
        """Return a bid with its capacity, bond and stake after the fills, or None if it no longer fits.

        If the bid no longer fits, update it in the book, so that other searches do not have to read it, too.
        """
        row = self._sold.current(bid_id)
        if self._fits(row, doubt=doubt):
            return row
        if not doubt or self._fits(self._book.row(bid_id), doubt=True):
            self._sold.refresh(bid_id)
        return None

    def _fits(self, row: StandingBid, *, doubt: bool) -> bool:
        """Return whether a bid satisfies the order.

        If the bid is not in doubt, only the conditions that fills affect are tested.
        """
        wishes = self._wishes if doubt else [self._wishes[number] for number in _TAKEN]
        for wish in wishes:  # noqa: SIM110 -- a generator costs as much as the tests
            if not wish.does(row):
                return False
        return True

    def _drop_sold(self) -> None:
        """Drop the bids that no longer fit after the latest fills."""
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
        """Yield the candidates of each price, the lowest first, and count the reads."""
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
        """Count the reads up to a price, at most one for each bid that passes.

        Return the reads of this search so far.
        """
        passed = len(self._book) - self._price.column.failing(want)
        reads = min(passed // BIDS_PER_READ, passing)
        self._reads += reads - before
        return reads

    def _upwards(self, *, later: bool) -> Iterator[tuple[int, list[tuple[int, bytes, bool]]]]:
        """Yield pairs (low, candidates) by ascending price.

        A candidate is (price, id, doubt), and none is cheaper than ``low``.
        """
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
        """Return the bids of ``mask`` in parts, the cheapest part first; at most ``FEW`` bids make one part."""
        if mask.bit_count() <= FEW:
            return (mask,)
        by_price = page.slots_by(self._price.column)
        return by_price.highest_first(mask) if isinstance(by_price, Bands) else (mask,)

    def _passing(self, page: Page, *, later: bool) -> tuple[int, int]:
        """Return two sets of a page's bids: those that pass, or may pass, every condition except the price; and, among
        these, those that only may pass.
        """
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
    """Return the wishes that at least one bid fails; the wish that most bids fail comes first."""
    return sorted([wish for wish in wishes if wish.failing], key=lambda wish: -wish.failing)


def _intersect(page: Page, found: int, wishes: Iterable[Wish]) -> tuple[int, list[Doubted]]:
    """Return two values: the bids among ``found`` that pass the wishes or are in doubt; and, for each wish, the bids
    that are in doubt.
    """
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
    """Test each of ``bids``, and return the bids that fail a wish."""
    failing = 0
    for slot in slots_of(bids):
        if not wish.does(page.row(slot)):
            failing |= 1 << slot
    return failing
