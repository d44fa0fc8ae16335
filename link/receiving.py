"""Requests as they come in: each in a bounded time, in a place of its caller's own.

A stream that was opened costs a place at the server before anybody has signed anything.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

import grpc

from link.errors import ClusterError, ClusterErrorKind
from link.rates import ServerLimits
from link.server_slots import KnownPeers, ServerSlot, ServerSlots, network_of


class Receiver:
    """Takes the one message of each call. Thread-safe."""

    def __init__(self, limits: ServerLimits) -> None:
        """Keep places for callers that have proven who they are apart from those for strangers."""
        self._seconds = limits.receive_seconds
        self.peers = KnownPeers(limits.idle_seconds)
        self.known = ServerSlots(limits.concurrent, limits.concurrent_per_caller, limits.threads)
        self.strangers = ServerSlots(limits.strangers, limits.strangers_per_network, limits.stranger_threads)

    @contextmanager
    def call(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[tuple[bytes, ServerSlot]]:
        """Give the message and the place that the call keeps until it is answered.

        ClusterError where there is no message or no place, grpc.RpcError where the call has ended or took too long.
        """
        peer = context.peer()
        caller = self.peers.caller(peer)
        places = self.strangers if caller is None else self.known
        with places.take(caller or network_of(peer), context.cancel) as place:
            late = Timer(self._seconds, context.cancel)
            late.daemon = True
            late.start()
            try:
                message = next(messages)
            except StopIteration:
                raise ClusterError(ClusterErrorKind.BAD_REQUEST, "no message", "send one") from None
            finally:
                late.cancel()
            yield message, place
