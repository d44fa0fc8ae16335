"""The callers of the cluster service: which providers are present, and who may read which blob."""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from threading import Lock

from domain.keys import RoundKey
from domain.proof.records import AuditPlace
from link.types import BlobRef, Machine

LIVE_SECONDS = 15.0
"""A provider that has not polled for this long gets no new work. A busy machine may delay a poll for seconds."""


TAKEN_SECONDS = 3.0
"""A process that has not polled for this long counts as ended: another process with its key may take its place."""
RIVAL_SECONDS = 30.0
"""Time (seconds) for which the served process gets a warning after another process has asked with the same key."""


class Presence:
    """The last poll of each provider, its machine, and the speed that it measured for itself. Thread-safe.

    If several processes use one key, the first of them is served, as long as it polls.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Begin without any provider; ``now`` returns seconds."""
        self._now = now
        self._lock = Lock()
        self._seen: dict[str, float] = {}
        self._machines: dict[str, Machine] = {}
        self._sessions: dict[str, tuple[bytes, float]] = {}
        self._rivals: dict[str, float] = {}
        self._speeds: dict[str, int] = {}
        self._cautious: set[str] = set()
        self._slots: dict[str, int] = {}

    def claim(self, address: str, session: bytes) -> bool:
        """Make ``session`` the process of a provider that is served. Return False while another process with the
        provider's key is served.

        The other process is served as long as it polls.
        """
        with self._lock:
            now = self._now()
            holder, polled_at = self._sessions.get(address, (session, now))
            if holder != session and now - polled_at < TAKEN_SECONDS:
                self._rivals[address] = now
                return False
            self._sessions[address] = (session, now)
            return True

    def has_rival(self, address: str) -> bool:
        """Return whether another process with this provider's key has asked within ``RIVAL_SECONDS``."""
        with self._lock:
            return self._now() - self._rivals.get(address, -RIVAL_SECONDS) < RIVAL_SECONDS

    def speak(self, address: str, speed: int) -> None:
        """Record the speed (FLOP/s) that a provider measured for itself; 0 (not measured) changes nothing."""
        with self._lock:
            if speed:
                self._speeds[address] = speed

    def note_caution(self, address: str, *, cautious: bool) -> None:
        """Record whether a provider takes only tasks that bonds and cover would pay."""
        with self._lock:
            (self._cautious.add if cautious else self._cautious.discard)(address)

    def is_cautious(self, address: str) -> bool:
        """Return whether a provider takes only tasks that bonds and cover would pay."""
        with self._lock:
            return address in self._cautious

    def note_slots(self, address: str, slots: int) -> None:
        """Record how many shares a provider trains at once."""
        with self._lock:
            self._slots[address] = slots

    def slots(self, address: str) -> int:
        """Return how many shares a provider trains at once."""
        with self._lock:
            return self._slots.get(address, 1)

    def speeds(self) -> dict[str, int]:
        """Return the speed (FLOP/s) that each provider measured for itself, keyed by the provider's address."""
        with self._lock:
            return dict(self._speeds)

    def join(self, address: str, machine: Machine) -> bool:
        """Record a provider and its machine; return False if the machine was recorded before."""
        with self._lock:
            self._seen[address] = self._now()
            known = self._machines.get(address) == machine
            self._machines[address] = machine
            return not known

    def poll(self, address: str) -> None:
        """Record that a provider has polled."""
        with self._lock:
            self._seen[address] = self._now()

    def live(self) -> list[str]:
        """Return the addresses of the providers that polled within ``LIVE_SECONDS``, sorted."""
        with self._lock:
            since = self._now() - LIVE_SECONDS
            return sorted(address for address, seen in self._seen.items() if seen >= since)

    def machines(self) -> dict[str, Machine]:
        """Return the machine that each provider reported, keyed by the provider's address."""
        with self._lock:
            return dict(self._machines)

    def keep(self, addresses: Collection[str]) -> None:
        """Forget all providers except ``addresses``: the others have left the cluster."""
        with self._lock:
            self._cautious &= set(addresses)
            for known in (
                self._seen,
                self._machines,
                self._sessions,
                self._rivals,
                self._speeds,
                self._slots,
            ):
                for address in [a for a in known if a not in addresses]:
                    del known[address]


ASKING_SECONDS = 60.0
"""Time (seconds) after which a provider that asked to join is forgotten. Each task of a probe takes less than this
time.
"""
ASKING_MAX = 64


class Asking:
    """The providers that ask to join. The daemon queries the chain for their applications. Thread-safe.

    Their number is bounded, because anyone can make any number of keys.
    """

    def __init__(self, most: int = ASKING_MAX, now: Callable[[], float] = time.monotonic) -> None:
        """Begin without any provider; at most ``most`` may ask at a time."""
        self._most = most
        self._now = now
        self._lock = Lock()
        self._asked_at: dict[str, float] = {}

    def hear(self, address: str) -> bool:
        """Record that a provider asks to join; return False if too many ask already."""
        with self._lock:
            self._expire()
            if address not in self._asked_at and len(self._asked_at) >= self._most:
                return False
            self._asked_at[address] = self._now()
            return True

    def names(self) -> tuple[str, ...]:
        """Return the addresses of the providers that ask to join now, sorted."""
        with self._lock:
            self._expire()
            return tuple(sorted(self._asked_at))

    def drop(self, addresses: Iterable[str]) -> None:
        """Forget these providers: the chain has no application from them."""
        with self._lock:
            for address in addresses:
                self._asked_at.pop(address, None)

    def _expire(self) -> None:
        since = self._now() - ASKING_SECONDS
        for address in [address for address, asked_at in self._asked_at.items() if asked_at < since]:
            del self._asked_at[address]


WATCHED_MAX = 16
"""Most places that possible challengers may ask for at a time."""
WATCH_SECONDS = 600.0
"""Time (seconds) after the last request for a place at which the place is forgotten."""


class Watched:
    """The places that possible challengers recompute: one for each caller. Thread-safe."""

    def __init__(self, most: int = WATCHED_MAX, now: Callable[[], float] = time.monotonic) -> None:
        """Begin without any place; at most ``most`` callers may ask at a time."""
        self._most = most
        self._now = now
        self._lock = Lock()
        self._asked: dict[str, tuple[RoundKey, AuditPlace, float]] = {}

    def ask(self, address: str, key: RoundKey, place: AuditPlace) -> bool:
        """Record the place that a caller asks for, instead of its last one; return False if too many callers ask."""
        with self._lock:
            self._expire()
            if address not in self._asked and len(self._asked) >= self._most:
                return False
            self._asked[address] = (key, place, self._now())
            return True

    def places(self) -> dict[RoundKey, tuple[AuditPlace, ...]]:
        """Return the places that are asked for now, by round."""
        with self._lock:
            self._expire()
            found: dict[RoundKey, tuple[AuditPlace, ...]] = {}
            for key, place, _ in self._asked.values():
                found[key] = (*found.get(key, ()), place)
            return found

    def _expire(self) -> None:
        since = self._now() - WATCH_SECONDS
        for address in [address for address, (_, __, asked_at) in self._asked.items() if asked_at < since]:
            del self._asked[address]


GRANT_SECONDS = 3_600.0
GRANTS_MAX = 100_000


class Grants:
    """Permissions to read blobs, by (address, digest). Thread-safe.

    If there are too many grants, the oldest ones are forgotten. A caller that lost a grant gets it back when it repeats
    its request.
    """

    def __init__(self, most: int = GRANTS_MAX, now: Callable[[], float] = time.monotonic) -> None:
        """Keep at most ``most`` grants."""
        self._most = most
        self._now = now
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
        """Return whether ``address`` may read the blob now."""
        with self._lock:
            return self._until.get((address, digest), 0.0) > self._now()
