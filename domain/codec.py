"""The canonical JSON of records. The state stores records in this form, and queries return them in the same form.

A dataclass becomes an object of its fields. Bytes become hex, tuples become lists, and enums become their numbers.
Reading is strict and follows the type hints, so reading returns exactly the record that was written. Writers and
readers are compiled once per type, because every record of a block passes through them.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import IntEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

_dumps = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_loads = json.JSONDecoder().decode


@dataclass(frozen=True, slots=True)
class Packed:
    """A record inside another record. The class of the outer record does not import the class of the inner one.

    Only the code that reads the field knows the class of the inner record. In JSON, a packed record looks the same as
    the record itself.
    """

    # Canonical JSON of the record.
    text: str

    def unpack(self, cls: type[T]) -> T:
        """Return the packed record as a ``cls``. The ValueError for other contents names the part that does not fit."""
        return decode(cls, self.text.encode())


def pack(record: Any) -> Packed:
    """Return ``record`` packed, so that a record of another class can hold it."""
    return Packed(_dumps(to_plain(record)))


def to_plain(value: Any) -> Any:
    """Return ``value`` as JSON values (dict, list, str, int, bool, None)."""
    cls: Any = type(value)
    return _writer(cls)(value)


def encode(value: Any) -> bytes:
    """Return the canonical bytes of ``value``: JSON with sorted keys and no spaces."""
    if type(value) is int:  # for balances and counters
        return b"%d" % value
    return _dumps(to_plain(value)).encode()


def from_plain(cls: type[T], value: Any) -> T:
    """Return a ``cls`` made from JSON values. The ValueError for other values names the part that does not fit."""
    hint: Any = cls
    built: T = _reader(hint)(value)
    return built


def decode(cls: type[T], data: bytes) -> T:
    """Return the value that :func:`encode` wrote."""
    if cls is int:
        number: Any = int(data)  # needs no check, because only :func:`encode` writes the bytes that are read here
        result: T = number
        return result
    return from_plain(cls, _loads(data.decode()))


@cache
def _writer(cls: Any) -> Callable[[Any], Any]:
    """Return the function that turns a value of the class ``cls`` into JSON values."""
    if cls in (NoneType, bool, str, int):
        return _same
    if issubclass(cls, int):
        return int
    if cls is bytes:
        return bytes.hex
    if cls is tuple:
        return lambda value: [to_plain(item) for item in value]
    if cls is Packed:
        return lambda value: _loads(value.text)
    if is_dataclass(cls):
        names = tuple(field.name for field in fields(cls))
        return lambda value: {name: to_plain(getattr(value, name)) for name in names}
    raise TypeError(f"{cls.__name__} has no canonical form")


def _same(value: Any) -> Any:
    return value


@cache
def _reader(hint: Any) -> Callable[[Any], Any]:
    """Return the function that reads a value of the type ``hint``."""
    origin = get_origin(hint)
    args = get_args(hint)
    if origin in (UnionType, Union) and len(args) == 2 and NoneType in args:
        inner = _reader(args[0] if args[1] is NoneType else args[1])
        return lambda value: None if value is None else inner(value)
    if origin in (UnionType, Union):
        return _choice_reader(args)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        item = _reader(args[0])
        return lambda value: tuple([item(part) for part in _expect(list, value)])
    if origin is tuple:
        readers = tuple(_reader(arg) for arg in args)
        return lambda value: tuple([r(v) for r, v in zip(readers, _expect(list, value), strict=True)])
    if hint is bytes:
        return lambda value: bytes.fromhex(_expect(str, value))
    if hint in (int, str, bool):
        return lambda value: _expect(hint, value)
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return lambda value: hint(_expect(int, value))
    if hint is Packed:
        return lambda value: Packed(_dumps(value))
    if is_dataclass(hint):
        return _record_reader(hint)
    raise TypeError(f"{hint} has no canonical form")


def _choice_reader(classes: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Return the function that reads a record of one of several classes, which differ in the names of their fields."""
    by_names = {frozenset(field.name for field in fields(cls)): _reader(cls) for cls in classes}
    if len(by_names) != len(classes):
        raise TypeError(f"two of {classes} have the same fields")

    def read(value: Any) -> Any:
        reader = by_names.get(frozenset(_expect(dict, value)))
        if reader is None:
            raise ValueError(f"{sorted(value)} are not the fields of one of {classes}")
        return reader(value)

    return read


def _record_reader(cls: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(cls)
    readers = tuple((field.name, _reader(hints[field.name])) for field in fields(cls))
    names = {name for name, _ in readers}
    by_name = any(field.kw_only for field in fields(cls))

    def read(value: Any) -> Any:
        record = _expect(dict, value)
        if record.keys() != names:
            odd = sorted(record.keys() ^ names)
            raise ValueError(f"{cls.__name__}: unknown or missing fields {odd}")
        if by_name:
            return cls(**{name: reader(record[name]) for name, reader in readers})
        return cls(*[reader(record[name]) for name, reader in readers])

    return read


def _expect(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise ValueError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value
