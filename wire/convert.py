"""The converter between protobuf messages and domain dataclasses, for the chain and for the link between owners.

For each type, a converter is compiled once into a function with one line per field. The converter is made from the
protobuf descriptor and the annotated types of the dataclass (:mod:`domain.bounds`). It therefore also checks bounds: a
value out of its bounds raises a Refusal that names the path of the value.

The compilation raises Mismatch if only one side has a field, if the field's kinds on the two sides do not fit, or if a
field has no bound. A compiled converter never raises Mismatch.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from enum import IntEnum
from functools import cache
from operator import attrgetter
from typing import Any, NoReturn, TypeVar, get_args, get_origin

from google.protobuf.any_pb2 import Any as AnyProto
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from domain.bounds import (
    ADDRESS,
    MAYBE_ADDRESS,
    OPERATOR_ADDRESS,
    Mismatch,
    Range,
    check,
    choices_of,
    hints_of,
    inside,
    is_boxed,
    item_of,
    own_checker,
    split,
    too_much,
    without_none,
)
from domain.errors import BAD_FIELD, TX_DECODE, UNKNOWN_REQUEST, Code, Refusal
from domain.limits import DECODE_DEPTH_MAX
from wire.address import account_of, check_address, operator_address
from wire.canonical import parse
from wire.modules import descriptor_of

T = TypeVar("T")
Convert = Callable[[Any], Any]

_DIGITS_MAX = 39  # of the largest number, 2^128 - 1
_DIGITS_SHOWN = 78  # of 2^256, the largest amount on other Cosmos chains

_RANGES = {
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
}
_PLAIN = {
    str: FieldDescriptor.TYPE_STRING,
    bytes: FieldDescriptor.TYPE_BYTES,
    bool: FieldDescriptor.TYPE_BOOL,
}


@cache
def reader(cls: type, descriptor: Descriptor, unpack: Convert | None = None) -> Convert:
    """Return the function that converts a protobuf message to a ``cls``.

    If a value is out of its bounds, the function raises a Refusal that names the field. ``unpack`` converts an ``Any``
    for a field that holds values of any class (:class:`domain.bounds.Boxed`).
    """
    _check_depth(descriptor)
    known: dict[str, Any] = {}
    values = []
    for at, (hint, field) in enumerate(_pairs(cls, descriptor)):
        read, value = _field_reader(hint, field, unpack)
        known[f"read{at}"] = read
        values.append(value if read is None else f"read{at}({value})")
    is_tuple = get_origin(cls) is tuple
    lines = [f"return ({''.join(f'{value}, ' for value in values)})"]
    return _function(("message",), lines if is_tuple else _making(cls, values, known), known)


def maker(cls: type[T]) -> Callable[..., T]:
    """Return a function that makes an instance of the frozen dataclass ``cls`` from the values of all its fields.

    The function is three times as fast as the constructor.

    Raises Mismatch for a class whose constructor does more than set fields, and TypeError for a class that has other
    attributes than its fields.
    """
    record: Any = cls
    values = [f"value{at}" for at in range(len(fields(record)))]
    known: dict[str, Any] = {}
    return _function(values, _making(cls, values, known), known)


def _making(cls: type, values: Sequence[str], known: dict[str, Any]) -> list[str]:
    """Return the lines of code that make a ``cls`` from expressions for the values of its fields.

    Objects that the lines use are added to ``known``.

    The constructor of a frozen dataclass calls ``object.__setattr__`` for each field, which is slow. These lines make
    an instance of a twin class, which has the same slots and is not frozen. Then they change the instance's class to
    ``cls``, after which it is immutable.
    """
    if hasattr(cls, "__post_init__"):
        raise Mismatch(f"the constructor of {cls.__name__} does more than set its fields")
    record: Any = cls
    names = [field.name for field in fields(record)]
    slots = vars(cls).get("__slots__")
    own = {} if slots is None else {"__slots__": [name for name in names if name in slots]}
    twin: Any = type(cls.__name__, cls.__bases__, own)
    # The class of a twin is changed once here, so that an error appears at compile time, not with the first
    # transaction.
    twin().__class__ = record
    known.update(Twin=twin, Record=record)
    return [
        "record = Twin()",
        *(f"record.{name} = {value}" for name, value in zip(names, values, strict=True)),
        "record.__class__ = Record",
        "return record",
    ]


def _function(arguments: Sequence[str], lines: Sequence[str], known: dict[str, Any]) -> Callable[..., Any]:
    """Return the function with these arguments and these lines of code as its body.

    The function is compiled as ``dataclass`` compiles constructors. It has one line per field. So it avoids the loops
    and calls in which generic code spends most of its time. The lines contain only names of fields and names in
    ``known``.
    """
    source = "\n    ".join([f"def convert({', '.join(arguments)}):", *lines])
    exec(source, known)  # noqa: S102  # the source contains no text from outside
    function: Callable[..., Any] = known["convert"]
    return function


@cache
def writer(cls: type, descriptor: Descriptor, pack: Convert | None = None) -> Convert:
    """Return the function that converts a ``cls`` to a protobuf message; the function refuses a value out of bounds.

    ``pack`` converts a value of any class to an ``Any``.
    """
    # Compiling the reader raises Mismatch for a type that cannot be read. Such a type cannot be written either.
    reader(cls, descriptor, pack)
    write = _writer(cls, descriptor, pack)

    def write_checked(value: Any) -> Any:
        check(value)
        return write(value)

    return write_checked


def _pairs(cls: Any, descriptor: Descriptor) -> list[tuple[Any, FieldDescriptor]]:
    """Return the type and the protobuf field of each field of ``cls``, in the order of the dataclass (or tuple)."""
    if get_origin(cls) is tuple:
        hints = get_args(cls)
        if len(hints) != len(descriptor.fields):
            raise Mismatch(f"{descriptor.full_name} does not have the {len(hints)} fields of {cls}")
        return list(zip(hints, descriptor.fields, strict=True))
    hinted = hints_of(cls)
    odd = {name for name, _ in hinted} ^ set(descriptor.fields_by_name)
    if odd:
        raise Mismatch(f"{cls.__name__} and {descriptor.full_name} differ in {sorted(odd)}")
    return [(hint, descriptor.fields_by_name[name]) for name, hint in hinted]


def _check_depth(descriptor: Descriptor, depth: int = 3) -> None:
    """Raise Mismatch for a type that is nested deeper than DECODE_DEPTH_MAX.

    ``depth`` is the level of ``descriptor``. It starts at 3, because TxRaw, TxBody and Any are around every message.
    """
    if depth > DECODE_DEPTH_MAX:
        raise Mismatch(f"{descriptor.full_name} is nested deeper than {DECODE_DEPTH_MAX}")
    for field in descriptor.fields:
        if field.message_type is not None:
            _check_depth(field.message_type, depth + 1)


def _mismatch(hint: Any, field: FieldDescriptor) -> NoReturn:
    raise Mismatch(f"{hint} does not fit {field.full_name}")


# --- reading -------------------------------------------------------------------------------------


def _field_reader(hint: Any, field: FieldDescriptor, unpack: Convert | None) -> tuple[Convert | None, str]:
    """Return the function that converts the value of ``field``, and the expression for the function's argument.

    The function is None if the expression itself gives the domain value. A nested message may be missing, so the
    function for a nested message takes the enclosing message. Any other field always has a value, even if it is only
    the default.
    """
    value = f"message.{field.name}"
    if field.label == FieldDescriptor.LABEL_REPEATED:
        return _list_reader(hint, field, unpack), value
    if field.message_type is not None:
        return _record_reader(hint, field, unpack), "message"
    return _value_reader(hint, field, field.name), value


def _record_reader(hint: Any, field: FieldDescriptor, unpack: Convert | None) -> Convert:
    name = field.name
    get = attrgetter(name)
    hint, optional = without_none(hint)
    read = _part_reader(hint, field, unpack)

    def read_record(message: Any) -> Any:
        if not message.HasField(name):
            if optional:
                return None
            raise Refusal(TX_DECODE, name, "is missing", "send the field, even if all its own fields are zero")
        try:
            return read(get(message))
        except Refusal as refusal:
            raise inside(name, refusal) from None

    return read_record


def _part_reader(hint: Any, field: FieldDescriptor, unpack: Convert | None) -> Convert:
    if is_boxed(hint):
        return _check_box(hint, field, unpack)
    if choices_of(hint):
        return _choice_reader(hint, field)
    if not (is_dataclass(hint) or (get_origin(hint) is tuple and item_of(hint) is None)):
        _mismatch(hint, field)
    cls: Any = hint
    return reader(cls, field.message_type, unpack)


def _check_box(hint: Any, field: FieldDescriptor, convert: Convert | None) -> Convert:
    """Return ``convert``, for a field that holds values of any class; Mismatch if the field is not an ``Any``."""
    if convert is None or field.message_type is None or field.message_type.full_name != "google.protobuf.Any":
        _mismatch(hint, field)
    return convert


def _choice_reader(hint: Any, field: FieldDescriptor) -> Convert:
    """Return the function that converts an ``Any`` to a value of one of the classes that ``hint`` stands for.

    Its bytes must be the canonical encoding of the value, as those of a message.
    """
    if field.message_type.full_name != AnyProto.DESCRIPTOR.full_name:
        _mismatch(hint, field)
    known: dict[str, tuple[Any, Convert]] = {}
    for cls in choices_of(hint):
        descriptor = descriptor_of(cls.URL)
        known[cls.URL] = GetMessageClass(descriptor), reader(cls, descriptor)

    def read_choice(message: Any) -> Any:
        url = message.type_url
        entry = known.get(url)
        if entry is None:
            reason = f"{url[:100]!r} cannot be in this field"
            raise Refusal(UNKNOWN_REQUEST, "type_url", reason, f"use one of {', '.join(sorted(known))}")
        proto, read = entry
        return read(parse(proto, message.value, ""))

    return read_choice


def _list_reader(hint: Any, field: FieldDescriptor, unpack: Convert | None) -> Convert:
    name = field.name
    item = item_of(split(hint)[0])
    if item is None:
        _mismatch(hint, field)
    fits = own_checker(hint, name)
    nested = field.message_type is not None
    read = _part_reader(item, field, unpack) if nested else _value_reader(item, field, "")

    def read_list(values: Any) -> tuple[Any, ...]:
        fits(values)
        # Copying the whole list takes a third of the time of reading its items one by one.
        items = values[:]
        if read is None:
            return tuple(items)
        converted: list[Any] = []
        try:
            for value in items:  # one by one, so that the index of a refused item is known
                converted.append(read(value))  # noqa: PERF401
        except Refusal as refusal:
            raise inside(f"{name}[{len(converted)}]", refusal) from None
        return tuple(converted)

    return read_list


def _value_reader(hint: Any, field: FieldDescriptor, name: str) -> Convert | None:
    """Return the function that converts one protobuf value to its domain value.

    Return None if every protobuf value is a valid domain value without a conversion.
    """
    hint, optional = without_none(hint)
    if optional:
        return _maybe_reader(_value_reader(hint, field, name), field)
    kind, marks = split(hint)
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        return _enum_reader({int(case): case for case in kind}, field, name)
    if kind is int:
        return _int_reader(hint, field, name)
    if _PLAIN.get(kind) != field.type:
        _mismatch(hint, field)
    if kind is bool:
        return None
    if ADDRESS in marks or MAYBE_ADDRESS in marks:
        return _address_reader(MAYBE_ADDRESS in marks, name)
    if OPERATOR_ADDRESS in marks:
        return lambda value: account_of(value, name)
    fits = own_checker(hint, name)

    def read_value(value: Any) -> Any:
        fits(value)
        return value

    return read_value


def _maybe_reader(read: Convert | None, field: FieldDescriptor) -> Convert:
    """Return the function that converts an empty text to None, and any other text as ``read`` does."""
    if read is None or field.type != FieldDescriptor.TYPE_STRING:
        raise Mismatch(f"{field.full_name} is not a text, so it cannot be left out")
    return lambda value: read(value) if value else None


def _int_reader(hint: Any, field: FieldDescriptor, name: str) -> Convert | None:
    if field.enum_type is not None:
        numbers = [value.number for value in field.enum_type.values]
        return _enum_reader({number: number for number in numbers}, field, name)
    fits = own_checker(hint, name)
    ranges = [mark for mark in split(hint)[1] if isinstance(mark, Range)]
    low, high = max(mark.low for mark in ranges), min(mark.high for mark in ranges)
    if field.type == FieldDescriptor.TYPE_STRING:
        return _decimal_reader(low, high, fits, name, next((mark.above for mark in ranges if mark.above), None))
    if field.cpp_type not in _RANGES:
        _mismatch(hint, field)
    lowest, highest = _RANGES[field.cpp_type]
    if low < lowest or high > highest:
        _mismatch(hint, field)
    if (low, high) == (lowest, highest):
        return None

    def read_int(value: int) -> int:
        if not low <= value <= high:
            fits(value)
        return value

    return read_int


def _decimal_reader(low: int, high: int, fits: Convert, name: str, above: Code | None) -> Convert:
    """Return the function that converts plain decimal digits to an integer; it refuses any other text."""

    def read_decimal(text: str) -> int:
        # The length is checked before int(), which is slow for many digits and raises ValueError for thousands.
        if not (text.isascii() and text.isdigit()) or (text[0] == "0" and len(text) > 1):
            raise Refusal(
                TX_DECODE,
                name,
                "is not a plain decimal number",
                "write digits only: no sign, point, exponent or leading zero",
            )
        if len(text) > _DIGITS_MAX or (value := int(text)) > high:
            if above is not None and len(text) <= _DIGITS_SHOWN:
                raise too_much(above, name, int(text), high)
            raise Refusal(TX_DECODE, name, "is too large", f"use at most {high}")
        if value < low:
            fits(value)
        return value

    return read_decimal


def _address_reader(blank: bool, name: str) -> Convert:
    def read_address(value: str) -> str:
        if value or not blank:
            check_address(value, name)
        return value

    return read_address


def _enum_reader(cases: dict[int, Any], field: FieldDescriptor, name: str) -> Convert:
    """Return the function that converts the number of an enum to its value in ``cases``.

    In protobuf, the field is an enum with the same numbers, or an integer of four bytes.
    """
    if field.enum_type is not None:
        if {value.number for value in field.enum_type.values} - {0} != set(cases) - {0}:
            raise Mismatch(f"{sorted(cases)} are not the numbers of {field.full_name}")
    elif field.cpp_type != FieldDescriptor.CPPTYPE_UINT32:
        raise Mismatch(f"an enum does not fit {field.full_name}")

    def read_enum(value: int) -> Any:
        try:
            return cases[value]
        except KeyError:
            reason, remedy = f"{value} is not known", f"use one of {sorted(cases)}"
            raise Refusal(BAD_FIELD, name, reason, remedy) from None

    return read_enum


# --- writing -------------------------------------------------------------------------------------


@cache
def _writer(cls: type, descriptor: Descriptor, pack: Convert | None) -> Convert:
    """Return the function that converts a ``cls`` value, which is within its bounds, to a protobuf message."""
    message_class = GetMessageClass(descriptor)
    pairs = _pairs(cls, descriptor)
    names = tuple(field.name for _, field in pairs)
    writers = tuple(_field_writer(hint, field, pack) for hint, field in pairs)
    get: Callable[[Any], Sequence[Any]] = tuple if get_origin(cls) is tuple else _values_of(names)

    def write(value: Any) -> Any:
        parts = zip(names, writers, get(value), strict=True)
        return message_class(
            **{
                name: part if write_field is None else write_field(part)
                for name, write_field, part in parts
                if part is not None
            }
        )

    return write


def _values_of(names: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    """Return the function that returns the values of an object's attributes with these names."""
    if not names:
        return lambda value: ()
    if len(names) == 1:
        get = attrgetter(names[0])
        return lambda value: (get(value),)
    return attrgetter(*names)


def _field_writer(hint: Any, field: FieldDescriptor, pack: Convert | None) -> Convert | None:
    """Return the function that converts a domain value to the argument of protobuf's constructor for ``field``.

    Return None if the domain value itself is the argument.
    """
    inner, _ = without_none(hint)
    if field.label == FieldDescriptor.LABEL_REPEATED:
        write = _item_writer(item_of(split(inner)[0]), field, pack)
        return None if write is None else lambda values: [write(value) for value in values]
    return _item_writer(inner, field, pack)


def _item_writer(hint: Any, field: FieldDescriptor, pack: Convert | None) -> Convert | None:
    kind, marks = split(hint)
    if is_boxed(kind):
        return _check_box(kind, field, pack)
    if field.message_type is not None:
        return _write_choice if choices_of(kind) else _writer(kind, field.message_type, pack)
    if OPERATOR_ADDRESS in marks:
        return operator_address
    if kind is int and field.type == FieldDescriptor.TYPE_STRING:
        return str
    return None


def _write_choice(value: Any) -> Any:
    cls: Any = type(value)
    write = _writer(cls, descriptor_of(value.URL), None)
    return AnyProto(type_url=value.URL, value=write(value).SerializeToString())
