"""Times on the chain clock as the times of block headers, which Cosmos clients expect."""

from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from chain.app.services.method import Call
from chain.state_machine.context import HEAD, NS


def header_time(clock: int, call: Call) -> Any:
    """Return the time of a header at which the chain clock showed ``clock``, or will show it if blocks go on."""
    seconds, nanos = divmod(HEAD.must(call.store).header_ns(clock), NS)
    return Timestamp(seconds=seconds, nanos=nanos)
