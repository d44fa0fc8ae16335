"""The order book: standing bids, and indexes by what the conditions read of them.

A book is fed with changes and lives as long as its owner likes. An index only notes which bids changed, and looks at
them when it is asked next. So a change costs little, and a question about a book that did not change costs nothing but
the answer: a bisection for an amount, a sum over the different values otherwise. What depends on the order and the bid
together is no obstacle where it depends on few different values of the bid: the least slot speed is another for each
number of slots at once, so bids lie by slot speed within their number of slots, and an index serves orders of any
shape.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from domain.amount import price_ceil
from domain.market.records import Histogram
from matching_engine.conditions import CONDITIONS, PRICE, AtLeast, AtLeastFor, Condition, OneOf
from matching_engine.records import Asked, Fill, Standing

Backing = tuple[bool, int, int, int]
"""What is one for all bids of a validator: jailed, free bond, free stake, and when it last worsened a bid."""

LOOKS = 256
"""Bids that are looked at by price alone, before the narrowest condition is asked for."""
MOVED_ONE_BY_ONE = 64
"""Bids that an index moves by insertion; where more have changed, sorting anew is faster."""
INDEXES_MAX = 64
"""Orders keep their parameters for life, so that few bases occur; all indexes are dropped if there are more."""


class Book:
    """Standing bids by id. What is sold comes off at once, so that nothing is sold twice."""

    def __init__(self, standing: Iterable[Standing] = ()) -> None:
        """Take the bids; ValueError for a bid twice, or a validator with two free amounts."""
        self._rows: dict[bytes, Standing] = {}
        self._of_validator: dict[str, dict[bytes, None]] = {}
        self._indexes: dict[tuple[str, int], _Index] = {}
        for row in standing:
            if row.bid.id in self._rows:
                raise ValueError(f"bid {row.bid.id.hex()} is in the book twice")
            self.put(row)

    # --- changes -------------------------------------------------------------

    def put(self, row: Standing) -> None:
        """Put a bid in, or in place of what it was.

        Raises ValueError where other bids of the validator have another bond or stake, because it has one of each.
        """
        validator, free = row.bid.validator, (row.free_bond, row.free_stake)
        others = (self._rows[bid_id] for bid_id in self._of_validator.get(validator, ()))
        other = next((other for other in others if other.bid.id != row.bid.id), row)
        if free != (other.free_bond, other.free_stake):
            raise ValueError(f"{validator} has one bond and one stake, but two free amounts")
        self._set(row)

    def remove(self, bid_id: bytes) -> None:
        """Take a bid out, if it is there."""
        row = self._rows.pop(bid_id, None)
        if row is None:
            return
        of_validator = self._of_validator[row.bid.validator]
        del of_validator[bid_id]
        if not of_validator:
            del self._of_validator[row.bid.validator]
        self._note(bid_id)

    def back(self, validator: str, backing: Backing) -> None:
        """Set what a validator can give, for all its bids."""
        jailed, free_bond, free_stake, worsened_height = backing
        for row in self.of_validator(validator):
            self._set(
                replace(
                    row,
                    jailed=jailed,
                    free_bond=free_bond,
                    free_stake=free_stake,
                    worsened_height=worsened_height,
                )
            )

    def apply_fill(self, fill: Fill) -> list[Standing]:
        """Take the work off the bid, and job bond and value off every bid of its validator; return what they were."""
        before = self.of_validator(fill.validator)
        value = price_ceil(fill.work, fill.price)
        for row in before:
            sold = fill.work if row.bid.id == fill.bid_id else 0
            self._set(
                replace(
                    row,
                    free_capacity=row.free_capacity - sold,
                    free_bond=row.free_bond - fill.job_bond,
                    free_stake=row.free_stake - value,
                )
            )
        return before

    def restore(self, rows: Iterable[Standing]) -> None:
        """Put bids back as they were."""
        for row in rows:
            self._set(row)

    def _set(self, row: Standing) -> None:
        bid = row.bid
        self._rows[bid.id] = row
        self._of_validator.setdefault(bid.validator, {})[bid.id] = None
        self._note(bid.id)

    def _note(self, bid_id: bytes) -> None:
        for index in self._indexes.values():
            index.changed[bid_id] = None

    # --- questions -----------------------------------------------------------

    def __len__(self) -> int:
        """Return how many bids stand."""
        return len(self._rows)

    def standing(self) -> list[Standing]:
        """Return all bids by id."""
        return [self._rows[bid_id] for bid_id in sorted(self._rows)]

    def of_validator(self, validator: str) -> list[Standing]:
        """Return the bids of a validator."""
        return [self._rows[bid_id] for bid_id in self._of_validator.get(validator, ())]

    def backing(self, validator: str) -> Backing | None:
        """Return what a validator can give, as :meth:`back` takes it; None where it has no bid."""
        for bid_id in self._of_validator.get(validator, ()):
            row = self._rows[bid_id]
            return row.jailed, row.free_bond, row.free_stake, row.worsened_height
        return None

    def histogram(self, order: Asked, clock: int) -> Histogram:
        """Count the bids that fail on each condition of ``order`` at ``clock`` (seconds)."""
        counts = [(row.name, self._index(row, order).failing(order, clock)) for row in CONDITIONS]
        return tuple([(name, count) for name, count in counts if count])

    def by_price(self, order: Asked, clock: int) -> Iterator[Standing]:
        """Yield bids by ascending price, and among them all that satisfy ``order`` at ``clock`` (seconds).

        The cheapest first; if the asker is still not content, only those that pass the narrowest condition.
        """
        walk = self._index(PRICE, order).passing(order, clock)
        looked_at = list(islice(walk, LOOKS))
        yield from map(self._rows.__getitem__, looked_at)
        if len(looked_at) < LOOKS:
            return
        seen = dict.fromkeys(looked_at)
        rest = [row for row in self.narrowest(order, clock) if row.bid.id not in seen]
        yield from sorted(rest, key=lambda row: row.bid.offer.price)

    def narrowest(self, order: Asked, clock: int) -> Iterable[Standing]:
        """Return the bids that pass the condition of ``order`` which the fewest pass."""
        indexes = [self._index(row, order) for row in CONDITIONS]
        most = max(indexes, key=lambda index: index.failing(order, clock))
        return map(self._rows.__getitem__, most.passing(order, clock))

    def _index(self, condition: Condition, order: Asked) -> "_Index":
        basis = condition.basis(order)
        index = self._indexes.get((condition.name, basis))
        if index is None:
            if len(self._indexes) >= INDEXES_MAX:
                self._indexes.clear()
            index = _make_index(condition, basis, self._rows)
            self._indexes[condition.name, basis] = index
        index.refresh(self._rows)
        return index


class _Index(ABC):
    """Bids by what one condition reads of them."""

    def __init__(self, condition: Any, basis: int, ids: Iterable[bytes]) -> None:
        self.changed: dict[bytes, None] = dict.fromkeys(ids)
        self._condition = condition
        self._basis = basis
        self._values: dict[bytes, Any] = {}

    def refresh(self, rows: dict[bytes, Standing]) -> None:
        """Look at the bids that changed."""
        if not self.changed:
            return
        has, basis = self._condition.has, self._basis
        moved: list[tuple[bytes, Any, Any]] = []
        for bid_id in self.changed:
            row = rows.get(bid_id)
            before, after = self._values.get(bid_id), None if row is None else has(row, basis)
            if before != after:
                moved.append((bid_id, before, after))
        self.changed = {}
        for bid_id, _, after in moved:
            if after is None:
                del self._values[bid_id]
            else:
                self._values[bid_id] = after
        self._move(moved)

    @abstractmethod
    def _move(self, moved: list[tuple[bytes, Any, Any]]) -> None:
        """Move bids from the values before to those after; None stands for none."""

    @abstractmethod
    def failing(self, order: Asked, clock: int) -> int:
        """Count the bids that fail."""

    @abstractmethod
    def passing(self, order: Asked, clock: int) -> Iterator[bytes]:
        """Yield the ids of the bids that pass."""


class _Amounts(_Index):
    """Bids by an amount, ascending."""

    def __init__(self, condition: AtLeast, basis: int, ids: Iterable[bytes]) -> None:
        super().__init__(condition, basis, ids)
        self._needs = condition.needs
        self._sorted: list[tuple[int, bytes]] = []

    def _move(self, moved: list[tuple[bytes, Any, Any]]) -> None:
        if len(moved) > MOVED_ONE_BY_ONE:
            self._sorted = sorted((amount, bid_id) for bid_id, amount in self._values.items())
            return
        for bid_id, before, after in moved:
            if before is not None:
                del self._sorted[bisect_left(self._sorted, (before, bid_id))]
            if after is not None:
                insort(self._sorted, (after, bid_id))

    def failing(self, order: Asked, clock: int) -> int:
        """Count the bids that have too little."""
        return bisect_left(self._sorted, (self._needs(order, clock), b""))

    def passing(self, order: Asked, clock: int) -> Iterator[bytes]:
        """Yield those that have enough, with the most first."""
        failing = self.failing(order, clock)
        found = self._sorted
        return (found[at][1] for at in range(len(found) - 1, failing - 1, -1))


class _GroupedAmounts(_Index):
    """Bids by an amount, ascending, within a group that many share."""

    def __init__(self, condition: AtLeastFor, basis: int, ids: Iterable[bytes]) -> None:
        super().__init__(condition, basis, ids)
        self._needs = condition.needs
        self._sorted: dict[Any, list[tuple[int, bytes]]] = {}

    def _move(self, moved: list[tuple[bytes, Any, Any]]) -> None:
        if len(moved) > MOVED_ONE_BY_ONE:
            self._sorted = {}
            for bid_id, (group, amount) in self._values.items():
                self._sorted.setdefault(group, []).append((amount, bid_id))
            for found in self._sorted.values():
                found.sort()
            return
        for bid_id, before, after in moved:
            if before is not None:
                group, amount = before
                found = self._sorted[group]
                del found[bisect_left(found, (amount, bid_id))]
                if not found:
                    del self._sorted[group]
            if after is not None:
                group, amount = after
                insort(self._sorted.setdefault(group, []), (amount, bid_id))

    def failing(self, order: Asked, clock: int) -> int:
        """Count the bids that have too little for their group."""
        least = self._needs(order, clock)
        groups = self._sorted.items()
        return sum(bisect_left(found, (least(group), b"")) for group, found in groups)

    def passing(self, order: Asked, clock: int) -> Iterator[bytes]:
        """Yield those that have enough, group by group."""
        least = self._needs(order, clock)
        for group, found in self._sorted.items():
            for at in range(bisect_left(found, (least(group), b"")), len(found)):
                yield found[at][1]


class _Groups(_Index):
    """Bids by a value that many share."""

    def __init__(self, condition: OneOf, basis: int, ids: Iterable[bytes]) -> None:
        super().__init__(condition, basis, ids)
        self._does = condition.does
        self._groups: dict[Any, dict[bytes, None]] = {}

    def _move(self, moved: list[tuple[bytes, Any, Any]]) -> None:
        for bid_id, before, after in moved:
            if before is not None:
                del self._groups[before][bid_id]
                if not self._groups[before]:
                    del self._groups[before]
            if after is not None:
                self._groups.setdefault(after, {})[bid_id] = None

    def failing(self, order: Asked, clock: int) -> int:
        """Count the bids of the values that do not do."""
        does = self._does
        return sum(len(ids) for value, ids in self._groups.items() if not does(order, value))

    def passing(self, order: Asked, clock: int) -> Iterator[bytes]:
        """Yield those of the values that do."""
        does = self._does
        groups = (ids for value, ids in self._groups.items() if does(order, value))
        return chain.from_iterable(groups)


def _make_index(condition: Condition, basis: int, ids: Iterable[bytes]) -> _Index:
    match condition:
        case AtLeast():
            return _Amounts(condition, basis, ids)
        case AtLeastFor():
            return _GroupedAmounts(condition, basis, ids)
        case OneOf():
            return _Groups(condition, basis, ids)
    raise TypeError(f"{condition.name} is of no kind that can be indexed")
