"""Limits per caller: token buckets for calls and bytes, in a bounded number."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from link.errors import ClusterError, ClusterErrorKind


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate: ``per_second`` on average, and up to ``burst`` at once."""

    per_second: float
    burst: float


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of a server; the defaults suit a machine with a few cores."""

    # A connection belongs to a caller with a role once the caller has made a signed call on this connection. All other
    # connections belong to strangers.
    threads: int = 8  # calls that are processed at the same time
    concurrent: int = 64  # open calls
    concurrent_per_caller: int = 16  # also the limit per connection
    stranger_threads: int = 2
    strangers: int = 32
    strangers_per_network: int = 8  # /24 of IPv4, /64 of IPv6
    # Each connection takes a file descriptor, and the other parts of the daemon need descriptors too. ``connections``
    # is above the sum of ``known_connections`` and ``stranger_connections``, because new connections may come between
    # two checks of the limiter.
    connections: int = 512
    known_connections: int = 256
    connections_per_caller: int = 16
    stranger_connections: int = 128
    stranger_connections_per_network: int = 32
    handshake_seconds: float = 10.0
    idle_seconds: float = 300.0  # until a connection without calls is closed
    receive_seconds: float = 10.0  # for a request to arrive; equals the time for which callers wait for an answer
    calls: Rate = Rate(200, 2_000)
    bytes: Rate = Rate(256 << 20, 2 << 30)
    # Bytes of all calls except PutChunk, because parsing 1 MiB of other messages takes about 1 s.
    messages: Rate = Rate(256 << 10, 8 << 20)
    stranger_calls: Rate = Rate(20, 200)  # for all callers without a role together
    stranger_bytes: Rate = Rate(16 << 20, 64 << 20)


class Buckets:
    """One token bucket per caller; the least recently used buckets are dropped."""

    def __init__(self, rate: Rate, capacity: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with full buckets."""
        self._rate = rate
        self._capacity = capacity
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens and their time
        self._lock = Lock()

    def take(self, caller: str, amount: float, what: str) -> None:
        """Take ``amount`` tokens from a caller's bucket; if it has too few, ClusterError BUSY says how long to wait."""
        with self._lock:
            now = self._clock()
            tokens, at = self._left.pop(caller, (self._rate.burst, now))
            tokens = min(self._rate.burst, tokens + (now - at) * self._rate.per_second)
            granted = amount <= tokens
            self._left[caller] = (tokens - amount if granted else tokens, now)
            # A caller whose bucket was dropped starts with a full one, so the longest unused buckets are dropped.
            while len(self._left) > self._capacity:
                self._left.popitem(last=False)
        if not granted:
            wait = (amount - tokens) / self._rate.per_second
            raise ClusterError(
                ClusterErrorKind.BUSY,
                f"more than {self._rate.per_second:g} {what}/s",
                f"wait {wait:.1f} s",
            )
