"""Checks of the state, of which none is made again while nothing changes that it read."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

from chain.state_machine.context import Running
from chain.state_machine.invariant import Each
from chain.state_machine.rules import Rules
from chain.state_machine.store import Overlay, Reader

T = TypeVar("T")


class Noting(Overlay):
    """Notes by their prefix bytes what is read."""

    def __init__(self, base: Reader) -> None:
        super().__init__(base)
        self.seen: set[int] = set()

    def record(self, cls: type[T], key: bytes) -> T | None:
        self.seen.add(key[0])
        return super().record(cls, key)

    def get(self, key: bytes) -> bytes | None:
        self.seen.add(key[0])
        return super().get(key)

    def _merged(self, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, Any]]:
        self.seen.add(prefix[0])
        return super()._merged(prefix, after)


class Rechecks:
    """Knows which checks hold of a state: a check depends on what it reads alone, so it holds until that changes."""

    def __init__(self) -> None:
        self._held: dict[Hashable, set[int]] = {}  # what each check has read, by prefix bytes

    def note(self, keys: Iterable[bytes]) -> None:
        """Forget what was checked over tables in which these keys have changed."""
        changed = {key[0] for key in keys}
        self._held = {name: seen for name, seen in self._held.items() if seen.isdisjoint(changed)}

    def run(self, name: Hashable, reader: Reader, check: Callable[[Overlay], None]) -> None:
        """Make a check, unless it held of the same state. A check that raises is made again the next time."""
        if name not in self._held:
            store = Noting(reader)
            check(store)
            self._held[name] = store.seen

    def check_all(self, reader: Reader, rules: Rules) -> None:
        """Check what :func:`~chain.state_machine.invariants.check_all` checks, in its order."""
        invariants = [component.invariants for component in rules.components]
        for each in (each for found in invariants for each in found.each):
            self.run(each, reader, partial(_check_each, each))
        self.check_whole(reader, rules)

    def check_whole(self, reader: Reader, rules: Rules) -> None:
        """Check what :func:`~chain.state_machine.invariants.check_whole` checks, in its order."""
        invariants = [component.invariants for component in rules.components]
        for check in (check for found in invariants for check in found.block):
            self.run(check, reader, check)
        for whole in (whole for found in invariants for whole in found.whole):
            self.run((whole, rules), reader, partial(_check_whole, whole, rules))


def _check_each(each: Each, store: Overlay) -> None:
    for record in each.table.iterate(store):
        for check in each.checks:
            check(store, record)


def _check_whole(whole: Callable[[Overlay, Running], None], rules: Rules, store: Overlay) -> None:
    whole(store, rules)
