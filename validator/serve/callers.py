"""Who calls: which providers are there, and who may read which blob."""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from threading import Lock

from link.types import BlobRef, Machine

LIVE_SECONDS = 15.0
"""A provider that has not polled for this long gets no new work; a busy machine may keep it from that for seconds."""


TAKEN_SECONDS = 3.0
"""A process that has not polled for this long has ended: another one with its key may take its place."""
RIVAL_SECONDS = 30.0
"""How long the process that is served hears of another one that asked."""


class Presence:
    """When each provider was heard last, and what it says of its machine. Thread-safe.

    Of several processes with one key the one that came first is served, as long as it polls.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Nobody is there."""
        self._now = now
        self._lock = Lock()
        self._seen: dict[str, float] = {}
        self._machines: dict[str, Machine] = {}
        self._sessions: dict[str, tuple[bytes, float]] = {}
        self._rivals: dict[str, float] = {}
        self._speeds: dict[str, int] = {}

    def claim(self, address: str, session: bytes) -> bool:
        """Serve a process of a provider; False while another one with its key is served."""
        with self._lock:
            now = self._now()
            holder, heard = self._sessions.get(address, (session, now))
            if holder != session and now - heard < TAKEN_SECONDS:
                self._rivals[address] = now
                return False
            self._sessions[address] = (session, now)
            return True

    def has_rival(self, address: str) -> bool:
        """Return whether another process with this provider's key asked to be served a moment ago."""
        with self._lock:
            return self._now() - self._rivals.get(address, -RIVAL_SECONDS) < RIVAL_SECONDS

    def speak(self, address: str, speed: int) -> None:
        """Take note of the speed that a provider measured itself; 0 where it did not."""
        with self._lock:
            if speed:
                self._speeds[address] = speed

    def speeds(self) -> dict[str, int]:
        """Return the speeds that providers measured themselves."""
        with self._lock:
            return dict(self._speeds)

    def join(self, address: str, machine: Machine) -> bool:
        """Take note of a provider; False if it said the same before."""
        with self._lock:
            self._seen[address] = self._now()
            known = self._machines.get(address) == machine
            self._machines[address] = machine
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

    def machines(self) -> dict[str, Machine]:
        """Return what all of them say of their machines."""
        with self._lock:
            return dict(self._machines)

    def keep(self, addresses: Collection[str]) -> None:
        """Forget everybody else: they left the cluster."""
        with self._lock:
            for known in (
                self._seen,
                self._machines,
                self._sessions,
                self._rivals,
                self._speeds,
            ):
                for address in [a for a in known if a not in addresses]:
                    del known[address]


ASKING_SECONDS = 60.0
"""How long somebody who asks to join is looked after without a word: longer than a task of a probe may take."""
ASKING_MAX = 64


class Asking:
    """Who asks to join, whom the chain is asked about: a bounded number, since keys cost nothing. Thread-safe."""

    def __init__(self, most: int = ASKING_MAX, now: Callable[[], float] = time.monotonic) -> None:
        """Nobody asks; at most ``most`` do at a time."""
        self._most, self._now = most, now
        self._lock = Lock()
        self._heard: dict[str, float] = {}

    def hear(self, address: str) -> bool:
        """Take note of somebody; False where there is no place."""
        with self._lock:
            self._expire()
            if address not in self._heard and len(self._heard) >= self._most:
                return False
            self._heard[address] = self._now()
            return True

    def names(self) -> tuple[str, ...]:
        """Return who asks now."""
        with self._lock:
            self._expire()
            return tuple(sorted(self._heard))

    def drop(self, addresses: Iterable[str]) -> None:
        """Give the places of these to others: the chain has no request of theirs."""
        with self._lock:
            for address in addresses:
                self._heard.pop(address, None)

    def _expire(self) -> None:
        since = self._now() - ASKING_SECONDS
        for address in [a for a, heard in self._heard.items() if heard < since]:
            del self._heard[address]


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
