"""Records as one line of text, for the output of programs and notebooks. No code reads such a line back.

A record that inherits :class:`Readable` shows its fields in order. Bytes are cut to the digits that people use to name
an id, long lists are shown as their length, and long records as their class name. A record can choose its parts with a
method ``summary``. A notebook shows a :class:`Shown` record as a table of these parts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from enum import Enum
from typing import Any

DIGITS = 12
"""Number of hex digits of an id that are shown."""
LINE_MAX = 200
_TEXT_MAX = 48
_ITEMS_MAX = 3


class Readable:
    """A record whose ``repr`` is one readable line."""

    __slots__ = ()

    def __init_subclass__(cls, **more: Any) -> None:
        """Set the class's ``repr``, so that ``dataclass``, which runs later, does not set another one."""
        super().__init_subclass__(**more)
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = Readable.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        """Return the record as one readable line."""
        return in_line(type(self).__name__, self.summary())

    def summary(self) -> Iterable[tuple[str, object]]:
        """Return the parts to show, as pairs of name and value: all fields, unless a subclass chooses other parts."""
        record: Any = self
        return [
            (field.name, getattr(record, field.name))
            for field in fields(record)
            if field.repr and not field.name.startswith("_")
        ]


class Shown(Readable):
    """A record that a notebook shows as a table. The rows are the parts that :meth:`Readable.summary` returns."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return as_table(type(self).__name__, self.summary())


def in_line(name: str, parts: Iterable[tuple[str, object]]) -> str:
    """Return ``name`` followed by its parts in parentheses, as one line of at most ``LINE_MAX`` characters.

    >>> in_line("Bid", [("id", bytes(32)), ("price", "1 ASSAY per PFLOP"), ("tiers", ("exact",))])
    "Bid(id=000000000000…, price=1 ASSAY per PFLOP, tiers=('exact',))"
    """
    line = f"{name}({', '.join(f'{part}={shorten(value)}' for part, value in parts)})"
    return line if len(line) <= LINE_MAX else f"{line[: LINE_MAX - 2]}…)"


def as_table(name: str, parts: Iterable[tuple[str, object]]) -> str:
    """Return ``name`` and its parts as an HTML table."""
    rows = "".join(f"<tr><th>{_escape(part)}</th><td>{_escape(shorten(value))}</td></tr>" for part, value in parts)
    return f"<table><caption>{_escape(name)}</caption>{rows}</table>"


def shorten(value: object) -> str:
    """Return a short text of a value, without line breaks.

    >>> shorten(bytes([17]) * 32), shorten([1, 2]), shorten(range(9)), shorten("a" * 99)[-3:]
    ('111111111111…', '[1, 2]', '9 items', 'aa…')
    """
    match value:
        case bytes():
            text = value.hex()
            return f"{text[:DIGITS]}…" if len(text) > DIGITS else text or "-"
        case str():
            return _one_line(value)
        case Enum():
            return value.name.lower()
        case Readable() | Mapping() | list() | tuple() | range() | set() | frozenset():
            return _shorten_parts(value)
    if shape := getattr(value, "shape", None):
        return f"array of shape {shape}"
    text = repr(value)
    is_plain = len(text) <= _TEXT_MAX and " at 0x" not in text and "\n" not in text
    return text if is_plain else f"{type(value).__name__}(…)"


def _shorten_parts(value: Any) -> str:
    if isinstance(value, Readable):
        line = repr(value)
        return line if len(line) <= _TEXT_MAX else f"{type(value).__name__}(…)"
    if len(value) > _ITEMS_MAX or isinstance(value, range | set | frozenset):
        return "1 item" if len(value) == 1 else f"{len(value)} items"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{shorten(key)}: {shorten(item)}" for key, item in value.items())
        return f"{{{inside}}}"
    parts = [repr(item) if isinstance(item, str) and len(item) <= _TEXT_MAX else shorten(item) for item in value]
    if isinstance(value, list):
        return f"[{', '.join(parts)}]"
    if len(parts) == 1:
        return f"({parts[0]},)"
    return f"({', '.join(parts)})"


def _one_line(text: str) -> str:
    shown = "".join(letter if letter.isprintable() else "·" for letter in text[: _TEXT_MAX + 1])
    return f"{shown[:_TEXT_MAX]}…" if len(text) > _TEXT_MAX else shown


def _escape(text: str) -> str:
    for letter, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ('"', "quot")):
        text = text.replace(letter, f"&{name};")
    return text
