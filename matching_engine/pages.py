"""Pages: the book in order of price, thousands of bids at a time.

A page has the bids between two prices, each in a slot of its own. For every column that an order asked for, it has the
sets of slots (:mod:`matching_engine.bands`) that tell which bids pass. So an order reads page after page, the cheapest
first, and a change of a bid touches one page or two. A full page is cut in two, and one with few bids is dissolved.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from matching_engine.bands import Slots, slots_of
from matching_engine.columns import BookColumn
from matching_engine.records import Standing

PAGE = 8_192
"""Slots of a page."""
PAGE_LEAST = PAGE // 16
"""A page with fewer bids is dissolved, if it is not the only one."""

_NUMBERS = tuple(range(PAGE))
"""One object for each number of a slot, in place of one for each bid."""

Key = tuple[int, bytes]
"""Price and id of a bid: by price, and no two bids have the same."""


def key_of(row: Standing) -> Key:
    """Return the place of a bid in the order of pages."""
    return row.bid.offer.price, row.bid.id


class BookPosition:
    """A bid in the book: what stands there, and in which slot of which page."""

    __slots__ = ("page", "row", "slot")

    def __init__(self, row: Standing, page: "Page", slot: int) -> None:
        """Lie in ``slot`` of ``page``."""
        self.row = row
        self.page = page
        self.slot = slot


class Page:
    """Bids between two prices."""

    __slots__ = ("bids", "free", "places", "slots")

    def __init__(self) -> None:
        """Have no bids."""
        self.places: list[BookPosition | None] = []
        self.free: list[int] = []
        self.bids = 0
        self.slots: dict[BookColumn, Slots] = {}

    def __len__(self) -> int:
        """Return how many bids it has."""
        return len(self.places) - len(self.free)

    def row(self, slot: int) -> Standing:
        """Return the bid in a slot."""
        place = self.places[slot]
        if place is None:
            raise LookupError(f"slot {slot} is free")
        return place.row

    def slots_by(self, column: BookColumn) -> Slots:
        """Return the slots by what a column reads; they are made when they are asked for first."""
        found = self.slots.get(column)
        if found is None:
            pairs = [(column.has(self.row(slot)), slot) for slot in slots_of(self.bids)]
            found = column.slots(pairs, self.reader(column))
            self.slots[column] = found
        return found

    def reader(self, column: BookColumn) -> Callable[[int], Any]:
        """Return the function from a slot to what a column reads of its bid."""
        return lambda slot: column.has(self.row(slot))

    def enter(self, row: Standing) -> BookPosition:
        """Give a bid a slot."""
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

    def __init__(self, rows: Iterable[Standing] = ()) -> None:
        """Lay out the bids, with room on every page."""
        ordered = sorted(rows, key=key_of)
        step = PAGE * 3 // 4
        self._lows: list[Key] = []
        self._pages: list[Page] = []
        self.places: dict[bytes, BookPosition] = {}
        """Where each bid lies, by its id."""
        for at in range(0, len(ordered), step):
            page = Page()
            self._lows.append(key_of(ordered[at]))
            self._pages.append(page)
            for row in ordered[at : at + step]:
                self.places[row.bid.id] = page.enter(row)

    def upwards(self) -> Iterator[tuple[int, Page]]:
        """Yield the pages, the cheapest first, each with a price that none of its bids is below."""
        return ((low, page) for (low, _), page in zip(self._lows, self._pages, strict=True))

    def keeps(self, place: BookPosition, row: Standing) -> bool:
        """Tell whether a bid stays on its page when it becomes ``row``."""
        key = key_of(row)
        at = self._at(key)
        if self._pages[at] is not place.page:
            return False
        self._lows[at] = min(key, self._lows[at])
        return True

    def enter(self, row: Standing) -> None:
        """Put a bid on its page."""
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
        """Take a bid from its page."""
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
        """Cut a page in two, each with half of the bids; they stay in slots with the same numbers."""
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
