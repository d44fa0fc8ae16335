"""Who calls: which providers are there, and who may read which blob."""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from threading import Lock

from link.types import Benchmark, BlobRef

LIVE_SECONDS = 5.0
"""A provider that has not polled for this long gets no new work."""


class Presence:
    """When each provider was heard last, and its benchmark. Thread-safe."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Nobody is there."""
        self._now = now
        self._lock = Lock()
        self._seen: dict[str, float] = {}
        self._benchmarks: dict[str, Benchmark] = {}

    def join(self, address: str, benchmark: Benchmark) -> bool:
        """Take note of a provider; False if it said the same before."""
        with self._lock:
            self._seen[address] = self._now()
            known = self._benchmarks.get(address) == benchmark
            self._benchmarks[address] = benchmark
            return not known

    def poll(self, address: str) -> None:
        """Take note that a provider is there."""
        with self._lock:
            self._seen[address] = self._now()

    def live(self) -> list[str]:
        """Return who polled a moment ago, by address."""
        with self._lock:
            since = self._now() - LIVE_SECONDS
            return sorted(address for address, seen in self._seen.items() if seen >= since)

    def benchmark(self, address: str) -> Benchmark | None:
        """Return what a provider measured of itself."""
        with self._lock:
            return self._benchmarks.get(address)

    def benchmarks(self) -> dict[str, Benchmark]:
        """Return what all providers measured of themselves."""
        with self._lock:
            return dict(self._benchmarks)

    def keep(self, addresses: Collection[str]) -> None:
        """Forget everybody else: they left the cluster."""
        with self._lock:
            for known in (self._seen, self._benchmarks):
                for address in [a for a in known if a not in addresses]:
                    del known[address]


GRANT_SECONDS = 3_600.0
GRANTS_MAX = 100_000


class Grants:
    """Grants by (address, digest), the oldest forgotten first: whoever lost one asks for its task again."""

    def __init__(self, most: int = GRANTS_MAX, now: Callable[[], float] = time.monotonic) -> None:
        """Keep at most ``most`` grants."""
        self._most, self._now = most, now
        self._until: OrderedDict[tuple[str, bytes], float] = OrderedDict()
        self._lock = Lock()

    def give(self, address: str, blobs: Iterable[BlobRef]) -> None:
        """Let ``address`` read these blobs."""
        until = self._now() + GRANT_SECONDS
        with self._lock:
            for blob in blobs:
                self._until[address, blob.sha256] = until
                self._until.move_to_end((address, blob.sha256))
            while len(self._until) > self._most:
                self._until.popitem(last=False)

    def holds(self, address: str, digest: bytes) -> bool:
        """Tell whether ``address`` may read the blob now."""
        with self._lock:
            return self._until.get((address, digest), 0.0) > self._now()
