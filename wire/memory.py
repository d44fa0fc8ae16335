"""A bounded memory of what was computed once and is asked for again."""

from collections.abc import Iterable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RecentValues(Generic[K, V]):
    """Values by key, the newest of them; any thread may read and write.

    It has two halves: when the young one is full it becomes the old one, and what was in the old one is forgotten. So
    the newest half of the room is always there, and keeping order costs nothing.
    """

    def __init__(self, room: int) -> None:
        """Remember values whose sizes add up to at most ``room``; ValueError where a half of it holds nothing."""
        if room < 2:
            raise ValueError("a memory needs room for two values at least")
        self._half = room // 2
        self._used = 0
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        """Return a value, or None where it was never there or is forgotten."""
        found = self._young.get(key)
        return found if found is not None else self._old.get(key)

    def put(self, key: K, value: V, size: int = 1) -> None:
        """Remember a value; one that is larger than a half is not remembered."""
        if size > self._half:
            return
        with self._lock:
            self._put(key, value, size)

    def put_all(self, keys: Iterable[K], value: V) -> None:
        """Remember one value for many keys."""
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
        """Return how many values are remembered."""
        return len(self._young) + len(self._old)
