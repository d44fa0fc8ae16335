"""The messages of a proposal as text, as the state and events have them: a JSON list of type urls and contents."""

import json
from collections.abc import Iterable
from types import MappingProxyType

from domain.codec import from_plain, to_plain
from domain.messages import Message
from domain.vocabulary import MESSAGES

_BY_URL = MappingProxyType({cls.URL: cls for cls in MESSAGES})
_dumps = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def pack_messages(messages: Iterable[Message]) -> str:
    """Return the canonical text of messages."""
    return _dumps([{"content": to_plain(message), "url": message.URL} for message in messages])


def unpack_messages(text: str) -> tuple[Message, ...]:
    """Return the messages of a text; ValueError if this version of the software does not have such a message."""
    messages = []
    for part in json.loads(text):
        cls = _BY_URL.get(part["url"])
        if cls is None:
            raise ValueError(f"there is no message {part['url']}")
        messages.append(from_plain(cls, part["content"]))
    return tuple(messages)
