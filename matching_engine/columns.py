"""Columns. A column has the values that one condition reads of all bids.

There is a class of columns for each kind of condition. A column counts the bids of the book that fail what an order
requires. It also makes the sets of slots of a page (:mod:`matching_engine.bands`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from matching_engine.amounts import Amounts
from matching_engine.bands import Bands, Doubts, SharedValues, Slots, Stripes, Valued
from matching_engine.conditions import PRICE, AtLeast, AtLeastFor, Condition, NoneOf, OneOf
from matching_engine.records import StandingBid

DOING_MAX = 64
"""Largest number of different wishes for which a column caches the values that satisfy them."""
COUNTED_MAX = 64
"""Largest number of different values that may be read to count the bids that fail a wish. If a column has more values,
the bids are not counted, and their number is taken to be 1.
"""


class Wish(NamedTuple):
    """A value that an order requires in a column, with the number of bids that failed it when the search began."""

    column: "BookColumn"
    want: Any
    failing: int

    def does(self, row: StandingBid) -> bool:
        """Return whether a bid has a value that satisfies the wish."""
        column = self.column
        return column.condition.test(self.want)(column.has(row))


class BookColumn(ABC):
    """The values of all bids in the book that one condition reads, for one basis."""

    def __init__(self, condition: Condition, basis: int) -> None:
        """Start as a column without bids."""
        self.condition = condition
        self.name = condition.name
        self._has, self._basis = condition.has, basis
        # The last wish, because consecutive orders often require the same value. Every change of the column's bids
        # drops it.
        self._last: Wish | None = None

    def has(self, row: StandingBid) -> Any:
        """Return the value that the condition reads of a bid."""
        return self._has(row, self._basis)

    def wish(self, want: Any) -> Wish:
        """Return the wish for ``want``, with the number of bids in the book that fail it now."""
        last = self._last
        if last is None or last.want != want:
            counted = self.reading(want) <= COUNTED_MAX
            last = self._last = Wish(self, want, self.failing(want) if counted else 1)
        return last

    def add(self, value: Any) -> None:
        """Add a bid with this value to the counts."""
        self._last = None
        self._add(value)

    def remove(self, value: Any) -> None:
        """Remove a bid with this value from the counts."""
        self._last = None
        self._remove(value)

    @abstractmethod
    def _add(self, value: Any) -> None:
        """Add a bid with this value to the counts."""

    @abstractmethod
    def _remove(self, value: Any) -> None:
        """Remove a bid with this value from the counts."""

    @abstractmethod
    def failing(self, want: Any) -> int:
        """Return the number of bids that fail ``want``."""

    @abstractmethod
    def reading(self, want: Any) -> int:
        """Return the number of different values that :meth:`failing` has to read.

        Return 0 if this number does not depend on the bids.
        """

    @abstractmethod
    def slots(self, pairs: Iterable[Valued], value_of: Callable[[int], Any]) -> Slots:
        """Return the slots of a page, indexed by their values."""


class _OfAmounts(BookColumn):
    """The column of a condition on an amount."""

    def __init__(self, condition: AtLeast, basis: int, rows: Iterable[StandingBid]) -> None:
        super().__init__(condition, basis)
        self._amounts = Amounts(map(self.has, rows))

    def _add(self, value: int) -> None:
        self._amounts.add(value)

    def _remove(self, value: int) -> None:
        self._amounts.remove(value)

    def failing(self, want: int) -> int:
        return self._amounts.below(want)

    def reading(self, _: int) -> int:
        return 0

    def slots(self, pairs: Iterable[Valued], value_of: Callable[[int], Any]) -> Slots:
        return Bands(pairs, value_of, ranked=self.condition is PRICE)


class _OfGroups(BookColumn):
    """The column of a condition on an amount within a group."""

    def __init__(self, condition: AtLeastFor, basis: int, rows: Iterable[StandingBid]) -> None:
        super().__init__(condition, basis)
        within: dict[int, list[int]] = {}
        for group, amount in map(self.has, rows):
            within.setdefault(group, []).append(amount)
        self._groups = {group: Amounts(amounts) for group, amounts in within.items()}
        self._bounds: tuple[int, int] | None = None

    def _add(self, value: tuple[int, int]) -> None:
        group, amount = value
        self._bounds = None
        if group not in self._groups:
            self._groups[group] = Amounts()
        self._groups[group].add(amount)

    def _remove(self, value: tuple[int, int]) -> None:
        group, amount = value
        self._bounds = None
        amounts = self._groups[group]
        amounts.remove(amount)
        if not amounts:
            del self._groups[group]

    def failing(self, want: Callable[[int], int]) -> int:
        if not self._groups:
            return 0
        if self._bounds is None:
            # The lowest group, in which an order needs the largest amount, and the least amount of all bids.
            least = min([amounts.least() for amounts in self._groups.values()])
            self._bounds = min(self._groups), least
        lowest, least = self._bounds
        if want(lowest) <= least:
            return 0
        return sum([amounts.below(want(group)) for group, amounts in self._groups.items()])

    def reading(self, _: Callable[[int], int]) -> int:
        return len(self._groups)

    def slots(self, pairs: Iterable[Valued], value_of: Callable[[int], Any]) -> Slots:
        return Stripes(pairs, value_of)


class _OfValues(BookColumn):
    """The column of a condition whose values are shared by many bids. For each wish, it caches the values that satisfy
    it.
    """

    def __init__(self, condition: OneOf, basis: int, rows: Iterable[StandingBid]) -> None:
        super().__init__(condition, basis)
        self._does = condition.does
        self._bids: dict[Any, int] = {}
        self._doing: dict[Any, tuple[Any, ...]] = {}
        self._all = 0
        for value in map(self.has, rows):
            self._add(value)

    def _add(self, value: Any) -> None:
        if value not in self._bids:
            self._doing = {}
        self._bids[value] = self._bids.get(value, 0) + 1
        self._all += 1

    def _remove(self, value: Any) -> None:
        self._bids[value] -= 1
        self._all -= 1
        if not self._bids[value]:
            self._doing = {}
            del self._bids[value]

    def failing(self, want: Any) -> int:
        if not want:
            return 0
        return self._all - sum(map(self._bids.__getitem__, self.doing(want)))

    def doing(self, want: Any) -> tuple[Any, ...]:
        """Return the values in the column that satisfy ``want``."""
        if want not in self._doing:
            if len(self._doing) >= DOING_MAX:
                self._doing = {}
            does = self._does
            self._doing[want] = tuple([value for value in self._bids if does(want, value)])
        return self._doing[want]

    def reading(self, want: Any) -> int:
        return len(self._bids) if want else 0

    def slots(self, pairs: Iterable[Valued], value_of: Callable[[int], Any]) -> Slots:
        return SharedValues(pairs, self.doing)


class _OfNames(BookColumn):
    """The column of a name. Because an order excludes only a few names, the bids of a page are tested one by one."""

    def __init__(self, condition: NoneOf, basis: int, rows: Iterable[StandingBid]) -> None:
        super().__init__(condition, basis)
        self._bids: dict[Any, int] = {}
        for name in map(self.has, rows):
            self._add(name)

    def _add(self, value: Any) -> None:
        self._bids[value] = self._bids.get(value, 0) + 1

    def _remove(self, value: Any) -> None:
        self._bids[value] -= 1
        if not self._bids[value]:
            del self._bids[value]

    def failing(self, want: tuple[Any, ...]) -> int:
        return sum(self._bids.get(name, 0) for name in dict.fromkeys(want))

    def reading(self, want: tuple[Any, ...]) -> int:
        return len(want)

    def slots(self, pairs: Iterable[Valued], value_of: Callable[[int], Any]) -> Slots:
        return Doubts(pairs)


def make_column(condition: Condition, basis: int, rows: Iterable[StandingBid]) -> BookColumn:
    """Return the column of a condition and a basis, with the bids of ``rows``."""
    match condition:
        case AtLeast():
            return _OfAmounts(condition, basis, rows)
        case AtLeastFor():
            return _OfGroups(condition, basis, rows)
        case OneOf():
            return _OfValues(condition, basis, rows)
        case NoneOf():
            return _OfNames(condition, basis, rows)
    raise TypeError(f"there is no column class for {condition.name}, a {type(condition).__name__}")
