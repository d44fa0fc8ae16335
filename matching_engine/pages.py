"""Pages: the book in order of price, divided into pages of thousands of bids.

A page has the bids between two prices, each in its own slot. For every column that an order has used, the page has sets
of slots (:mod:`matching_engine.bands`) that show which bids pass. A search reads page after page, the cheapest first. A
change of a bid affects one or two pages. A full page is cut in two. If a page has few bids left, it is dissolved, and
its bids move to other pages.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from matching_engine.bands import Slots, slots_of
from matching_engine.columns import BookColumn
from matching_engine.records import StandingBid

PAGE = 8_192
"""Number of slots of a page."""
PAGE_LEAST = PAGE // 16
"""Least number of bids on a page. A page with fewer bids is dissolved, unless it is the only page."""

_NUMBERS = tuple(range(PAGE))
"""One integer object per slot number, which all pages share to save memory."""

Key = tuple[int, bytes]
"""The price and the id of a bid, so that keys are sorted by price and unique."""


def key_of(row: StandingBid) -> Key:
    """Return the key by which pages sort a bid."""
    return row.bid.offer.price, row.bid.id


class BookPosition:
    """The place of a bid in the book: its page and its slot there."""

    __slots__ = ("page", "row", "slot")

    def __init__(self, row: StandingBid, page: "Page", slot: int) -> None:
        """Put the bid into ``slot`` of ``page``."""
        self.row = row
        self.page = page
        self.slot = slot


class Page:
    """A page: the bids between two prices."""

    __slots__ = ("bids", "free", "places", "slots")

    def __init__(self) -> None:
        """Start without bids."""
        self.places: list[BookPosition | None] = []
        self.free: list[int] = []
        self.bids = 0
        self.slots: dict[BookColumn, Slots] = {}

    def __len__(self) -> int:
        """Return the number of bids."""
        return len(self.places) - len(self.free)

    def row(self, slot: int) -> StandingBid:
        """Return the bid in a slot."""
        place = self.places[slot]
        if place is None:
            raise LookupError(f"slot {slot} is free")
        return place.row

    def slots_by(self, column: BookColumn) -> Slots:
        """Return the slots indexed by a column's values; build the index on first use."""
        found = self.slots.get(column)
        if found is None:
            pairs = [(column.has(self.row(slot)), slot) for slot in slots_of(self.bids)]
            found = column.slots(pairs, self.reader(column))
            self.slots[column] = found
        return found

    def reader(self, column: BookColumn) -> Callable[[int], Any]:
        """Return a function that returns, for a slot, the value that a column reads of the bid in this slot."""
        return lambda slot: column.has(self.row(slot))

    def enter(self, row: StandingBid) -> BookPosition:
        """Put a bid into a free slot."""
        if self.free:
            place = BookPosition(row, self, self.free.pop())
            self.places[place.slot] = place
        else:
            place = BookPosition(row, self, _NUMBERS[len(self.places)])
            self.places.append(place)
        self.bids |= 1 << place.slot
        for column, slots in self.slots.items():
            slots.toggle(column.has(row), place.slot, there=True)
        return place

    def leave(self, place: BookPosition) -> None:
        """Free the slot of a bid."""
        for column, slots in self.slots.items():
            slots.toggle(column.has(place.row), place.slot, there=False)
        self.bids ^= 1 << place.slot
        self.places[place.slot] = None
        self.free.append(place.slot)


class BookPages:
    """All pages, in order of price."""

    def __init__(self, rows: Iterable[StandingBid] = ()) -> None:
        """Distribute the bids over pages, each with free slots."""
        ordered = sorted(rows, key=key_of)
        step = PAGE * 3 // 4
        self._lows: list[Key] = []
        self._pages: list[Page] = []
        self.places: dict[bytes, BookPosition] = {}
        """The position of each bid, by its id."""
        for at in range(0, len(ordered), step):
            page = Page()
            self._lows.append(key_of(ordered[at]))
            self._pages.append(page)
            for row in ordered[at : at + step]:
                self.places[row.bid.id] = page.enter(row)

    def upwards(self) -> Iterator[tuple[int, Page]]:
        """Yield the pages, the cheapest first, each with a price at or below the prices of all its bids."""
        return ((low, page) for (low, _), page in zip(self._lows, self._pages, strict=True))

    def keeps(self, place: BookPosition, row: StandingBid) -> bool:
        """Return whether a bid stays on its page if its row changes to ``row``.

        If it stays, adjust the lowest key of the page.
        """
        key = key_of(row)
        at = self._at(key)
        if self._pages[at] is not place.page:
            return False
        self._lows[at] = min(key, self._lows[at])
        return True

    def enter(self, row: StandingBid) -> None:
        """Add a bid to its page."""
        key = key_of(row)
        if not self._pages:
            self._lows.append(key)
            self._pages.append(Page())
        at = self._at(key)
        self._lows[at] = min(key, self._lows[at])
        page = self._pages[at]
        self.places[row.bid.id] = page.enter(row)
        if len(page) == PAGE:
            self._cut(at)

    def leave(self, bid_id: bytes) -> None:
        """Remove a bid from its page."""
        place = self.places.pop(bid_id)
        page = place.page
        at = self._at(key_of(place.row))
        page.leave(place)
        if len(page) < PAGE_LEAST and len(self._pages) > 1:
            del self._lows[at], self._pages[at]
            for slot in slots_of(page.bids):
                self.enter(page.row(slot))

    def _at(self, key: Key) -> int:
        return max(0, bisect_right(self._lows, key) - 1)

    def _cut(self, at: int) -> None:
        """Cut a page into two with half of its bids each. The bids keep the numbers of their slots."""
        page = self._pages[at]
        keys = sorted(key_of(page.row(slot)) for slot in slots_of(page.bids))
        middle = keys[len(keys) // 2]
        dear = sum(1 << slot for slot in slots_of(page.bids) if key_of(page.row(slot)) >= middle)
        self._pages[at : at + 1] = self._part(page, page.bids ^ dear), self._part(page, dear)
        self._lows.insert(at + 1, middle)

    def _part(self, page: Page, bids: int) -> Page:
        part = Page()
        part.bids = bids
        part.places = [place if bids >> slot & 1 else None for slot, place in enumerate(page.places)]
        part.free = [slot for slot, place in enumerate(part.places) if place is None]
        for place in part.places:
            if place is not None:
                place.page = part
        part.slots = {column: slots.part(bids, part.reader(column)) for column, slots in page.slots.items()}
        return part
