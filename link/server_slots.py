"""Server slots for calls: a limited number, shared fairly, with a separate number for strangers.

An open call takes a slot before its caller has proven its identity. A new call is not refused just because other calls
came first. If all slots are taken, the group with the most slots loses one: its oldest slot whose call is not being
processed.
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
    """The slot of one call; the call loses the slot if a group with fewer slots needs it."""

    def __init__(self, slots: "ServerSlots", group: str, cancel: Callable[[], object]) -> None:
        """Make a slot that counts for ``group``; ``cancel`` ends the call if its message has not arrived."""
        self.group = group
        self.cancel = cancel
        self.arrived = self.worked_on = self.lost = False
        self._slots = slots

    @contextmanager
    def work(self) -> Iterator[None]:
        """Wait until the call, whose message has arrived, may be processed; ClusterError BUSY if it lost the slot."""
        self._slots.begin(self)
        try:
            yield
        finally:
            self._slots.end(self)


class ServerSlots:
    """``count`` slots: at most ``share`` for one group, and ``working`` calls processed at a time. Thread-safe."""

    def __init__(self, count: int, share: int, working: int) -> None:
        """Start with all slots free."""
        self._count = count
        self._share = share
        self._working = working
        self._held: dict[ServerSlot, None] = {}  # the oldest first
        self._changed = Condition()

    def __len__(self) -> int:
        """Return the number of taken slots."""
        return len(self._held)

    @property
    def coming(self) -> int:
        """The number of calls that hold a slot and whose message has not arrived."""
        with self._changed:
            return sum(not slot.arrived for slot in self._held)

    @contextmanager
    def take(self, group: str, cancel: Callable[[], object]) -> Iterator[ServerSlot]:
        """Hold a slot for a call of ``group`` during the ``with`` block. If no slot is free, another call may lose its
        slot to this call.

        ClusterError BUSY if every call that could lose its slot is already being processed.
        """
        slot = ServerSlot(self, group, cancel)
        with self._changed:
            loser = self._loser(group)
            if loser is not None:
                loser.lost = True
                del self._held[loser]
                self._changed.notify_all()
            self._held[slot] = None
        if loser is not None and not loser.arrived:
            loser.cancel()
        try:
            yield slot
        finally:
            with self._changed:
                self._held.pop(slot, None)

    def begin(self, slot: ServerSlot) -> None:
        """Wait until a call may be processed; ClusterError BUSY if it lost its slot."""
        with self._changed:
            slot.arrived = True
            self._changed.wait_for(lambda: slot.lost or self._busy() < self._working)
            if slot.lost:
                raise _busy()
            slot.worked_on = True

    def end(self, slot: ServerSlot) -> None:
        """Free the slot, so that another call may be processed."""
        with self._changed:
            slot.worked_on = False
            self._held.pop(slot, None)
            self._changed.notify_all()

    def _busy(self) -> int:
        return sum(slot.worked_on for slot in self._held)

    def _loser(self, group: str) -> ServerSlot | None:
        """Return the slot that must be taken from another call to make room for a call of ``group``; None if there is
        room.
        """
        counts = Counter(slot.group for slot in self._held)
        if counts[group] < self._share and len(self._held) < self._count:
            return None
        waiting = [slot for slot in self._held if not slot.worked_on]
        if counts[group] < self._share and waiting:
            counts[group] += 1  # count the new call too
            most = max(counts[slot.group] for slot in waiting)
            return next(slot for slot in waiting if counts[slot.group] == most)
        own = next((slot for slot in waiting if slot.group == group), None)
        if own is None:
            raise _busy()
        return own


class KnownPeers:
    """The connections that recently carried a signed call by a caller with a role. Thread-safe."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Remember a connection for ``seconds`` after its last such call."""
        self._seconds = seconds
        self._clock = clock
        self._callers: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._lock = Lock()

    def prove(self, peer: str, address: str) -> None:
        """Record ``address`` as the caller that signs on the connection ``peer``."""
        with self._lock:
            self._callers[peer] = (address, self._clock() + self._seconds)
            self._callers.move_to_end(peer)
            while len(self._callers) > PEERS_MAX:
                self._callers.popitem(last=False)

    def caller(self, peer: str) -> str | None:
        """Return the address that signs on a connection; None for a stranger's connection."""
        with self._lock:
            address, until = self._callers.get(peer, (None, 0.0))
            return address if until > self._clock() else None


def network_of(peer: str) -> str:
    """Return the network of a connection's remote end, given grpc's name of that end.

    All addresses of such a network usually belong to one owner.

    ``ipv4:10.1.2.3:5000`` is in 10.1.2.0/24. An IPv6 address is in its /64, unless it maps an IPv4 address.
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
    return ClusterError(ClusterErrorKind.BUSY, "too many calls at the same time", "try again after a few seconds")
