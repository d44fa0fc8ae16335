"""A bounded memory of computed values that are needed again."""

from collections.abc import Iterable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RecentValues(Generic[K, V]):
    """The newest values by key, up to a total size; any thread may read and write.

    The memory has two halves. When the young half is full, it becomes the old half, and the values of the previous old
    half are forgotten. So the newest values, up to half the total size, are always remembered, although the memory does
    not record in which order values came.
    """

    def __init__(self, room: int) -> None:
        """Remember values with a total size of at most ``room``; ValueError if ``room`` is below 2."""
        if room < 2:
            raise ValueError("a memory needs room for at least two values")
        self._half = room // 2
        self._used = 0
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        """Return the value of ``key``, or None if the value was never put there or is forgotten."""
        value = self._young.get(key)
        return value if value is not None else self._old.get(key)

    def put(self, key: K, value: V, size: int = 1) -> None:
        """Remember ``value`` under ``key``; a value larger than half of the memory is not remembered."""
        if size > self._half:
            return
        with self._lock:
            self._put(key, value, size)

    def put_all(self, keys: Iterable[K], value: V) -> None:
        """Remember the same value under each of ``keys``."""
        with self._lock:
            for key in keys:
                self._put(key, value, 1)

    def _put(self, key: K, value: V, size: int) -> None:
        if key in self._young:
            return
        if self._used + size > self._half:
            self._old, self._young, self._used = self._young, {}, 0
        self._young[key] = value
        self._used += size

    def __len__(self) -> int:
        """Return the number of remembered values."""
        return len(self._young) + len(self._old)
