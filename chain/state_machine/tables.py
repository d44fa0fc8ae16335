"""The state as tables of records, numbers and marks.

A key is a prefix byte, which names the table, and parts, each with its length before it. Integers are eight bytes
big-endian, so that keys sort in the order of the numbers. A part has at most 255 bytes. Within a table, a key is never
a prefix of another key with the same number of parts. A shorter list of parts is a prefix for scans. Each component
declares its tables and their prefixes in the same file as the records that only this component reads.
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
"""Number of entries that a query lists if it does not ask for a number."""

REMEMBERED = 65_536
"""Number of keys to cache for a table that every transfer uses. Without the cache, making the key would take half of
the time of an access.
"""


def make_key(prefix: int, *parts: Part) -> bytes:
    """Return the key of ``parts``; raise ValueError for a part above 255 bytes, which is a bug."""
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
    """Return the integer that one part of a key encodes."""
    return int.from_bytes(part, "big")


def get_limit(limit: int) -> int:
    """Return the number of entries to list for a query that asks for ``limit`` (0: the default)."""
    return min(limit or LIMIT_DEFAULT, QUERY_LIMIT_MAX)


def take(items: Iterable[R], limit: int) -> tuple[R, ...]:
    """Return the first ``limit`` items."""
    return tuple(islice(items, limit))


class Space:
    """All keys of one prefix byte, which never changes."""

    def __init__(self, prefix: int, name: str, *, remembered: bool = False) -> None:
        """Set the prefix; ``name`` is the word for one entry in texts; ``remembered`` caches keys."""
        self.prefix = prefix
        self.name = name
        key_of = partial(make_key, prefix)
        self.key: Callable[..., bytes] = lru_cache(REMEMBERED)(key_of) if remembered else key_of

    def has(self, store: Overlay, *parts: Part) -> bool:
        """Return whether the table has an entry with this key."""
        return store.get(self.key(*parts)) is not None

    def delete(self, store: Overlay, *parts: Part) -> None:
        """Remove an entry, if it is there."""
        store.delete(self.key(*parts))

    def keys(self, store: Overlay, *parts: Part, after: Iterable[Part] = ()) -> Iterator[tuple[bytes, ...]]:
        """Yield the parts of the keys that start with ``parts`` and come after the key of ``after``, ascending."""
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
        """Set the class of the records; ``parts`` returns the parts of a record's key, None if a record has no key."""
        super().__init__(prefix, name, remembered=remembered)
        self._cls = cls
        self._parts = parts

    def get(self, store: Overlay, *parts: Part) -> R | None:
        """Return the record, or None."""
        return store.record(self._cls, self.key(*parts))

    def need(self, store: Overlay, *parts: Part) -> R:
        """Return the record that a message names; raise Refusal(NOT_FOUND) if it does not exist."""
        record = store.record(self._cls, self.key(*parts))
        if record is None:
            remedy = f"use the id or address of an existing {self.name} (the chain removes old records)"
            raise Refusal(NOT_FOUND, self.name, f"there is no such {self.name}", remedy)
        return record

    def must(self, store: Overlay, *parts: Part) -> R:
        """Return the record that the state itself names; raise LookupError if it is missing, which is a bug."""
        record = store.record(self._cls, self.key(*parts))
        if record is None:
            raise LookupError(f"the state names a {self.name} that does not exist: {parts}")
        return record

    def put(self, store: Overlay, record: R) -> None:
        """Store the record under the key that its fields give."""
        store.put(self.key(*self._parts_of(record)), record)

    def put_at(self, store: Overlay, record: R, *parts: Part) -> None:
        """Store a record whose fields do not give its key."""
        if self._parts is not None:
            raise LookupError(f"the fields of a {self.name} give its key; use put")
        store.put(self.key(*parts), record)

    def update(self, store: Overlay, *parts: Part, **changes: Any) -> R:
        """Change fields of the stored record, and return it; it must exist, and its key must not change."""
        record: Any = self.must(store, *parts)
        changed: R = replace(record, **changes)
        if tuple(self._parts_of(changed)) != parts:
            raise LookupError(f"the change would give another key to the {self.name} {parts}")
        store.put(self.key(*parts), changed)
        return changed

    def scan(
        self,
        store: Overlay,
        *parts: Part,
        after: Iterable[Part] = (),
        limit: int | None = None,
    ) -> list[R]:
        """Return the records whose keys start with ``parts`` and are greater than the key of ``after``, in key order.

        ``limit`` is the greatest number of records; None returns all.
        """
        records = store.scan_records(self._cls, self.key(*parts), self._behind(after))
        return [record for _, record in islice(records, limit)]

    def iterate(self, store: Overlay, *parts: Part) -> Iterator[R]:
        """Yield the records whose keys start with ``parts``, in key order."""
        for _, record in store.scan_records(self._cls, self.key(*parts)):
            yield record

    def _parts_of(self, record: R) -> Iterable[Part]:
        if self._parts is None:
            raise LookupError(f"the fields of a {self.name} do not give its key; use put_at")
        return self._parts(record)


class Numbers(Space):
    """A table of integers; an absent integer is 0."""

    def get(self, store: Overlay, *parts: Part) -> int:
        """Return the number."""
        return store.record(int, self.key(*parts)) or 0

    def set(self, store: Overlay, value: int, *parts: Part) -> None:
        """Store the number."""
        store.put(self.key(*parts), value)

    def scan(self, store: Overlay, *parts: Part) -> Iterator[tuple[tuple[bytes, ...], int]]:
        """Yield the parts and the number of each key that starts with ``parts``, ascending."""
        for key, value in store.scan_records(int, self.key(*parts)):
            yield parts_of(key), value


class BytesTable(Space):
    """A table of plain bytes."""

    def get(self, store: Overlay, *parts: Part) -> bytes | None:
        """Return the bytes, or None."""
        return store.get(self.key(*parts))

    def set(self, store: Overlay, value: bytes, *parts: Part) -> None:
        """Store the bytes."""
        store.put(self.key(*parts), value)


class KeySet(Space):
    """A set of keys without values."""

    def mark(self, store: Overlay, *parts: Part) -> None:
        """Set the mark."""
        store.put(self.key(*parts), PRESENT)
