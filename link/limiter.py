"""Limits of connections at the server.

A stranger is a caller without a known role. Strangers get only some of the connections, and share these fairly. The
library grpc can bound the number of connections, but it does not show their callers, and cannot close a single
connection. So this module finds the connections among the sockets of this process (Linux). If there are too many, the
group with the most connections loses its oldest one.
"""

import os
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import TypeVar

from link.rates import ServerLimits
from link.server_slots import KnownPeers, network_of

LOOK_SECONDS = 0.5
_DESCRIPTORS = Path("/proc/self/fd")

T = TypeVar("T")


class ConnectionLimiter:
    """A thread that checks the connections to a port periodically, from :meth:`start` to :meth:`stop`."""

    def __init__(self, port: int, peers: KnownPeers, limits: ServerLimits) -> None:
        """Check the connections to ``port``; a connection is a stranger's if ``peers`` does not know its caller."""
        self._port = port
        self._peers = peers
        self._limits = limits
        self._seen: dict[str, None] = {}  # the oldest first
        self._stop = Event()
        self._thread = Thread(target=self._run, name="connection-limiter", daemon=True)

    def start(self) -> None:
        """Start the thread that checks the connections."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            # For example, the process has no free descriptor now; it may have some at the next check.
            with suppress(OSError):
                self.look()

    def look(self) -> None:
        """Close the connections above the limits."""
        limits = self._limits
        sockets = connected(self._port)
        self._seen = {peer: None for peer in (*self._seen, *sockets) if peer in sockets}
        known: list[tuple[str, str]] = []
        strangers: list[tuple[str, str]] = []
        for peer in self._seen:
            caller = self._peers.caller(peer)
            if caller is None:
                strangers.append((peer, network_of(peer)))
            else:
                known.append((peer, caller))
        losers = too_many(strangers, limits.stranger_connections, limits.stranger_connections_per_network)
        losers += too_many(known, limits.known_connections, limits.connections_per_caller)
        for peer in losers:
            with _socket(sockets[peer]) as one:
                if one is not None and _peer_of(one, self._port) == peer:
                    with suppress(OSError):  # the connection has ended
                        one.shutdown(socket.SHUT_RDWR)


def too_many(held: Sequence[tuple[T, str]], count: int, share: int) -> list[T]:
    """Return the items that exceed the limits. ``held`` has each item with its group, the oldest item first.

    No group keeps more than ``share`` items. If more than ``count`` items are left, the largest groups lose their
    oldest items.
    """
    groups: dict[str, deque[T]] = {}
    for item, group in held:
        groups.setdefault(group, deque()).append(item)
    losers: list[T] = []
    while len(losers) < len(held):
        biggest = max(groups.values(), key=len)
        if len(biggest) <= share and len(held) - len(losers) <= count:
            break
        losers.append(biggest.popleft())
    return losers


def connected(port: int) -> dict[str, Path]:
    """Return the descriptors of this process's connections to ``port``, by grpc's names of the remote ends."""
    sockets: dict[str, Path] = {}
    for descriptor in _DESCRIPTORS.iterdir():
        with _socket(descriptor) as one:
            peer = _peer_of(one, port) if one is not None else None
            if peer is not None:
                sockets[peer] = descriptor
    return sockets


@contextmanager
def _socket(descriptor: Path) -> Iterator[socket.socket | None]:
    """Provide the socket of a descriptor to the ``with`` block, or None if the descriptor is not a socket.

    The descriptor is copied, because the original may be closed at any time.
    """
    with ExitStack() as stack:
        one = None
        with suppress(OSError):  # the socket was closed, or the descriptor is another file by now
            if str(descriptor.readlink()).startswith("socket:"):
                copy = os.dup(int(descriptor.name))
                stack.callback(os.close, copy)
                one = socket.socket(fileno=copy)
                stack.pop_all()
                stack.enter_context(one)
        yield one


def _peer_of(one: socket.socket, port: int) -> str | None:
    if one.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    try:
        if one.getsockname()[1] != port:
            return None
        host, far = one.getpeername()[:2]
    except OSError:  # the socket listens, or has ended
        return None
    mapped = host.removeprefix("::ffff:")
    return f"ipv6:%5B{host}%5D:{far}" if ":" in mapped else f"ipv4:{mapped}:{far}"
