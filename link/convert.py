"""Protobuf of this link to domain values and back: the only place here that knows both.

Driven by the type hints of the domain class, whose field names equal the protobuf names. Reading is
strict: missing parts and values out of bounds are refused with the field's path, and a request with
unknown fields is refused whole (a reply may have some, of a newer server).
"""

from collections.abc import Callable
from dataclasses import is_dataclass
from enum import IntEnum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from google.protobuf.message import DecodeError, Message

from link.bounds import OutOfBounds, check, split
from link.errors import ClusterError, Kind

T = TypeVar("T")


def decode(proto: type[Message], cls: type[T], data: bytes) -> T:
    """Read the bytes of a message as a ``cls``; ClusterError(BAD_REQUEST) names the field."""
    message = proto()
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise ClusterError(
            Kind.BAD_REQUEST, f"not a {proto.DESCRIPTOR.name}", "send protobuf of that message"
        ) from None
    size = message.ByteSize()
    cast(Any, message).DiscardUnknownFields()  # at every depth; the stubs do not know it
    if message.ByteSize() != size:
        raise ClusterError(
            Kind.BAD_REQUEST, f"unknown fields in {proto.DESCRIPTOR.name}", "see assay.cluster.v1"
        )
    return from_wire(cls, message)


def from_wire(cls: type[T], message: Message) -> T:
    """Turn a parsed message into a ``cls``; ClusterError(BAD_REQUEST) names the field."""
    try:
        value = cast(T, _read(cls, message, ""))
        check(value)
    except OutOfBounds as error:
        raise ClusterError(
            Kind.BAD_REQUEST, error.reason, "see assay.cluster.v1", field=error.field
        ) from None
    return value


def to_wire(proto: type[Message], value: Any) -> Message:
    """Turn a domain value into its message; OutOfBounds (a bug of ours) if it does not fit."""
    check(value)
    message = proto()
    _write(value, message)
    return message


def _read(cls: Any, message: Message, path: str) -> Any:
    values = {}
    for name, hint in _plain_hints(cls).items():
        where = f"{path}.{name}" if path else name
        values[name] = _reader(hint)(message, name, where)
    return cls(**values)


@cache
def _plain_hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


@cache
def _reader(annotated: Any) -> Callable[[Message, str, str], Any]:
    """Return the function that reads one field of the type ``annotated`` from a message."""
    hint, _ = split(annotated)
    if get_origin(hint) is UnionType and NoneType in get_args(hint):
        inner = _reader(next(part for part in get_args(hint) if part is not NoneType))
        return lambda m, name, path: inner(m, name, path) if m.HasField(name) else None
    if is_dataclass(hint):
        return lambda m, name, path: _part(hint, m, name, path)
    if get_origin(hint) is tuple:
        item, _ = split(get_args(hint)[0])
        if is_dataclass(item):
            return lambda m, name, path: tuple(
                _read(item, part, f"{path}[{index}]") for index, part in enumerate(getattr(m, name))
            )
        return lambda m, name, _: tuple(getattr(m, name))
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return lambda m, name, path: _enum(hint, getattr(m, name), path)
    return lambda m, name, _: getattr(m, name)


def _part(cls: Any, message: Message, name: str, path: str) -> Any:
    if not message.HasField(name):
        raise OutOfBounds(path, "missing")
    return _read(cls, getattr(message, name), path)


def _enum(cls: type[IntEnum], value: int, path: str) -> IntEnum:
    try:
        return cls(value)
    except ValueError:
        raise OutOfBounds(path, f"{value} is not a {cls.__name__}") from None


def _write(value: Any, message: Message) -> None:
    cls: Any = type(value)
    for name in _plain_hints(cls):
        part = getattr(value, name)
        if part is None:
            continue
        if isinstance(part, tuple):
            repeated = getattr(message, name)
            for item in part:
                if is_dataclass(item):
                    _write(item, repeated.add())
                else:
                    _set(name, repeated.append, item)
        elif is_dataclass(part):
            child = getattr(message, name)
            child.SetInParent()  # a part whose fields all are zero must still be there
            _write(part, child)
        else:
            _set(
                name,
                partial(setattr, message, name),
                int(part) if isinstance(part, IntEnum) else part,
            )


def _set(name: str, put: Callable[[Any], None], value: Any) -> None:
    try:
        put(value)
    except ValueError as error:  # wider than the field, where a foreign type bounds it less
        raise OutOfBounds(name, str(error)) from None
