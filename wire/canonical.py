"""Strict parsing of protobuf bytes: only the one encoding that a message has, and no field that is not known.

The rule is ADR-027's, applied everywhere: fields ascending, shortest varints, no defaults, no field twice, nothing
unknown. It needs no parser of its own: parse, drop what is unknown, write again, compare. Two transactions that mean
the same are then the same bytes, and nothing rides along that the application does not see.
"""

from typing import Any

from google.protobuf.internal import api_implementation
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from domain.errors import TX_DECODE, Refusal

UNREADABLE = (DecodeError, ValueError)
"""What protobuf raises for bytes that are no message; the second by some of its implementations, for text that is no
UTF-8.
"""

IMPLEMENTATION = "upb"
"""The implementation of protobuf whose limits and speed all nodes share."""

_LOOKED_AT_MAX = 256  # items of a list, to name what a refusal is about


def implementation() -> str:
    """Return the implementation of protobuf that this process has; a node needs :data:`IMPLEMENTATION`."""
    name: str = api_implementation.Type()
    return name


def read(cls: Any, raw: bytes) -> Any | None:
    """Return the message that ``raw`` is the canonical encoding of, or None where it is that of none."""
    try:
        message = cls.FromString(raw)
    except UNREADABLE:
        return None
    message.DiscardUnknownFields()
    return message if message.SerializeToString() == raw else None


def parse(cls: Any, raw: bytes, field: str) -> Any:
    """Return the message that ``raw`` is the canonical encoding of; a Refusal names ``field`` or what is inside it."""
    message = read(cls, raw)
    if message is None:
        raise _why_not(cls, raw, field)
    return message


def _why_not(cls: Any, raw: bytes, field: str) -> Refusal:
    """Say what is wrong with bytes that are not canonical."""
    try:
        unknown = _find_unknown(cls.FromString(raw))
    except UNREADABLE:
        return Refusal(TX_DECODE, field, f"not a {cls.DESCRIPTOR.full_name}", "encode it as protobuf")
    if unknown is not None:
        path, number = unknown
        where = ".".join(part for part in (field, path) if part)
        return Refusal(TX_DECODE, where, f"unknown field {number}", "leave out what this chain does not know")
    return Refusal(
        TX_DECODE,
        field,
        "not the canonical encoding",
        "write fields in ascending order, once, in shortest form, without defaults (ADR-027)",
    )


def _find_unknown(message: Any) -> tuple[str, int] | None:
    """Return path and number of the first unknown field, depth first; not from the far end of a long list."""
    for unknown in UnknownFieldSet(message):
        return "", unknown.field_number
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        repeated = descriptor.label == descriptor.LABEL_REPEATED
        for index, item in enumerate(value[:_LOOKED_AT_MAX] if repeated else (value,)):
            found = _find_unknown(item)
            if found is not None:
                name = f"{descriptor.name}[{index}]" if repeated else descriptor.name
                return ".".join(part for part in (name, found[0]) if part), found[1]
    return None
