"""The receipt of requests.

Each request must arrive within a bounded time, and takes a server slot that counts for its caller. The slot is taken
when the stream opens, even before the caller has proven its identity.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

import grpc

from link.errors import ClusterError, ClusterErrorKind
from link.rates import ServerLimits
from link.server_slots import KnownPeers, ServerSlot, ServerSlots, network_of


class Receiver:
    """The receiver of the one message of each call. Thread-safe."""

    def __init__(self, limits: ServerLimits) -> None:
        """Make two sets of server slots: for callers that have proven their identity, and for strangers."""
        self._seconds = limits.receive_seconds
        self.peers = KnownPeers(limits.idle_seconds)
        self.known = ServerSlots(limits.concurrent, limits.concurrent_per_caller, limits.threads)
        self.strangers = ServerSlots(limits.strangers, limits.strangers_per_network, limits.stranger_threads)

    @contextmanager
    def call(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[tuple[bytes, ServerSlot]]:
        """Receive a call's message. Provide the ``with`` block with the message and with the slot that the call keeps
        until it is answered.

        ClusterError if there is no message or no free slot; grpc.RpcError if the call has ended or took too long.
        """
        peer = context.peer()
        caller = self.peers.caller(peer)
        slots = self.strangers if caller is None else self.known
        with slots.take(caller or network_of(peer), context.cancel) as slot:
            late = Timer(self._seconds, context.cancel)
            late.daemon = True
            late.start()
            try:
                message = next(messages)
            except StopIteration:
                raise ClusterError(
                    ClusterErrorKind.BAD_REQUEST, "the request has no message", "send exactly one message"
                ) from None
            finally:
                late.cancel()
            yield message, slot
