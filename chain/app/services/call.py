"""What every service function has in common: typed protobuf in and out, and how a no is said."""

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import DecodeError

from chain.app.interfaces import UNREACHABLE
from domain.errors import NOT_FOUND, TX_DECODE, Code, Refusal

Handler = Callable[[bytes], bytes]
"""One method of a service: request bytes to response bytes. It raises a Refusal for what it cannot
answer.
"""

_INVALID_ARGUMENT: Final = frozenset(
    {"bad_field", "tx_decode", "invalid_address", "invalid_coins", "invalid_request"}
)


def status_of(code: Code) -> str:
    """Return the name of the gRPC status that a refusal has."""
    if code == NOT_FOUND:
        return "NOT_FOUND"
    if code == UNREACHABLE:
        return "UNAVAILABLE"
    return "INVALID_ARGUMENT" if code.name in _INVALID_ARGUMENT else "FAILED_PRECONDITION"


def typed(request: Any, answer: Callable[[Any], Any]) -> Handler:
    """Return the handler that parses a ``request`` class and serializes what ``answer`` returns."""

    def handle(data: bytes) -> bytes:
        try:
            message = request.FromString(data)
        except DecodeError:
            name = request.DESCRIPTOR.full_name
            raise Refusal(TX_DECODE, "request", f"not a {name}", "encode it as protobuf") from None
        response: bytes = answer(message).SerializeToString()
        return response

    return handle
