"""Amino JSON: the text that SIGN_MODE_LEGACY_AMINO_JSON signs, as Ledger devices and multisig accounts need it.

The text is made from the protobuf messages by the rules of the Cosmos SDK (``x/tx/signing/aminojson``): integers of
eight bytes are strings, bytes are base64, empty fields are left out, and the keys of all objects are sorted. Options in
the protobuf descriptors say where a message of Cosmos differs. So a new message needs no code here. A message of this
chain has the name ``assay/`` and its protobuf name.

The text is made after :mod:`wire.messages` has accepted the messages. So all types in it are known on every node.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any

from cosmpy.protos.amino import amino_pb2 as amino
from cosmpy.protos.cosmos.crypto.ed25519.keys_pb2 import PubKey as ConsensusKey
from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import Fee
from cosmpy.protos.cosmos_proto import cosmos_pb2 as cosmos
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import Default
from google.protobuf.message_factory import GetMessageClass

from domain.errors import TX_DECODE, Refusal
from domain.tx import json_text
from wire.canonical import UNREADABLE

NAME_MAX = 39
"""The most characters of a name that a Ledger device shows."""

PACKED = (ConsensusKey,)
"""Types that messages of this chain pack into an ``Any``. Every node must know them before the first message."""

_OWN = "assay."
_EIGHT_BYTES = frozenset({FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64})
_UNCHANGED = frozenset(
    {
        FieldDescriptor.CPPTYPE_INT32,
        FieldDescriptor.CPPTYPE_UINT32,
        FieldDescriptor.CPPTYPE_BOOL,
        FieldDescriptor.CPPTYPE_ENUM,
        FieldDescriptor.CPPTYPE_STRING,
    }
)
_DECIMAL_PLACES = 18
_PACKED_DEPTH_MAX = 8

Write = Callable[[Any, int], Any]
"""A function of a value, and of the number of packed messages around it."""


def amino_content(messages: Iterable[Any], memo: str, fee: bytes) -> str:
    """Return the part of the signed text that does not depend on the signer: fee, memo and messages.

    The messages are ``Any``s of known types, and ``fee`` is the encoding of a ``Fee``.
    """
    shown = Fee.FromString(fee)
    amount = [{"amount": coin.amount, "denom": coin.denom} for coin in shown.amount]
    fee_json: dict[str, Any] = {"amount": amount, "gas": str(shown.gas_limit)}
    if shown.payer:
        fee_json["payer"] = shown.payer
    if shown.granter:
        fee_json["granter"] = shown.granter
    msgs = [_any_json(message.type_url, message.value, 0) for message in messages]
    return json_text({"fee": fee_json, "memo": memo, "msgs": msgs})[1:-1]


@cache
def amino_name(descriptor: Descriptor) -> str:
    """Return the name of a message in amino JSON; its type url, as in the Cosmos SDK, if it has none."""
    name: str = descriptor.GetOptions().Extensions[amino.name]
    if name:
        return name
    if descriptor.full_name.startswith(_OWN):
        return f"assay/{descriptor.name}"
    return f"/{descriptor.full_name}"


# --- messages ------------------------------------------------------------------------------------


def _any_json(type_url: str, value: bytes, depth: int) -> Any:
    """Return a packed message as an object with its name and its fields; ``depth`` packed messages are around it."""
    if depth > _PACKED_DEPTH_MAX:
        raise Refusal(
            TX_DECODE, "body.messages", "has too many messages inside each other", f"use at most {_PACKED_DEPTH_MAX}"
        )
    try:
        name, message_class, write = _type(type_url)
        message = message_class.FromString(value)
    except (KeyError, *UNREADABLE):
        reason = f"{type_url[:100]!r} is unknown, or is not encoded as protobuf"
        raise Refusal(TX_DECODE, "body.messages", reason, "use messages of this chain") from None
    return {"type": name, "value": write(message, depth)}


@lru_cache(maxsize=1024)
def _type(type_url: str) -> tuple[str, Any, Write]:
    """Return a message's name in amino JSON, its protobuf class, and its writer; KeyError for an unknown type."""
    pool: Any = Default()  # type: ignore[no-untyped-call]  # the stubs leave it untyped
    descriptor = pool.FindMessageTypeByName(type_url.removeprefix("/"))
    return amino_name(descriptor), GetMessageClass(descriptor), _writer(descriptor)


@cache
def _writer(descriptor: Descriptor) -> Write:
    """Return the function that converts a message of this type to an object, or to the value that stands for it."""
    special = _SPECIAL.get(descriptor.full_name)
    if special is not None:
        return special
    if descriptor.GetOptions().Extensions[amino.message_encoding] == "key_field":
        return lambda message, depth: b64encode(message.key).decode()
    rows = [
        (
            field.GetOptions().Extensions[amino.field_name] or field.name,
            attrgetter(field.name),
            _is_shown(field),
            _field_writer(field),
        )
        for field in descriptor.fields
    ]

    def write(message: Any, depth: int) -> dict[str, Any]:
        return {name: show(get(message), depth) for name, get, is_shown, show in rows if is_shown(message)}

    return write


def _is_shown(field: FieldDescriptor) -> Callable[[Any], bool]:
    """Return the function that says whether a message's text has the field."""
    name = field.name
    if field.message_type is not None and field.label != FieldDescriptor.LABEL_REPEATED:
        return lambda message: bool(message.HasField(name))
    if field.GetOptions().Extensions[amino.dont_omitempty]:
        return lambda message: True
    return lambda message: bool(getattr(message, name))


def _field_writer(field: FieldDescriptor) -> Write:
    write = _value_writer(field)
    if field.label != FieldDescriptor.LABEL_REPEATED:
        return write
    # Go writes an empty list as null if it may not leave it out. Lists of coins are the exception.
    empty: list[Any] | None = [] if field.GetOptions().Extensions[amino.encoding] == "legacy_coins" else None
    return lambda values, depth: [write(value, depth) for value in values] or empty


def _value_writer(field: FieldDescriptor) -> Write:
    """Return the function that converts one value of a field."""
    scalar = _SCALARS.get(field.GetOptions().Extensions[cosmos.scalar])
    if scalar is not None and field.type == FieldDescriptor.TYPE_STRING:
        return scalar
    inner = field.message_type
    if inner is not None:
        return _writer(inner)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return lambda value, depth: b64encode(value).decode()
    if field.cpp_type in _EIGHT_BYTES:
        return lambda value, depth: str(value)
    if field.cpp_type in _UNCHANGED:
        return lambda value, depth: value
    raise TypeError(f"{field.full_name} has no form in amino JSON")


# --- values that differ --------------------------------------------------------------------------


def _packed(message: Any, depth: int) -> Any:
    return _any_json(message.type_url, message.value, depth + 1)


def _decimal(text: str, depth: int) -> str:
    """Return a decimal number of Cosmos, which protobuf mostly carries as an integer of 18 decimal places."""
    if not text:
        return "0"
    if "." in text:  # the messages of cosmos.gov.v1 carry the decimal number itself
        return text
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    digits = digits.rjust(_DECIMAL_PLACES + 1, "0")
    return f"{sign}{digits[:-_DECIMAL_PLACES]}.{digits[-_DECIMAL_PLACES:]}"


def _timestamp(message: Any, depth: int) -> str:
    """Return a time in the form of RFC 3339, with as many digits as needed."""
    whole = datetime(1970, 1, 1) + timedelta(seconds=message.seconds)  # noqa: DTZ001  # in UTC
    fraction = f".{message.nanos:09}".rstrip("0").rstrip(".")
    return f"{whole.isoformat()}{fraction}Z"


def _duration(message: Any, depth: int) -> str:
    return str(message.seconds * 10**9 + message.nanos)


_SCALARS: dict[str, Write] = {"cosmos.Dec": _decimal, "cosmos.Int": lambda text, depth: text or "0"}
_SPECIAL: dict[str, Write] = {
    "google.protobuf.Any": _packed,
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _duration,
}
