"""The state as a map from keys to values, and overlays of changes that can be dropped.

An overlay holds changes to a state that it reads. Overlays nest: a block's overlay reads the committed state, and a
transaction's overlay reads the block's overlay. An overlay keeps records as objects, and :meth:`Overlay.changes`
encodes each of them once. So a balance that changes a thousand times in a block is encoded only once. Records are
frozen, so overlays can share them.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any, Final, Protocol, TypeVar

from domain.codec import decode, encode

T = TypeVar("T")


class Reader(Protocol):
    """The interface to a stored state."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value at ``key``, or None."""
        ...

    def scan(self, prefix: bytes, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values under ``prefix``, ascending; only keys greater than ``after`` if it is not empty."""
        ...


class _Missing:
    """The type of the marker for a key that an overlay has not changed or read."""


_MISSING: Final = _Missing()


class Overlay:
    """Changes to the state of a reader. Values are records, integers or bytes; None marks a deleted key."""

    __slots__ = ("_base", "_keys", "_parent", "_read", "_sorted", "_values")

    def __init__(self, base: Reader) -> None:
        """Start without changes."""
        self._base = base
        self._parent = base if isinstance(base, Overlay) else None
        self._values: dict[bytes, Any] = {}
        # Changed keys by first byte, for scans, and the number of them that are sorted. The next scan sorts the keys
        # that were added later.
        self._keys: dict[int, list[bytes]] = {}
        self._sorted: dict[int, int] = {}
        # Decoded records of the base.
        self._read: dict[bytes, Any] = {}

    def get(self, key: bytes) -> bytes | None:
        """Return the encoded value at ``key``, or None."""
        value = self._values.get(key, _MISSING)
        if value is _MISSING:
            return self._base.get(key)
        return value if value is None or type(value) is bytes else encode(value)

    def record(self, cls: type[T], key: bytes) -> T | None:
        """Return the record at ``key``, or None."""
        value: Any = self._values.get(key, _MISSING)
        if value is _MISSING:
            return self._record_below(cls, key)
        if type(value) is bytes:
            value = self._values[key] = decode(cls, value)
        return value  # type: ignore[no-any-return]

    def _record_below(self, cls: type[T], key: bytes) -> T | None:
        if self._parent is not None:
            return self._parent.record(cls, key)
        value: Any = self._read.get(key, _MISSING)
        if value is _MISSING:
            data = self._base.get(key)
            value = self._read[key] = None if data is None else decode(cls, data)
        return value  # type: ignore[no-any-return]

    def put(self, key: bytes, value: Any) -> None:
        """Set ``key`` to a record, an integer or encoded bytes."""
        if key not in self._values:
            try:
                self._keys[key[0]].append(key)
            except KeyError:
                self._keys[key[0]] = [key]
        self._values[key] = value

    def delete(self, key: bytes) -> None:
        """Delete ``key``; do nothing if it is absent."""
        self.put(key, None)

    def scan(self, prefix: bytes, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and encoded values under ``prefix``, ascending."""
        for key, value in self._merged(prefix, after):
            yield key, value if type(value) is bytes else encode(value)

    def scan_keys(self, prefix: bytes, after: bytes = b"") -> Iterator[bytes]:
        """Yield keys under ``prefix``, ascending."""
        for key, _ in self._merged(prefix, after):
            yield key

    def scan_records(self, cls: type[T], prefix: bytes, after: bytes = b"") -> Iterator[tuple[bytes, T]]:
        """Yield keys and records under ``prefix``, ascending. Each record of the base is decoded once."""
        for key, value in self._merged(prefix, after):
            record = self.record(cls, key) if type(value) is bytes else value
            if record is not None:
                yield key, record

    def changes(self) -> dict[bytes, bytes | None]:
        """Return all changes in key order, with encoded values; None marks a deleted key."""
        return {
            key: value if value is None or type(value) is bytes else encode(value)
            for key, value in sorted(self._values.items(), key=lambda item: item[0])
        }

    def changed_keys(self, prefix: bytes) -> Iterator[bytes]:
        """Yield the keys under ``prefix`` that this overlay or an overlay below it changed; a key may come twice."""
        yield from self._own_keys(prefix, b"")
        if self._parent is not None:
            yield from self._parent.changed_keys(prefix)

    def merge_into_parent(self) -> None:
        """Move the changes to the overlay below; raise TypeError if the reader below is not an overlay."""
        if self._parent is None:
            raise TypeError("there is no overlay below to merge into")
        for key, value in self._values.items():
            self._parent.put(key, value)
        self.clear()

    def clear(self) -> None:
        """Drop all changes."""
        self._values = {}
        self._keys = {}
        self._sorted = {}

    def _merged(self, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, Any]]:
        """Return keys and values of the state below, with this overlay's changes so far.

        Later changes do not appear.
        """
        below: Iterator[tuple[bytes, Any]] = (
            self._parent._merged(prefix, after) if self._parent is not None else self._base.scan(prefix, after)
        )
        own = self._own_keys(prefix, after)
        return self._overlaid(below, own) if own else below

    def _overlaid(self, below: Iterator[tuple[bytes, Any]], own: list[bytes]) -> Iterator[tuple[bytes, Any]]:
        values = self._values
        at = 0
        for key, value in below:
            while at < len(own) and own[at] < key:
                if values[own[at]] is not None:
                    yield own[at], values[own[at]]
                at += 1
            if at < len(own) and own[at] == key:
                if values[key] is not None:
                    yield key, values[key]
                at += 1
            else:
                yield key, value
        for key in own[at:]:
            if values[key] is not None:
                yield key, values[key]

    def _own_keys(self, prefix: bytes, after: bytes) -> list[bytes]:
        """Return the changed keys of a scan, ascending; sorting is fast, because the keys are nearly sorted."""
        keys = self._keys.get(prefix[0])
        if keys is None:
            return []
        if self._sorted.get(prefix[0]) != len(keys):
            keys.sort()
            self._sorted[prefix[0]] = len(keys)
        start = bisect_right(keys, after) if after >= prefix else bisect_left(keys, prefix)
        return keys[start : _end(keys, prefix, start)]


def _end(keys: list[bytes], prefix: bytes, start: int) -> int:
    """Return the index behind the last key under ``prefix``; ``start`` is the index of the first such key."""
    stem = prefix.rstrip(b"\xff")
    return bisect_left(keys, stem[:-1] + bytes([stem[-1] + 1]), start) if stem else len(keys)


class MemoryStore:
    """A state in memory, for tests and for a solo node without a disk."""

    def __init__(self) -> None:
        """Start empty."""
        self._values: dict[bytes, bytes] = {}
        self._sorted: list[bytes] = []

    def get(self, key: bytes) -> bytes | None:
        """Return the value at ``key``, or None."""
        return self._values.get(key)

    def scan(self, prefix: bytes, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values under ``prefix``, ascending; the store must not change during the scan."""
        at = bisect_right(self._sorted, max(after, prefix))
        if after < prefix and prefix in self._values:
            yield prefix, self._values[prefix]
        while at < len(self._sorted) and self._sorted[at].startswith(prefix):
            key = self._sorted[at]
            yield key, self._values[key]
            at += 1

    def apply(self, changes: dict[bytes, bytes | None]) -> None:
        """Commit the changes of a block."""
        for key, value in changes.items():
            if value is None:
                if self._values.pop(key, None) is not None:
                    self._sorted.pop(bisect_right(self._sorted, key) - 1)
            else:
                if key not in self._values:
                    insort(self._sorted, key)
                self._values[key] = value

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._values)
