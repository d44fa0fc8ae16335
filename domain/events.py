"""Events: one record per change of the state. The state machine numbers them without gaps.

The state machine emits subclasses of :class:`Change`. On the wire and in the event log, an event consists of its kind
and of attributes, all of which are texts. The event log lies outside the Merkle tree. Bytes are written in hex,
integers in decimal, and lists with a comma between the items. The key of a round, a panel or a share becomes one
attribute per part, and a record becomes its canonical JSON. :func:`to_event` writes the attributes, and
:func:`domain.vocabulary.read_event` reads them.

An event carries all new and changed fields. So the genesis and all events are enough to compute the book, the escrows,
the records, the stakes and the sinks.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, TypeVar, get_args, get_origin, get_type_hints

from domain.codec import decode, encode
from domain.keys import PanelKey, RoundKey, ShareKey
from domain.readable import Readable


@dataclass(frozen=True, slots=True)
class Event:
    """An event on the wire. ``number`` is its place in the sequence of events, which has no gaps.

    Events that only Cosmos clients expect, for example ``transfer``, are outside the sequence and have the number 0.
    """

    type: str
    attributes: tuple[tuple[str, str], ...]
    number: int = 0

    def get(self, key: str) -> str:
        """Return the value of the first attribute named ``key``, or an empty string if there is none."""
        for name, value in self.attributes:
            if name == key:
                return value
        return ""


C = TypeVar("C", bound="Change")

Counts = tuple[tuple[str, int], ...]
"""Pairs of a name and a number. Each pair becomes an attribute of its own, after all other attributes."""


class Change(Readable):
    """A change of the state that users and daemons follow; ``KIND`` is its name on the wire.

    Example::

        for event in order.events():
            assert isinstance(event, assay.Change)
            print(event.KIND, event)
    """

    __slots__ = ()
    KIND: ClassVar[str]


_ROUND = ("order", "leg", "round")

_PARTS: Mapping[Any, tuple[str, ...]] = MappingProxyType(
    {RoundKey: _ROUND, PanelKey: (*_ROUND, "dispute"), ShareKey: (*_ROUND, "slot", "issue")}
)


class Attributed(Protocol):
    """An event from any source: the event log, a subscription or a query."""

    @property
    def type(self) -> str:
        """The kind of the event."""
        ...

    @property
    def attributes(self) -> tuple[tuple[str, str], ...]:
        """Pairs of an attribute's name and its text."""
        ...


def to_event(change: Change, number: int) -> Event:
    """Return a change in its wire form. ``number`` is its number in the sequence of events."""
    attributes: list[tuple[str, str]] = []
    cls: Any = type(change)
    for name, write in _writers(cls):
        attributes += write(getattr(change, name))
    return Event(change.KIND, tuple(attributes), number)


def read_change(cls: Any, event: Attributed) -> Change:
    """Return the change of class ``cls`` that an event describes.

    ValueError if the attributes do not fit its fields.
    """
    rest = event.attributes
    values = []
    for name, hint in _hints(cls):
        size = len(rest) if hint == Counts else len(_PARTS.get(hint, (name,)))
        values.append(_read(name, hint, rest[:size]))
        rest = rest[size:]
    if rest:
        raise ValueError(f"{event.type}: unknown attributes {rest}")
    change: Change = cls(*values)
    return change


@cache
def _hints(cls: Any) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(cls)
    return tuple((field.name, hints[field.name]) for field in fields(cls))


@cache
def _writers(cls: Any) -> tuple[tuple[str, Callable[[Any], Iterable[tuple[str, str]]]], ...]:
    return tuple((name, _writer(name, hint)) for name, hint in _hints(cls))


def _writer(name: str, hint: Any) -> Callable[[Any], Iterable[tuple[str, str]]]:
    """Return the function that turns a field's value into its attributes.

    It is compiled once, because every block needs it.
    """
    if hint in _PARTS:
        parts = _PARTS[hint]
        return lambda key: zip(parts, (key.order_id.hex(), *map(str, (*key,)[1:])), strict=True)
    if hint == Counts:
        return lambda counts: ((word, str(count)) for word, count in counts)
    if get_origin(hint) is tuple:
        item = _text_of(get_args(hint)[0])
        return lambda items: ((name, ",".join(map(item, items))),)
    text = _text_of(hint)
    return lambda value: ((name, text(value)),)


def _text_of(hint: Any) -> Callable[[Any], str]:
    if hint is bool:
        return lambda value: "true" if value else "false"
    if hint is int:
        return int.__repr__
    if is_dataclass(hint):
        return lambda record: encode(record).decode()
    return bytes.hex if hint is bytes else str


def _read(name: str, hint: Any, pairs: tuple[tuple[str, str], ...]) -> Any:
    if hint == Counts:
        return tuple((word, int(count)) for word, count in pairs)
    names = _PARTS.get(hint, (name,))
    if tuple(word for word, _ in pairs) != names:
        raise ValueError(f"the attributes must be {names}, not {pairs}")
    if hint in _PARTS:
        return hint(*[_value(kind, text) for (_, kind), (_, text) in zip(_hints(hint), pairs, strict=True)])
    ((_, text),) = pairs
    if get_origin(hint) is tuple:
        return tuple(_value(get_args(hint)[0], item) for item in text.split(",") if text)
    return _value(hint, text)


def _value(hint: Any, text: str) -> Any:
    if hint is bool:
        if text not in ("true", "false"):
            raise ValueError(f"{text!r} is neither true nor false")
        return text == "true"
    if is_dataclass(hint):
        record: Any = hint
        return decode(record, text.encode())
    return bytes.fromhex(text) if hint is bytes else hint(text)
