"""Requests as they come in: each in a bounded time, and not all the places taken by one host.

A stream that was opened costs a place at the server before anybody has signed anything.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Timer

import grpc

from link.errors import ClusterError, ClusterErrorKind


class Receiver:
    """Takes the one message of each call. Thread-safe."""

    def __init__(self, seconds: float, per_host: int) -> None:
        """Give each message ``seconds`` to arrive, and let ``per_host`` at a time be under way from one host."""
        self._seconds, self._per_host = seconds, per_host
        self._lock = Lock()
        self._coming: Counter[str] = Counter()

    def take(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        """Return the message; ClusterError where there is none, grpc.RpcError where the call has ended."""
        with self._place(_host_of(context.peer())):
            late = Timer(self._seconds, context.cancel)
            late.daemon = True
            late.start()
            try:
                return next(messages)
            except StopIteration:
                raise ClusterError(ClusterErrorKind.BAD_REQUEST, "no message", "send one") from None
            finally:
                late.cancel()

    @contextmanager
    def _place(self, host: str) -> Iterator[None]:
        with self._lock:
            if self._coming[host] >= self._per_host:
                raise ClusterError(
                    ClusterErrorKind.BUSY,
                    "too many requests of your host are half sent",
                    "try again later",
                )
            self._coming[host] += 1
        try:
            yield
        finally:
            with self._lock:
                self._coming[host] -= 1
                if not self._coming[host]:
                    del self._coming[host]


def _host_of(peer: str) -> str:
    """Return ``ipv4:127.0.0.1`` of ``ipv4:127.0.0.1:5000``."""
    return peer.rpartition(":")[0]
