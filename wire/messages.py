"""The conversion of transactions' messages between protobuf and domain classes, by type url."""

from collections.abc import Callable
from typing import Any

from google.protobuf.any_pb2 import Any as AnyProto
from google.protobuf.message_factory import GetMessageClass

from domain.bounds import inside
from domain.errors import TX_DECODE, UNKNOWN_REQUEST, Refusal
from domain.messages import Message
from domain.vocabulary import COMPONENTS, MESSAGES
from wire.canonical import parse
from wire.convert import reader, writer
from wire.modules import descriptors
from wire.reveal import REVEAL_URL


def _table() -> dict[str, tuple[Any, Any]]:
    """Return the protobuf class and the domain class of each message, by type url."""
    protos = {
        "/" + proto.full_name: GetMessageClass(proto)
        for file in descriptors("tx_pb2", (words.message_packages for words in COMPONENTS))
        for proto in file.message_types_by_name.values()
    }
    return {cls.URL: (protos[cls.URL], cls) for cls in MESSAGES}


TYPE_URLS: dict[str, tuple[Any, Any]] = _table()
NESTED_MAX = 2
"""Largest number of messages around a message: a grantee may send a proposal."""


def _unpacker(depth: int) -> Callable[[Any], Message]:
    """Return the function that converts an ``Any`` inside ``depth`` messages to a domain message."""

    def unpack(packed: Any) -> Message:
        if depth > NESTED_MAX:
            reason = f"is inside more than {NESTED_MAX} messages"
            raise Refusal(TX_DECODE, "", reason, "send it by itself")
        return _read(depth, packed.type_url, packed.value, "")

    return unpack


# The readers of a message inside 0, 1, ... other messages.
_READERS: tuple[dict[str, tuple[Any, Callable[[Any], Message]]], ...] = tuple(
    {
        url: (proto, reader(cls, proto.DESCRIPTOR, unpack if cls.INNER else None))
        for url, (proto, cls) in TYPE_URLS.items()
    }
    for unpack in map(_unpacker, range(1, NESTED_MAX + 2))
)


def type_url(message: Message) -> str:
    """Return the type url of a domain message."""
    return message.URL


_REMEDY = f"use one of its {len(TYPE_URLS)} types, which the page reference/messages of the documentation lists"


def from_bytes(url: str, value: bytes, field: str = "value") -> Message:
    """Return the domain message that ``value`` encodes, given its type url.

    A Refusal names the path of the field at fault; the path starts with ``field``.
    """
    return _read(0, url, value, field)


def _read(depth: int, url: str, value: bytes, field: str) -> Message:
    entry = _READERS[depth].get(url)
    if entry is None:
        if url == REVEAL_URL:
            reason = "is only for the proposer of a block, as the block's first item"
            refusal = Refusal(UNKNOWN_REQUEST, "type_url", reason, "remove it: the node adds it")
        else:
            refusal = Refusal(UNKNOWN_REQUEST, "type_url", f"{url[:100]!r} is not a message of this chain", _REMEDY)
        raise inside(field, refusal)
    proto, read = entry
    message = parse(proto, value, field)
    try:
        return read(message)
    except Refusal as refusal:
        raise inside(field, refusal) from None


def to_proto(message: Message) -> AnyProto:
    """Return a domain message as a protobuf ``Any``: its type url and its encoding."""
    return AnyProto(type_url=type_url(message), value=_WRITERS[type(message)](message).SerializeToString())


_WRITERS = {cls: writer(cls, proto.DESCRIPTOR, to_proto) for proto, cls in TYPE_URLS.values()}


def response_class(message: Message) -> Any:
    """Return the protobuf class of the answer to ``message``. Its name is the message's name plus ``Response``."""
    proto, _ = TYPE_URLS[type_url(message)]
    descriptor = proto.DESCRIPTOR
    return GetMessageClass(descriptor.file.message_types_by_name[descriptor.name + "Response"])
