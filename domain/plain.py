"""The strict reader of JSON from outside. It reads values by their annotations, and its errors name the field's path.

The readers of files from other parties (a job, a trace) use it. :mod:`domain.codec` reads what the state wrote itself;
it is faster and does not check bounds. Both read what ``codec.to_plain`` writes.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, get_args, get_origin

from domain.bounds import Length, Test, hints_of, inside, item_of, own_checker, split, without_none
from domain.errors import BAD_FIELD, Refusal

T = TypeVar("T")
Reader = Callable[[Any], Any]

KEY_SHOWN = 40
"""Number of characters of an unknown key that an error repeats."""

_HEX = re.compile("[0-9a-f]*")
_KINDS: Mapping[type, str] = MappingProxyType(
    {int: "an integer", str: "text", bool: "true or false", dict: "an object", list: "a list"}
)


def read(cls: type[T], value: Any, field: str = "") -> T:
    """Return a ``cls`` made from JSON values.

    The values must have exactly the fields of ``cls``, each within the bounds of its annotation.

    If a value already has the class of its field, it is used unchanged, so a caller may read parts of ``value`` first.

    Raises Refusal with the path of the first field that does not fit; the path begins with ``field``. Raises Mismatch
    if an annotation of ``cls`` has no bounds.
    """
    hint: Any = cls
    try:
        built: T = _reader(hint)(value)
    except Refusal as refusal:
        raise inside(field, refusal) if field else refusal from None
    return built


def _refuse(reason: str, remedy: str = "", field: str = "") -> Refusal:
    return Refusal(BAD_FIELD, field, reason, remedy)


def _expect(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise _refuse(f"is not {_KINDS[kind]}")
    return value


@cache
def _reader(hint: Any) -> Reader:
    """Return the function that reads a value of the type ``hint``.

    Its errors name a field by its path inside the value.
    """
    kind, _ = split(hint)
    if kind is Any:
        return lambda value: value
    kind, optional = without_none(kind)
    if optional:
        some = _reader(kind)
        return lambda value: None if value is None else some(value)
    if item_of(kind) is not None:
        return _tuple_reader(hint, kind)
    if get_origin(kind) is Mapping:
        return _mapping_reader(*get_args(kind))
    if is_dataclass(kind):
        return _record_reader(kind)
    if kind is bool:
        return lambda value: _expect(bool, value)
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        return lambda value: _enum(kind, value)
    return _leaf_reader(kind, own_checker(hint, ""))


def _leaf_reader(kind: Any, test: Test) -> Reader:
    def read_leaf(value: Any) -> Any:
        leaf = _bytes(value) if kind is bytes else _expect(kind, value)
        test(leaf)
        return leaf

    return read_leaf


def _bytes(value: Any) -> bytes:
    text = _expect(str, value)
    if len(text) % 2 or _HEX.fullmatch(text) is None:
        raise _refuse("is not lower-case hex with two digits per byte")
    return bytes.fromhex(text)


def _enum(kind: type[IntEnum], value: Any) -> IntEnum:
    number = _expect(int, value)
    try:
        return kind(number)
    except ValueError:
        known = ", ".join(str(int(item)) for item in kind)
        raise _refuse(f"{number} is not one of {known}") from None


def _tuple_reader(hint: Any, kind: Any) -> Reader:
    """Return the function that reads a list of JSON values as a tuple.

    It tests the length before it reads the items.
    """
    item = _reader(item_of(kind))
    test = own_checker(hint, "")
    lengths = tuple(mark for mark in split(hint)[1] if isinstance(mark, Length))
    test_length = own_checker(Annotated[(kind, *lengths)], "")

    def read_items(value: Any) -> tuple[Any, ...]:
        parts = _expect(list, value)
        test_length(parts)
        built = []
        for index, part in enumerate(parts):
            try:
                built.append(item(part))
            except Refusal as refusal:
                raise inside(f"[{index}]", refusal) from None
        result = tuple(built)
        test(result)
        return result

    return read_items


def _mapping_reader(key: Any, item: Any) -> Reader:
    read_key, read_item = _reader(key), _reader(item)

    def read_entries(value: Any) -> dict[Any, Any]:
        built = {}
        for name, part in _expect(dict, value).items():
            try:
                built[read_key(name)] = read_item(part)
            except Refusal as refusal:
                raise inside(name[:KEY_SHOWN], refusal) from None
        return built

    return read_entries


@cache
def _field_readers(cls: Any) -> Mapping[str, Reader]:
    return MappingProxyType({name: _reader(hint) for name, hint in hints_of(cls)})


def _record_reader(cls: Any) -> Reader:
    def read_record(value: Any) -> Any:
        if type(value) is cls:
            return value
        record = _expect(dict, value)
        readers = _field_readers(cls)
        for name in record:
            if name not in readers:
                raise _refuse("there is no such field", "remove it", name[:KEY_SHOWN])
        built = {}
        for name, reader in readers.items():
            if name not in record:
                raise _refuse("the field is missing", "add it", name)
            try:
                built[name] = reader(record[name])
            except Refusal as refusal:
                raise inside(name, refusal) from None
        return cls(**built)

    return read_record
