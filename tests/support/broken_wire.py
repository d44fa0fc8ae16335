"""A TCP proxy that damages what passes: delays, cuts, copies, silence, and single bytes.

with BrokenWire(endpoint, Damage(cut_after=1 << 20)) as wire:
    client = ClusterClient(wire.endpoint, certificate, key, chain_id)
"""

import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Event, Lock, Thread
from typing import Self

_PIECE_BYTES = 1 << 16


@dataclass(frozen=True)
class Damage:
    """The damage of a wire.

    ``delay`` is the seconds for which each piece waits. Each connection is cut after ``cut_after`` bytes, or goes
    silent after ``silent_after`` bytes and stays open; below 0: never. ``byte_seconds`` is the time between two bytes.
    Each piece of the connection ``copied`` is sent twice; the first connection has the number 1.
    """

    delay: float = 0.0
    cut_after: int = -1
    silent_after: int = -1
    byte_seconds: float = 0.0
    copied: int = 0


class BrokenWire:
    """A proxy in front of the server at ``target`` (host:port), with a thread per direction of each connection."""

    def __init__(self, target: str, damage: Damage) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._damage = damage
        self._stop = Event()
        self._lock = Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[Thread] = []
        self.connections = 0
        self.sent: list[bytearray] = []
        """The bytes that callers sent, per connection."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for end in self._open:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def send_again(self, connection: int) -> None:
        """Send the bytes of an earlier connection (from 1) to the server once more, until it ends the connection."""
        with socket.create_connection(self._target, timeout=60) as again, suppress(ConnectionError):
            again.sendall(self.sent[connection - 1])
            again.shutdown(socket.SHUT_WR)
            while again.recv(_PIECE_BYTES):
                pass

    def _start(self, work: Callable[[], None]) -> None:
        thread = Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                caller.close()
                continue
            self.connections += 1
            taken = bytearray()
            self.sent.append(taken)
            with self._lock:
                self._open |= {caller, server}
            passed = [0]
            number = self.connections
            self._start(partial(self._pass, caller, server, passed, number, taken))
            self._start(partial(self._pass, server, caller, passed, number, bytearray()))

    def _pass(
        self, source: socket.socket, target: socket.socket, passed: list[int], number: int, log: bytearray
    ) -> None:
        """Pass on the bytes of one direction; ``passed`` counts those of both."""
        damage = self._damage
        try:
            while not self._stop.is_set() and (piece := source.recv(1 if damage.byte_seconds else _PIECE_BYTES)):
                log += piece
                passed[0] += len(piece)
                if 0 <= damage.silent_after < passed[0]:
                    self._stop.wait()  # both ends stay open
                    break
                if self._stop.wait(damage.delay + damage.byte_seconds):
                    break
                target.sendall(piece)
                if damage.copied == number:
                    target.sendall(piece)
                if 0 <= damage.cut_after < passed[0]:
                    break
        except OSError:
            pass
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()
