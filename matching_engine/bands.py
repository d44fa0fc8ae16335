"""Sets of a page's bids that pass a condition. Each set is stored as an integer with one bit per bid.

A page has a slot for each of its bids. An integer with a bit for each slot is a set of bids, and one operation
intersects two sets of thousands of bids. A band holds the bids whose amounts are between two bounds, so the bids with
at least a given amount are a union of bands. The bounds are chosen so that a band has few bids, unless all its amounts
are the same. One band may have bids both above and below the amount that an order needs. The bids of that band are in
doubt, and the caller tests them one by one.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import accumulate, groupby
from operator import itemgetter, or_
from typing import Any

BAND = 256
"""Number of bids in a new band. A band is cut again when it has more than twice this number of bids."""
RANKED_BAND = 64
"""Number of bids in a new band of prices. It is smaller, because a search reads the bids of the cheapest band one by
one."""
STRIDE = 8
"""Number of bands per stored union of bands."""
STRIPES = 16
"""Largest number of stripes of a page. A stripe is a range of groups."""

Passing = tuple[int, int]
"""Two sets of slots: the bids that pass or are in doubt, and the bids in doubt alone."""
Valued = tuple[Any, int]
"""The value that a condition reads of a bid, and the bid's slot."""


class Slots(ABC):
    """An index of a page's slots by the values that one condition reads of the bids in them."""

    @abstractmethod
    def toggle(self, value: Any, slot: int, *, there: bool) -> None:
        """Add the bid in ``slot`` under ``value`` if ``there`` is true; otherwise remove the bid."""

    @abstractmethod
    def passing(self, want: Any) -> Passing:
        """Return two sets of bids: those that pass ``want`` or are in doubt, and those that are in doubt.

        ``want`` has the form that the condition's column makes.
        """

    @abstractmethod
    def part(self, mask: int, value_of: Callable[[int], Any]) -> "Slots":
        """Return a new index of only the slots in ``mask``. ``value_of`` returns the value of a slot."""


class Bands(Slots):
    """An index of slots by an amount that must be at least the amount that an order needs."""

    def __init__(self, pairs: Iterable[Valued], value_of: Callable[[int], int], *, ranked: bool = False) -> None:
        """Index the slots of ``pairs`` (amount, slot).

        ``value_of`` returns the amount of a slot. ``ranked`` is True for the price.
        """
        self._value_of, self._ranked = value_of, ranked
        self._band = RANKED_BAND if ranked else BAND
        # Band i has the amounts above tops[i - 1] and up to tops[i]; the last band has no top.
        self._tops, self._masks, self._counts = _cut(sorted(pairs), None, self._band)
        self._from: list[int] = []
        # The last result, because consecutive orders often need the same amount. Every change of the bands drops it.
        self._last: tuple[int, Passing] | None = None

    def toggle(self, value: int, slot: int, *, there: bool) -> None:
        """Add the bid to its band, or remove it."""
        at = bisect_left(self._tops, value)
        self._masks[at] ^= 1 << slot
        self._counts[at] += 1 if there else -1
        self._from, self._last = [], None
        if self._counts[at] > 2 * self._band:
            self._cut_again(at)

    def passing(self, want: int) -> Passing:
        """Return the bids in the band of ``want`` and in all higher bands.

        The bids of the band of ``want`` are in doubt if the band may have amounts below ``want``.
        """
        if self._last is None or self._last[0] != want:
            self._last = want, self._passing(want)
        return self._last[1]

    def _passing(self, want: int) -> Passing:
        if not self._from:
            self._from = self._sums()
        at = bisect_left(self._tops, want)
        whole = -(-at // STRIDE)
        found = self._from[whole]
        for band in self._masks[at : whole * STRIDE]:
            found |= band
        surely = at > 0 and self._tops[at - 1] + 1 >= want
        return found, 0 if surely else self._masks[at]

    def _sums(self) -> list[int]:
        """Return, for every ``STRIDE``-th band, the union of this band and all higher bands.

        A union for each band would double the memory.
        """
        parts = [reduce(or_, self._masks[at : at + STRIDE]) for at in range(0, len(self._masks), STRIDE)]
        return [*accumulate(reversed(parts), or_, initial=0)][::-1]

    def all(self) -> int:
        """Return all slots."""
        return sum(self._masks)

    def highest_first(self, mask: int) -> Iterable[int]:
        """Yield the slots of ``mask`` band by band, the highest amounts first."""
        for band in reversed(self._masks):
            if found := band & mask:
                yield found

    def part(self, mask: int, value_of: Callable[[int], int]) -> "Bands":
        """Return an index of the slots in ``mask`` with the same bands, except that neighbouring bands with few bids
        are merged.
        """
        part = Bands((), value_of, ranked=self._ranked)
        tops, masks, counts = part._tops, [0], [0]
        for at, band in enumerate(self._masks):
            kept = band & mask
            count = kept.bit_count()
            if counts[-1] + count > self._band and counts[-1]:
                tops.append(self._tops[at - 1])
                masks.append(0)
                counts.append(0)
            masks[-1] |= kept
            counts[-1] += count
        part._masks, part._counts = masks, counts
        return part

    def _cut_again(self, at: int) -> None:
        floor = self._tops[at - 1] if at else None
        top = self._tops[at] if at < len(self._tops) else None
        if floor is not None and top == floor + 1:
            return
        pairs = sorted((self._value_of(slot), slot) for slot in slots_of(self._masks[at]))
        tops, masks, counts = _cut(pairs, floor, self._band)
        if tops and tops[-1] == top:
            # No bids are between the last new band and the next old one.
            del tops[-1], masks[-1], counts[-1]
        self._tops[at:at] = tops
        self._masks[at : at + 1] = masks
        self._counts[at : at + 1] = counts


def _cut(pairs: Sequence[tuple[int, int]], floor: int | None, band: int) -> tuple[list[int], list[int], list[int]]:
    """Cut pairs in ascending order into bands of about ``band`` bids.

    If many bids have the same amount, they get a band of their own.
    """
    tops: list[int] = []
    masks, counts = [0], [0]
    for value, run in groupby(pairs, key=itemgetter(0)):
        bids = bits_of(slot for _, slot in run)
        count = bids.bit_count()
        below = tops[-1] if tops else floor
        if count >= band and (below is None or below < value - 1):
            tops.append(value - 1)
            masks.append(0)
            counts.append(0)
        masks[-1] |= bids
        counts[-1] += count
        if counts[-1] >= band:
            tops.append(value)
            masks.append(0)
            counts.append(0)
    return tops, masks, counts


class Stripes(Slots):
    """An index of slots by a group and an amount.

    The least amount that an order needs depends on the group. In a higher group, this least amount is the same or
    smaller.
    """

    def __init__(self, pairs: Iterable[Valued], value_of: Callable[[int], Any]) -> None:
        """Index the slots of ``pairs``, whose values are (group, amount); ``value_of`` returns both for a slot."""
        self._value_of = value_of
        ordered = sorted(pairs)
        groups = list(dict.fromkeys(group for (group, _), _ in ordered))
        step = -(-len(groups) // STRIPES) or 1
        # Each stripe is named by its highest group. It has all groups above the highest group of the previous stripe.
        self._groups = groups[step - 1 :: step]
        if groups and self._groups[-1:] != groups[-1:]:
            self._groups.append(groups[-1])
        within: list[list[Valued]] = [[] for _ in self._groups]
        # Bids whose group is below the highest group of their stripe.
        self._lower = 0
        for (group, amount), slot in ordered:
            at = bisect_left(self._groups, group)
            within[at].append((amount, slot))
            self._lower |= (group < self._groups[at]) << slot
        self._bands = [Bands(stripe, self._amount_of) for stripe in within]

    def toggle(self, value: tuple[int, int], slot: int, *, there: bool) -> None:
        """Add the bid to its stripe, or remove it."""
        group, amount = value
        at = bisect_left(self._groups, group)
        if at == len(self._groups):
            at = self._widen(group)
        self._bands[at].toggle(amount, slot, there=there)
        self._lower &= ~(1 << slot)
        if there and group < self._groups[at]:
            self._lower |= 1 << slot

    def passing(self, want: Callable[[int], int]) -> Passing:
        """Return the bids whose amount is enough for an order in the highest group of their stripe.

        All bids of lower groups are in doubt.
        """
        found = doubt = 0
        for group, bands in zip(self._groups, self._bands, strict=True):
            passing, doubted = bands.passing(want(group))
            found |= passing
            doubt |= doubted
        return found, doubt | found & self._lower

    def part(self, mask: int, value_of: Callable[[int], Any]) -> "Stripes":
        """Return an index of the slots in ``mask`` with the same stripes."""
        part = Stripes((), value_of)
        part._groups = list(self._groups)
        part._bands = [bands.part(mask, part._amount_of) for bands in self._bands]
        part._lower = self._lower & mask
        return part

    def _widen(self, group: int) -> int:
        """Add a group above all others; return the number of its stripe."""
        if len(self._groups) < STRIPES:
            self._groups.append(group)
            self._bands.append(Bands((), self._amount_of))
        else:
            self._groups[-1] = group
            self._lower |= self._bands[-1].all()
        return len(self._groups) - 1

    def _amount_of(self, slot: int) -> int:
        return int(self._value_of(slot)[1])


class SharedValues(Slots):
    """An index of slots by a value that many bids share."""

    def __init__(self, pairs: Iterable[Valued], doing: Callable[[Any], Iterable[Any]]) -> None:
        """Index the slots of ``pairs`` (value, slot). ``doing`` is a function that returns the values that satisfy what
        an order wants.
        """
        self._doing = doing
        self._masks: dict[Any, int] = {}
        for value, slot in pairs:
            self._masks[value] = self._masks.get(value, 0) | 1 << slot

    def toggle(self, value: Any, slot: int, *, there: bool) -> None:
        """Add the bid to the set of its value, or remove it."""
        mask = self._masks.get(value, 0) ^ 1 << slot
        if mask:
            self._masks[value] = mask
        else:
            del self._masks[value]

    def passing(self, want: Any) -> Passing:
        """Return the bids whose value satisfies ``want``."""
        found = 0
        for value in self._doing(want):
            found |= self._masks.get(value, 0)
        return found, 0

    def part(self, mask: int, _: Callable[[int], Any]) -> "SharedValues":
        """Return an index of the slots in ``mask``."""
        part = SharedValues((), self._doing)
        part._masks = {value: kept for value, bids in self._masks.items() if (kept := bids & mask)}
        return part


class Doubts(Slots):
    """A set of slots, for a condition whose value few bids share. The set does not store the values, so all its bids
    are in doubt.
    """

    def __init__(self, pairs: Iterable[Valued]) -> None:
        """Keep the slots of ``pairs`` (value, slot)."""
        self._mask = bits_of(slot for _, slot in pairs)

    def toggle(self, value: Any, slot: int, *, there: bool) -> None:
        """Add the bid in ``slot``, or remove it."""
        self._mask ^= 1 << slot

    def passing(self, want: Any) -> Passing:
        """Return all bids."""
        return self._mask, self._mask

    def part(self, mask: int, _: Callable[[int], Any]) -> "Doubts":
        """Return a set of the slots in ``mask``."""
        part = Doubts(())
        part._mask = self._mask & mask
        return part


def bits_of(slots: Iterable[int]) -> int:
    """Return a set of slots as an integer, with one bit for each slot."""
    return sum(map((1).__lshift__, slots))


def slots_of(mask: int) -> Iterable[int]:
    """Yield the slots of a set, in ascending order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
