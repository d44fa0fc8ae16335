"""Bounds written beside the fields they bound, and the one function that checks them.

A field says ``Annotated[int, Within(1, 8)]`` or ``Annotated[bytes, Length(33, 33)]``. What carries
no bound has a default: bytes are a hash (32), integers 0..2^63-1, text up to 128 bytes, lists up
to 64 items.
"""

import re
from dataclasses import dataclass, fields, is_dataclass
from enum import IntEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

INT_MAX = 2**63 - 1


class OutOfBounds(ValueError):
    """A value that does not fit; ``field`` is its path from the outermost value."""

    def __init__(self, field: str, reason: str) -> None:
        """Keep the path and the reason."""
        self.field = field
        self.reason = reason
        super().__init__(f"{field}: {reason}")


@dataclass(frozen=True, slots=True)
class Within:
    """An integer between ``low`` and ``high``, both included."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Length:
    """A length in bytes (bytes, text) or items (lists): ``low`` to ``high``, both included."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Matches:
    """Text that matches the whole pattern."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Each:
    """A bound for the items of a list."""

    bound: "Within | Length | Matches"


Bound = Within | Length | Matches | Each

_DEFAULTS: dict[type, tuple[Bound, ...]] = {
    bytes: (Length(32, 32),),
    int: (Within(0, INT_MAX),),
    str: (Length(0, 128),),
    tuple: (Length(0, 64),),
}


def check(value: Any, path: str = "") -> None:
    """Raise :class:`OutOfBounds` unless every field of the dataclass is within its bounds."""
    cls: Any = type(value)
    for name, hint in _hints(cls):
        _check_field(getattr(value, name), hint, f"{path}.{name}" if path else name)


@cache
def _hints(cls: Any) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(cls, include_extras=True)
    return tuple((field.name, hints[field.name]) for field in fields(cls))


def split(hint: Any) -> tuple[Any, tuple[Bound, ...]]:
    """Return the plain type of ``hint`` and the bounds it is annotated with."""
    if get_origin(hint) is Annotated:
        plain, *marks = get_args(hint)
        return plain, tuple(mark for mark in marks if isinstance(mark, Bound))
    return hint, ()


def _check_field(value: Any, hint: Any, path: str) -> None:
    plain, bounds = split(hint)
    if get_origin(plain) is UnionType and NoneType in get_args(plain):
        if value is None:
            return
        plain = next(part for part in get_args(plain) if part is not NoneType)
    if is_dataclass(plain):
        check(value, path)
        return
    if plain is bool or (isinstance(plain, type) and issubclass(plain, IntEnum)):
        return  # the reader has built one of the few values there are
    kind = get_origin(plain) or plain
    each = [bound.bound for bound in bounds if isinstance(bound, Each)]
    own = [bound for bound in bounds if not isinstance(bound, Each)]
    for bound in own or _DEFAULTS[kind]:
        _check_bound(value, bound, path)
    if kind is tuple:
        item = get_args(plain)[0]
        hinted = Annotated[(item, *each)] if each else item
        for index, part in enumerate(value):
            _check_field(part, hinted, f"{path}[{index}]")


def _check_bound(value: Any, bound: Bound, path: str) -> None:
    if isinstance(bound, Within):
        if not bound.low <= value <= bound.high:
            raise OutOfBounds(path, f"{value} is not in {bound.low}..{bound.high}")
    elif isinstance(bound, Length):
        size = len(value.encode()) if isinstance(value, str) else len(value)
        if not bound.low <= size <= bound.high:
            raise OutOfBounds(path, f"length {size} is not in {bound.low}..{bound.high}")
    elif isinstance(bound, Matches) and re.fullmatch(bound.pattern, value) is None:
        raise OutOfBounds(path, f"{value[:64]!r} does not match {bound.pattern}")
