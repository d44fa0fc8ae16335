"""Reading JSON from another party, with a limit on its tokens before it is parsed.

For two bytes of text, a parser may make an object of a few hundred bytes. So if only the size were limited, a document
could need a hundred times its size in memory, and take seconds to read.
"""

import json
from typing import Any, Final

_SEPARATORS: Final = (b"[", b"{", b",", b":")


def count_tokens(data: bytes) -> int:
    """Return the number of opening brackets, commas and colons, also of those inside strings.

    A JSON text with n of them has at most n + 1 values, keys included. A large text takes a millisecond per MiB.
    """
    return sum(map(data.count, _SEPARATORS))


def excess_tokens(data: bytes, limit: int) -> str:
    """Return the reason why a JSON text has too many tokens, or an empty text if it has at most ``limit``."""
    tokens = count_tokens(data)
    return f"has {tokens} brackets, commas and colons, more than {limit}" if tokens > limit else ""


def read_json(data: bytes, tokens: int, *, unique: bool = False) -> Any:
    """Return the value of a JSON text.

    ValueError if the text has more than ``tokens`` tokens (:func:`count_tokens`), is nested too deep, or is not JSON.
    With ``unique``, also if an object has a key twice: readers differ in which of the two values they take.
    """
    if excess := excess_tokens(data, tokens):
        raise ValueError(excess)
    try:
        return json.loads(data, object_pairs_hook=_unique if unique else None)
    except RecursionError:
        raise ValueError("is nested too deep") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("has a key twice")
    return value
