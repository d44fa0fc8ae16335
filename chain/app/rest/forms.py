"""Requests and responses as JSON, by the rules of the Cosmos SDK.

Names are in snake_case, integers of 64 bits are texts, bytes are base64, enums are names, and an ``Any`` has ``@type``.
A decimal number is a text such as ``0.100000000000000000``; in protobuf it is the integer 10**18 times as large.
"""

import base64
import binascii
import json
import re
from functools import cache
from typing import Any, Final

from cosmpy.protos.gogoproto import gogo_pb2
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import Error, MessageToDict, ParseDict

from domain.errors import INVALID_REQUEST, Refusal

DECIMALS: Final = 18
PARAMETERS_MAX: Final = 100
_DEC: Final = "cosmossdk.io/math.LegacyDec"
_WORDS: Final = {"true": True, "false": False, "1": True, "0": False}
_BASE64: Final = re.compile("[A-Za-z0-9+/_-]*={0,2}")
_POOL: Final[Any] = descriptor_pool.Default()  # type: ignore[no-untyped-call]
_HASH: Final = re.compile("[0-9a-fA-F]{64}")


# --- requests ------------------------------------------------------------------------------------


def read_body(data: bytes, message: Any) -> None:
    """Fill a request from JSON; names may be in snake_case or camelCase. Raise a Refusal for anything else."""
    try:
        value = json.loads(data) if data else {}
    except (ValueError, RecursionError):
        raise Refusal(INVALID_REQUEST, "body", "is not JSON", 'send an object, such as {"tx_bytes": "…"}') from None
    if not isinstance(value, dict):
        raise Refusal(INVALID_REQUEST, "body", "is not a JSON object", 'send an object, such as {"tx_bytes": "…"}')
    _fill(value, message, "body")


def read_parameters(pairs: list[tuple[str, str]], message: Any) -> None:
    """Fill a request from texts by the names of its fields, such as ``pagination.limit``."""
    if len(pairs) > PARAMETERS_MAX:
        raise Refusal(INVALID_REQUEST, "query", f"has {len(pairs)} parameters", f"send at most {PARAMETERS_MAX}")
    tree: dict[str, Any] = {}
    for name, text in pairs:
        _put(tree, message.DESCRIPTOR, name, text)
    _fill(tree, message, "query")


def _put(tree: dict[str, Any], descriptor: Descriptor, name: str, text: str) -> None:
    *outer, last = name.split(".")
    for part in outer:
        field = _field(descriptor, part)
        if field is None or field.message_type is None or field.label == FieldDescriptor.LABEL_REPEATED:
            raise _unknown(name)
        descriptor = field.message_type
        tree = tree.setdefault(field.name, {})
    field = _field(descriptor, last)
    if field is None:
        raise _unknown(name)
    value = _value(field, text, name)
    if field.label == FieldDescriptor.LABEL_REPEATED:
        tree.setdefault(field.name, []).append(value)
    elif field.name in tree:
        raise Refusal(INVALID_REQUEST, name[:64], "is there twice", "send it once")
    else:
        tree[field.name] = value


def _field(descriptor: Any, name: str) -> Any:
    return descriptor.fields_by_name.get(name) or descriptor.fields_by_camelcase_name.get(name)


def _unknown(name: str) -> Refusal:
    remedy = "GET /openapi.json lists the parameters"
    return Refusal(INVALID_REQUEST, name[:64], "is not a parameter of this request", remedy)


def _value(field: Any, text: str, name: str) -> Any:
    if field.type == FieldDescriptor.TYPE_BOOL:
        if text not in _WORDS:
            raise Refusal(INVALID_REQUEST, name[:64], "is not true or false", "send true or false")
        return _WORDS[text]
    if field.type == FieldDescriptor.TYPE_BYTES:
        # People know ids of orders in hex. Base64 of such length would be 48 bytes, which no field of ours has.
        if field.file.package.startswith("assay.") and _HASH.fullmatch(text):
            return base64.b64encode(bytes.fromhex(text)).decode()
        text = text.replace(" ", "+")  # a plus sign in a URL is a space
        if not _BASE64.fullmatch(text):
            raise Refusal(INVALID_REQUEST, name[:64], "is not base64", "send bytes in base64")
        return text
    return text


def _fill(value: dict[str, Any], message: Any, where: str) -> None:
    try:
        ParseDict(value, message)
    except (Error, ValueError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
        # The first sentence names the field; what follows may repeat the request.
        reason = str(error).split("\n")[0][:200] if isinstance(error, Error) else "does not fit the request"
        raise Refusal(INVALID_REQUEST, where, reason, "GET /openapi.json describes the requests") from None


# --- responses -----------------------------------------------------------------------------------


def to_json(message: Any) -> bytes:
    """Return the JSON of a response; ValueError if it has a message of a type that this program does not know."""
    try:
        value = MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
        _complete(message.DESCRIPTOR, value)
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except (Error, TypeError, UnicodeEncodeError, RecursionError):
        raise ValueError("has parts that cannot be shown as JSON") from None


def _complete(descriptor: Descriptor, value: Any) -> None:
    """Complete protobuf's JSON to that of the SDK: decimal numbers, and null for a message that is not there."""
    if not isinstance(value, dict):  # a type with a JSON form of its own, such as a time
        return
    if descriptor.full_name == "google.protobuf.Any":
        name = str(value.get("@type", "")).rpartition("/")[2]
        if name:
            _complete(_POOL.FindMessageTypeByName(name), value.get("value", value))
        return
    for field, is_dec, is_list in _specials(descriptor):
        name = field.name
        if name not in value:
            if not is_list and field.containing_oneof is None and not is_dec:
                value[name] = None
        elif is_dec:
            value[name] = [_decimal(each, field) for each in value[name]] if is_list else _decimal(value[name], field)
        elif is_list:
            items = value[name].values() if isinstance(value[name], dict) else value[name]
            for each in items:
                _complete(field.message_type, each)
        else:
            _complete(field.message_type, value[name])


@cache
def _specials(descriptor: Descriptor) -> tuple[tuple[Any, bool, bool], ...]:
    """Return the fields that are messages or decimal numbers: field, is a decimal number, is a list."""
    specials = []
    for field in descriptor.fields:
        options = field.GetOptions()
        is_dec = options.HasExtension(gogo_pb2.customtype) and options.Extensions[gogo_pb2.customtype] == _DEC
        if is_dec or field.message_type is not None:
            specials.append((field, is_dec, field.label == FieldDescriptor.LABEL_REPEATED))
    return tuple(specials)


def _decimal(text: str, field: Any) -> str:
    """Return a number of 10**-18 as a decimal number."""
    if field.type == FieldDescriptor.TYPE_BYTES:
        text = base64.b64decode(text).decode("ascii", "replace")
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        return text or f"0.{'0' * DECIMALS}"
    digits = digits.rjust(DECIMALS + 1, "0")
    sign = "-" if text.startswith("-") else ""
    return f"{sign}{digits[:-DECIMALS]}.{digits[-DECIMALS:]}"
