"""Tables of the steps that lead a record from state to state.

The chain takes each new state of an order, leg, round or panel from such a table, and the pictures in the protocol are
drawn from the same tables.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Generic, TypeVar

S = TypeVar("S", bound=Enum)


@dataclass(frozen=True, slots=True)
class Transition(Generic[S]):
    """The states in which a step is possible, and the state after it.

    A step with nothing ``before`` makes the record; a step with nothing ``after`` removes it.
    """

    before: tuple[S, ...]
    after: S | None


class Transitions(Generic[S]):
    """The steps of one kind of record. A step is a member of an enumeration: a kind of step, or a reason for which the
    record ends.
    """

    def __init__(self, what: str, states: type[S], rows: Mapping[Enum, Transition[S]]) -> None:
        """Set the rows by step; ``what`` is the word for a record in texts."""
        self.what = what
        self.states = tuple(states)
        self.rows = MappingProxyType(dict(rows))

    def after(self, step: Enum, before: S | None = None) -> S:
        """Return the state after a step that begins in state ``before``; leave out ``before`` if the step makes the
        record.

        Raise LookupError if the table has no such step from this state, or if the step removes the record. Both are
        bugs.
        """
        row = self._row(step, before)
        if row.after is None:
            raise LookupError(f"the step {self._name(step)} removes the {self.what}, so there is no state after it")
        return row.after

    def check(self, step: Enum, before: S | None, after: S | None) -> None:
        """Raise LookupError if the table does not lead from one state to the other by this step, which is a bug."""
        row = self._row(step, before)
        if row.after is not after:
            raise LookupError(f"{self._name(step)} leads the {self.what} to {row.after!r}, not to {after!r}")

    def lines(self) -> Iterator[tuple[str, tuple[S, ...], S | None]]:
        """Yield the steps with their words, in the table's order; steps between the same states share a line."""
        words: dict[tuple[tuple[S, ...], S | None], list[str]] = {}
        for step, row in self.rows.items():
            words.setdefault((row.before, row.after), []).append(self._name(step))
        for (before, after), steps in words.items():
            yield ", ".join(steps), before, after

    def _row(self, step: Enum, before: S | None) -> Transition[S]:
        row = self.rows.get(step)
        if row is None:
            raise LookupError(f"there is no step {self._name(step)} of the {self.what}")
        if before not in row.before if before is not None else row.before:
            raise LookupError(f"{self._name(step)} is not possible in state {before!r} of the {self.what}")
        return row

    @staticmethod
    def _name(step: Enum) -> str:
        return step.value if isinstance(step.value, str) else step.name.lower()
