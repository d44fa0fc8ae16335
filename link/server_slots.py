"""Places for calls at the server: so many at a time, shared fairly, and those of strangers apart from all others.

Whoever opens a call takes a place before anybody has signed anything. So nobody is refused because others came first:
where places are short, who holds the most of them loses the one that it has had longest without being worked on.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_address, ip_network
from threading import Condition, Lock
from urllib.parse import unquote

from link.errors import ClusterError, ClusterErrorKind

PEERS_MAX = 4_096


class ServerSlot:
    """A call's place, as long as nobody who has fewer needs it more."""

    def __init__(self, places: "ServerSlots", group: str, cancel: Callable[[], object]) -> None:
        """Belong to ``group``; ``cancel`` ends a call whose message is not here yet."""
        self.group, self.cancel = group, cancel
        self.arrived = self.worked_on = self.lost = False
        self._places = places

    @contextmanager
    def work(self) -> Iterator[None]:
        """Wait for a turn, now that the message is here; ClusterError BUSY where the place went to somebody else."""
        self._places.begin(self)
        try:
            yield
        finally:
            self._places.end(self)


class ServerSlots:
    """``count`` places, at most ``share`` of them for one group, ``working`` worked on at a time. Thread-safe."""

    def __init__(self, count: int, share: int, working: int) -> None:
        """Start with all places free."""
        self._count, self._share, self._working = count, share, working
        self._held: dict[ServerSlot, None] = {}  # the oldest first
        self._changed = Condition()

    def __len__(self) -> int:
        """Return how many places are taken."""
        return len(self._held)

    @property
    def coming(self) -> int:
        """How many calls hold a place and have no message yet."""
        with self._changed:
            return sum(not place.arrived for place in self._held)

    @contextmanager
    def take(self, group: str, cancel: Callable[[], object]) -> Iterator[ServerSlot]:
        """Hold a place for a call of ``group``; ClusterError BUSY where all that it could get are being worked on."""
        place = ServerSlot(self, group, cancel)
        with self._changed:
            loser = self._loser(group)
            if loser is not None:
                loser.lost = True
                del self._held[loser]
                self._changed.notify_all()
            self._held[place] = None
        if loser is not None and not loser.arrived:
            loser.cancel()
        try:
            yield place
        finally:
            with self._changed:
                self._held.pop(place, None)

    def begin(self, place: ServerSlot) -> None:
        """Wait until a call may be worked on; ClusterError BUSY where it lost its place."""
        with self._changed:
            place.arrived = True
            self._changed.wait_for(lambda: place.lost or self._busy() < self._working)
            if place.lost:
                raise _busy()
            place.worked_on = True

    def end(self, place: ServerSlot) -> None:
        """Let another call be worked on."""
        with self._changed:
            place.worked_on = False
            self._held.pop(place, None)
            self._changed.notify_all()

    def _busy(self) -> int:
        return sum(place.worked_on for place in self._held)

    def _loser(self, group: str) -> ServerSlot | None:
        """Return who has to make room for a call of ``group``, None where there is room."""
        held = Counter(place.group for place in self._held)
        if held[group] < self._share and len(self._held) < self._count:
            return None
        waiting = [place for place in self._held if not place.worked_on]
        if held[group] < self._share and waiting:
            held[group] += 1  # with the one that comes
            most = max(held[place.group] for place in waiting)
            return next(place for place in waiting if held[place.group] == most)
        own = next((place for place in waiting if place.group == group), None)
        if own is None:
            raise _busy()
        return own


class KnownPeers:
    """Which connections have carried a signed call of somebody with a role, lately. Thread-safe."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Remember a connection for ``seconds`` after its last such call."""
        self._seconds, self._clock = seconds, clock
        self._callers: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._lock = Lock()

    def prove(self, peer: str, address: str) -> None:
        """Take note of who signs on a connection."""
        with self._lock:
            self._callers[peer] = (address, self._clock() + self._seconds)
            self._callers.move_to_end(peer)
            while len(self._callers) > PEERS_MAX:
                self._callers.popitem(last=False)

    def caller(self, peer: str) -> str | None:
        """Return who signs on a connection, None for a stranger's."""
        with self._lock:
            address, until = self._callers.get(peer, (None, 0.0))
            return address if until > self._clock() else None


def network_of(peer: str) -> str:
    """Return the network that one owner commonly has all addresses of, from grpc's name of a connection.

    ``ipv4:10.1.2.3:5000`` is of 10.1.2.0/24; an IPv6 address is of its /64, unless it stands for an IPv4 address.
    """
    host = unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:  # a socket of this machine
        return peer
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(ip_network((address, 24 if address.version == 4 else 64), strict=False))


def _busy() -> ClusterError:
    return ClusterError(ClusterErrorKind.BUSY, "too many calls at a time", "try again a little later")
