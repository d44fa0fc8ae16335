"""Protobuf messages to domain dataclasses and back, driven by the descriptor and the type hints.

Both directions are compiled once per type into closures, one per field. A field that both sides do
not have, or have in kinds that do not fit, is an error when the converter is compiled, so never a
surprise at run time.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from enum import IntEnum
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, NoReturn, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from domain.errors import BAD_FIELD, TX_DECODE, Refusal
from domain.limits import DECODE_DEPTH_MAX
from wire import scalars
from wire.address import check_address
from wire.kinds import ADDRESSES, DECIMALS, MAY_BE_BLANK, Blank, size_of

Convert = Callable[[Any], Any]

_RANGES = {
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
}


class Mismatch(TypeError):
    """A domain type and a protobuf message that do not fit each other: a bug, found when it is
    compiled.
    """


@cache
def reader(cls: type, descriptor: Descriptor, blank: Blank) -> Convert:
    """Return the function from a protobuf message to a ``cls``; it raises a Refusal that names the
    field.
    """
    _check_depth(descriptor)
    readers = tuple(_field_reader(hint, field, blank) for hint, field in _pairs(cls, descriptor))
    if get_origin(cls) is tuple:
        return lambda message: tuple([read(message) for read in readers])
    return lambda message: cls(*[read(message) for read in readers])


@cache
def writer(cls: type, descriptor: Descriptor) -> Convert:
    """Return the function from a ``cls`` to a protobuf message; a Refusal names a value that has no
    place on the wire.
    """
    message_class = GetMessageClass(descriptor)
    pairs = tuple(_pairs(cls, descriptor))
    names = tuple(field.name for _, field in pairs)
    writers = tuple(_field_writer(hint, field) for hint, field in pairs)
    get: Callable[[Any], Sequence[Any]] = tuple if get_origin(cls) is tuple else _values_of(cls)

    def write(value: Any) -> Any:
        given = zip(names, writers, get(value), strict=True)
        return message_class(
            **{name: write_field(part) for name, write_field, part in given if part is not None}
        )

    return write


def _values_of(cls: Any) -> Callable[[Any], Sequence[Any]]:
    names = [field.name for field in fields(cls)]
    if not names:
        return lambda value: ()
    if len(names) == 1:
        get = attrgetter(names[0])
        return lambda value: (get(value),)
    return attrgetter(*names)


def _pairs(cls: Any, descriptor: Descriptor) -> list[tuple[Any, FieldDescriptor]]:
    """Return type hint and protobuf field side by side, in the order of the dataclass (or of the
    tuple).
    """
    if get_origin(cls) is tuple:
        hints = get_args(cls)
        if len(hints) != len(descriptor.fields):
            raise Mismatch(f"{descriptor.full_name} has not the {len(hints)} fields of {cls}")
        return list(zip(hints, descriptor.fields, strict=True))
    types = get_type_hints(cls)
    names = [field.name for field in fields(cls)]
    odd = set(names) ^ set(descriptor.fields_by_name)
    if odd:
        raise Mismatch(f"{cls.__name__} and {descriptor.full_name} differ in {sorted(odd)}")
    return [(types[name], descriptor.fields_by_name[name]) for name in names]


def _check_depth(descriptor: Descriptor, depth: int = 3) -> None:
    """Refuse a type nested deeper than the cap; TxRaw, TxBody and Any lie around every message."""
    if depth > DECODE_DEPTH_MAX:
        raise Mismatch(f"{descriptor.full_name} is nested deeper than {DECODE_DEPTH_MAX}")
    for field in descriptor.fields:
        if field.message_type is not None:
            _check_depth(field.message_type, depth + 1)


# --- reading -----------------------------------------------------------------


def _field_reader(hint: Any, field: FieldDescriptor, blank: Blank) -> Convert:
    """Return the function from the enclosing protobuf message to the domain value of ``field``."""
    name, get = field.name, attrgetter(field.name)
    hint, optional = _without_none(hint)
    if field.label == FieldDescriptor.LABEL_REPEATED:
        if optional or get_origin(hint) is not tuple or get_args(hint)[1:] != (Ellipsis,):
            _mismatch(hint, field)
        read_item = _item_reader(get_args(hint)[0], field, blank)
        single = field.message_type is None
        return lambda message: _read_list(name, single, read_item, get(message))
    read = _item_reader(hint, field, blank)
    if field.message_type is None:
        if optional:
            _mismatch(hint, field)
        return lambda message: read(get(message))

    def read_record(message: Any) -> Any:
        if not message.HasField(name):
            if optional:
                return None
            raise Refusal(TX_DECODE, name, "is missing", "send it, even if all its fields are zero")
        try:
            return read(get(message))
        except Refusal as refusal:
            raise _inside(name, refusal) from None

    return read_record


def _read_list(name: str, single: bool, read_item: Convert, values: Any) -> tuple[Any, ...]:
    done: list[Any] = []
    try:
        for value in values:  # one by one, so that the index is known where one is refused
            done.append(read_item(value))  # noqa: PERF401
    except Refusal as refusal:
        if single:  # the item has no name beside that of the list
            raise Refusal(
                refusal.code, f"{name}[{len(done)}]", refusal.reason, refusal.remedy
            ) from None
        raise _inside(f"{name}[{len(done)}]", refusal) from None
    return tuple(done)


def _inside(name: str, refusal: Refusal) -> Refusal:
    return Refusal(refusal.code, f"{name}.{refusal.field}", refusal.reason, refusal.remedy)


def _item_reader(hint: Any, field: FieldDescriptor, blank: Blank) -> Convert:
    """Return the function from one protobuf value of ``field`` to its domain value."""
    kind, name = field.cpp_type, field.name
    if kind == FieldDescriptor.CPPTYPE_MESSAGE:
        if not (is_dataclass(hint) or get_origin(hint) is tuple):
            _mismatch(hint, field)
        return reader(hint, field.message_type, blank)
    if field.enum_type is not None:
        return _enum_reader(hint, field, blank)
    if hint is int and kind in _RANGES:
        return _same
    if hint is bool and kind == FieldDescriptor.CPPTYPE_BOOL:
        return _same
    if hint is int and field.type == FieldDescriptor.TYPE_STRING and name in DECIMALS:
        maximum = DECIMALS[name]
        return lambda value: scalars.decimal(value, maximum, name)
    if hint is str and field.type == FieldDescriptor.TYPE_STRING:
        return _text_reader(name, blank)
    if hint is bytes and field.type == FieldDescriptor.TYPE_BYTES:
        return _bytes_reader(field, blank)
    return _mismatch(hint, field)


def _text_reader(name: str, blank: Blank) -> Convert:
    if name == "denom":
        return lambda value: scalars.denom(value, name)
    if name not in ADDRESSES:
        return lambda value: scalars.text(value, name)

    def read_address(value: str) -> str:
        if value or blank is Blank.REFUSED:
            check_address(value, name)
        return value

    return read_address


def _bytes_reader(field: FieldDescriptor, blank: Blank) -> Convert:
    name = field.name
    size = size_of(name)
    if size is None:
        return _same
    may_be_blank = blank is Blank.ALLOWED or (field.containing_type.name, name) in MAY_BE_BLANK
    return lambda value: scalars.sized(value, size, may_be_blank, name)


def _enum_reader(hint: Any, field: FieldDescriptor, blank: Blank) -> Convert:
    name = field.name
    known = _numbers(field.enum_type)
    if hint is int:
        cases: dict[int, Any] = {number: number for number in known}
    else:
        if not (isinstance(hint, type) and issubclass(hint, IntEnum)) or known - {0} != {
            int(case) for case in hint
        }:
            _mismatch(hint, field)
        cases = {int(case): case for case in hint}

    def read_enum(value: int) -> Any:
        try:
            return cases[value]
        except KeyError:
            raise Refusal(
                BAD_FIELD, name, f"{value} is not known", f"one of {sorted(cases)}"
            ) from None

    return read_enum


# --- writing -----------------------------------------------------------------


def _field_writer(hint: Any, field: FieldDescriptor) -> Convert:
    """Return the function from a domain value to what protobuf's constructor takes."""
    hint, _ = _without_none(hint)
    if field.label == FieldDescriptor.LABEL_REPEATED:
        write_item = _item_writer(get_args(hint)[0], field)
        return lambda values: [write_item(value) for value in values]
    return _item_writer(hint, field)


def _item_writer(hint: Any, field: FieldDescriptor) -> Convert:
    name = field.name
    if field.message_type is not None:
        return writer(hint, field.message_type)
    if hint is int and field.type == FieldDescriptor.TYPE_STRING:
        maximum = DECIMALS[name]
        return lambda value: str(_in_range(value, 0, maximum, name))
    if field.enum_type is not None:
        known = _numbers(field.enum_type)
        return lambda value: int(_in_range(value, min(known), max(known), name))
    if field.cpp_type in _RANGES:
        low, high = _RANGES[field.cpp_type]
        return lambda value: _in_range(value, low, high, name)
    return _same


def _in_range(value: int, low: int, high: int, field: str) -> int:
    if not low <= value <= high:
        raise Refusal(BAD_FIELD, field, f"{value} does not fit", f"between {low} and {high}")
    return value


# --- both --------------------------------------------------------------------


def _same(value: Any) -> Any:
    return value


def _numbers(enum: EnumDescriptor) -> set[int]:
    return {value.number for value in enum.values}


def _without_none(hint: Any) -> tuple[Any, bool]:
    """Split ``X | None`` into X and True."""
    if get_origin(hint) is UnionType and NoneType in get_args(hint):
        (inner,) = [arg for arg in get_args(hint) if arg is not NoneType]
        return inner, True
    return hint, False


def _mismatch(hint: Any, field: FieldDescriptor) -> NoReturn:
    raise Mismatch(f"{hint} does not fit {field.full_name}")
