"""Messages that change the state, as domain values. Their fields have the names of the protobuf messages' fields.

``SIGNER`` names the field with the account that must sign: the account whose money or duty the message affects.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

from domain.bounds import Address, Boxed, Length
from domain.errors import LIMIT_REACHED
from domain.limits import SHARES_PER_MESSAGE_MAX

AT_ONCE = Length(0, SHARES_PER_MESSAGE_MAX, LIMIT_REACHED)


class LaneHalf(StrEnum):
    """The two halves of the lane. The lane is the part of a block that is reserved for duties."""

    # Commitments and answers of seats.
    SEATS = "seats"
    # Messages of validators about their legs.
    LEGS = "legs"


class Message(Boxed):
    """The base class of all messages. A message may hold messages, which are of any class.

    ``URL`` is the type url on the wire, and ``SIGNER`` the field with the account that must sign. Gas is counted in
    items; an item costs about as much as the check of one signature. A message counts as ``GAS_EXTRA`` items. For each
    entry of a field that ``GAS_ITEMS`` names, the number of items given there is added. ``LANE`` names a half of the
    lane if the message can be a duty. ``INNER`` names the field with messages inside the message, if it has such a
    field; their gas is added.
    """

    __slots__ = ()
    URL: ClassVar[str]
    SIGNER: ClassVar[str]
    GAS_EXTRA: ClassVar[int] = 0
    GAS_ITEMS: ClassVar[Mapping[str, int]] = MappingProxyType({})
    LANE: ClassVar[LaneHalf | None] = None
    INNER: ClassVar[str] = ""


def inner_of(message: Message) -> tuple[Message, ...]:
    """Return the messages inside a message."""
    inner: tuple[Message, ...] = getattr(message, message.INNER) if message.INNER else ()
    return inner


def each_message(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield messages, each followed by the messages inside it."""
    for message in messages:
        yield message
        yield from each_message(inner_of(message))


def signer_of(message: Message) -> str:
    """Return the address that must have signed the transaction."""
    address: Address = getattr(message, message.SIGNER)
    return address
