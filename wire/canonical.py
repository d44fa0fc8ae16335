"""Strict parsing of protobuf bytes: only the one canonical encoding of a message is accepted, without unknown fields.

The rule is ADR-027 of the Cosmos SDK, applied to all messages: fields in ascending order, shortest varints, no
defaults, no field twice, no unknown field. The check needs no special parser: it parses the bytes with protobuf, drops
unknown fields, encodes the message again, and compares the two encodings. As a consequence, equal transactions have
equal bytes, and a transaction cannot carry data that the application ignores.
"""

from typing import Any

from google.protobuf.internal import api_implementation
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from domain.errors import TX_DECODE, Refusal

UNREADABLE = (DecodeError, ValueError)
"""Exceptions that protobuf raises for bytes that are not a message. Some implementations raise ValueError for text that
is not UTF-8.
"""

IMPLEMENTATION = "upb"
"""The implementation of protobuf that every node must use, because all nodes need the same limits and a similar speed.
"""

_LOOKED_AT_MAX = 256  # number of items per list that are searched for an unknown field


def implementation() -> str:
    """Return the name of the protobuf implementation that this process uses; a node needs :data:`IMPLEMENTATION`."""
    name: str = api_implementation.Type()
    return name


def read(cls: Any, raw: bytes) -> Any | None:
    """Return the ``cls`` message whose canonical encoding is ``raw``, or None if ``raw`` is not canonical."""
    try:
        message = cls.FromString(raw)
    except UNREADABLE:
        return None
    message.DiscardUnknownFields()
    return message if message.SerializeToString() == raw else None


def parse(cls: Any, raw: bytes, field: str) -> Any:
    """Return the ``cls`` message whose canonical encoding is ``raw``.

    If ``raw`` is not a canonical encoding, raise a Refusal that names ``field`` or a field inside it.
    """
    message = read(cls, raw)
    if message is None:
        raise _why_not(cls, raw, field)
    return message


def _why_not(cls: Any, raw: bytes, field: str) -> Refusal:
    """Return a Refusal that gives the reason why ``raw`` is not the canonical encoding of a ``cls`` message."""
    try:
        unknown = _find_unknown(cls.FromString(raw))
    except UNREADABLE:
        return Refusal(TX_DECODE, field, f"is not a {cls.DESCRIPTOR.full_name}", "encode it as protobuf")
    if unknown is not None:
        path, number = unknown
        where = ".".join(part for part in (field, path) if part)
        return Refusal(TX_DECODE, where, f"unknown field {number}", "remove fields that this chain does not know")
    return Refusal(
        TX_DECODE,
        field,
        "is not the canonical encoding",
        "write fields in ascending order, once, in shortest form, without defaults (ADR-027)",
    )


def _find_unknown(message: Any) -> tuple[str, int] | None:
    """Return the path and the number of the first unknown field in a message; None if there is none.

    The search is depth-first. In a long list, it looks only at the first items.
    """
    for unknown in UnknownFieldSet(message):
        return "", unknown.field_number
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        repeated = descriptor.label == descriptor.LABEL_REPEATED
        for index, item in enumerate(value[:_LOOKED_AT_MAX] if repeated else (value,)):
            unknown_inside = _find_unknown(item)
            if unknown_inside is not None:
                name = f"{descriptor.name}[{index}]" if repeated else descriptor.name
                path, number = unknown_inside
                return ".".join(part for part in (name, path) if part), number
    return None
