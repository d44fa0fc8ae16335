"""The state as tables: a record, a number or a mark under a prefix byte and parts that each carry their length.

Integers are eight bytes big-endian, so that keys sort as the numbers do. A part has at most 255 bytes. No key is a
prefix of another one of its kind with the same number of parts, and a shorter list of parts is a prefix to scan.
Every component declares its tables with their prefixes beside the records that only it reads.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Generic, TypeVar

from chain.state_machine.store import Overlay
from domain.errors import NOT_FOUND, Refusal
from domain.hashing import u64
from domain.limits import QUERY_LIMIT_MAX

R = TypeVar("R")
Part = bytes | str | int

PRESENT = b"1"
"""The value of a key that only marks something."""

LIMIT_DEFAULT = 100
"""Entries that a query lists where it asks for no number."""

REMEMBERED = 65_536
"""Keys that are remembered of a table that every transfer touches; making one costs as much as the rest."""


def make_key(prefix: int, *parts: Part) -> bytes:
    """Return the key of ``parts``; ValueError for one above 255 bytes, which is a bug."""
    out = bytearray([prefix])
    for part in parts:
        if isinstance(part, int):
            out += b"\x08" + u64(part)
        else:
            data = part.encode() if isinstance(part, str) else part
            out.append(len(data))
            out += data
    return bytes(out)


def parts_of(key: bytes) -> tuple[bytes, ...]:
    """Return the parts of a key, without its prefix byte."""
    parts: list[bytes] = []
    at = 1
    while at < len(key):
        end = at + 1 + key[at]
        parts.append(key[at + 1 : end])
        at = end
    return tuple(parts)


def number_of(part: bytes) -> int:
    """Return the integer of a key's part."""
    return int.from_bytes(part, "big")


def get_limit(limit: int) -> int:
    """Return how many entries a query lists that asks for ``limit`` (0: the default)."""
    return min(limit or LIMIT_DEFAULT, QUERY_LIMIT_MAX)


def take(found: Iterable[R], limit: int) -> tuple[R, ...]:
    """Return the first ``limit`` of what was found."""
    return tuple(islice(found, limit))


class Space:
    """All keys of one prefix byte, which never changes."""

    def __init__(self, prefix: int, name: str, *, remembered: bool = False) -> None:
        """``name`` is what one entry is called in texts; ``remembered`` is for what every transfer touches."""
        self.prefix = prefix
        self.name = name
        made = partial(make_key, prefix)
        self.key: Callable[..., bytes] = lru_cache(REMEMBERED)(made) if remembered else made

    def has(self, store: Overlay, *parts: Part) -> bool:
        """Tell whether there is an entry."""
        return store.get(self.key(*parts)) is not None

    def delete(self, store: Overlay, *parts: Part) -> None:
        """Remove an entry; one that is not there stays away."""
        store.delete(self.key(*parts))

    def keys(self, store: Overlay, *parts: Part, after: Iterable[Part] = ()) -> Iterator[tuple[bytes, ...]]:
        """Yield the parts of the keys that start with ``parts``, ascending, behind the key of ``after``."""
        for key in store.scan_keys(self.key(*parts), self._behind(after)):
            yield parts_of(key)

    def _behind(self, after: Iterable[Part]) -> bytes:
        parts = tuple(after)
        return self.key(*parts) if parts else b""


class Table(Space, Generic[R]):
    """All records of one kind."""

    def __init__(
        self,
        prefix: int,
        name: str,
        cls: type[R],
        parts: Callable[[R], Iterable[Part]] | None = None,
        *,
        remembered: bool = False,
    ) -> None:
        """``parts`` takes the key from a record; without it the record does not say where it lies."""
        super().__init__(prefix, name, remembered=remembered)
        self._cls = cls
        self._parts = parts

    def get(self, store: Overlay, *parts: Part) -> R | None:
        """Return the record, or None."""
        return store.record(self._cls, self.key(*parts))

    def need(self, store: Overlay, *parts: Part) -> R:
        """Return the record that a message names; Refusal(NOT_FOUND) where there is none."""
        record = store.record(self._cls, self.key(*parts))
        if record is None:
            raise Refusal(NOT_FOUND, self.name, f"there is no such {self.name}", "check its name")
        return record

    def must(self, store: Overlay, *parts: Part) -> R:
        """Return the record that the state itself names; its absence is a bug."""
        record = store.record(self._cls, self.key(*parts))
        if record is None:
            raise LookupError(f"the state names a {self.name} that is not there: {parts}")
        return record

    def put(self, store: Overlay, record: R) -> None:
        """Store the record under the key that it says."""
        store.put(self.key(*self._parts_of(record)), record)

    def put_at(self, store: Overlay, record: R, *parts: Part) -> None:
        """Store a record that does not say where it lies."""
        if self._parts is not None:
            raise LookupError(f"a {self.name} says itself where it lies")
        store.put(self.key(*parts), record)

    def update(self, store: Overlay, *parts: Part, **changes: Any) -> R:
        """Change fields of the record as it is now, and return it; it must be there, and its key stays."""
        record: Any = self.must(store, *parts)
        changed: R = replace(record, **changes)
        if tuple(self._parts_of(changed)) != parts:
            raise LookupError(f"a change would move the {self.name} {parts}")
        store.put(self.key(*parts), changed)
        return changed

    def scan(
        self,
        store: Overlay,
        *parts: Part,
        after: Iterable[Part] = (),
        limit: int | None = None,
    ) -> list[R]:
        """Return the records whose keys start with ``parts``, in key order, behind the key of ``after``."""
        found = store.scan_records(self._cls, self.key(*parts), self._behind(after))
        return [record for _, record in islice(found, limit)]

    def iterate(self, store: Overlay, *parts: Part) -> Iterator[R]:
        """Yield the records whose keys start with ``parts``, in key order."""
        for _, record in store.scan_records(self._cls, self.key(*parts)):
            yield record

    def _parts_of(self, record: R) -> Iterable[Part]:
        if self._parts is None:
            raise LookupError(f"a {self.name} does not say where it lies")
        return self._parts(record)


class Numbers(Space):
    """Integers; one that is not there is 0."""

    def get(self, store: Overlay, *parts: Part) -> int:
        """Return the number."""
        return store.record(int, self.key(*parts)) or 0

    def set(self, store: Overlay, value: int, *parts: Part) -> None:
        """Store the number."""
        store.put(self.key(*parts), value)

    def scan(self, store: Overlay, *parts: Part) -> Iterator[tuple[tuple[bytes, ...], int]]:
        """Yield the parts of the keys that start with ``parts``, ascending, with their numbers."""
        for key, value in store.scan_records(int, self.key(*parts)):
            yield parts_of(key), value


class BytesTable(Space):
    """Plain bytes."""

    def get(self, store: Overlay, *parts: Part) -> bytes | None:
        """Return the bytes, or None."""
        return store.get(self.key(*parts))

    def set(self, store: Overlay, value: bytes, *parts: Part) -> None:
        """Store the bytes."""
        store.put(self.key(*parts), value)


class KeySet(Space):
    """Keys that only mark something."""

    def mark(self, store: Overlay, *parts: Part) -> None:
        """Set the mark."""
        store.put(self.key(*parts), PRESENT)
