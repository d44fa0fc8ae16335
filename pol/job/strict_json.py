"""Canonical JSON without floats: sorted keys, no spaces, ASCII only; one value has one encoding.

A document is accepted only if encoding the parsed value gives the same bytes. This one comparison excludes duplicate
keys, leading zeros, unnecessary escapes, and byte order marks.
"""

import json
import re
from collections import Counter
from typing import TypeVar

from domain import plain
from domain.errors import Refusal
from pol.errors import JobError
from pol.limits import MAX_INTEGER

T = TypeVar("T")

_REMEDY = "write the document with assay job build"
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
"""A string (to the end of the text if it is not closed) or a bracket; possessive, so that the time is linear."""


def dump_json(value: object) -> bytes:
    """Return the canonical JSON bytes of a value.

    The value consists of dicts, lists, strings, integers and booleans.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode("ascii")


def _refuse(field: str, reason: str) -> JobError:
    return JobError(field, reason, _REMEDY)


def _check_depth(data: bytes, limit: int, field: str) -> None:
    depth = 0
    for token in _TOKEN.finditer(data):
        first = token.group()[0]
        if first in b"[{":
            depth += 1
            if depth > limit:
                raise _refuse(field, f"is nested deeper than {limit} levels")
        elif first in b"]}":
            depth -= 1


def parse_json(data: bytes, size_limit: int, depth_limit: int, field: str) -> object:
    """Parse canonical JSON.

    The document may have at most ``size_limit`` bytes, and its lists and objects may be nested at most ``depth_limit``
    deep. Raises JobError for ``field`` if the document is too large, too deep, not JSON or not in canonical form. The
    document may not hold floats, duplicate keys, or integers of 2^63 or more.
    """
    if len(data) > size_limit:
        raise _refuse(field, f"has {len(data)} bytes, more than {size_limit}")
    _check_depth(data, depth_limit, field)

    def no_float(text: str) -> object:
        raise _refuse(field, f"holds the float {text[:40]}; numbers are integers or hex bits")

    def integer(text: str) -> int:
        if len(text) > 20 or abs(int(text)) > MAX_INTEGER:
            raise _refuse(field, f"the integer {text[:40]} is too large")
        return int(text)

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        result = dict(items)
        if len(result) != len(items):
            (key, _), *_rest = Counter(name for name, _ in items).most_common(1)
            raise _refuse(field, f"the key {key[:40]!r} occurs twice")
        return result

    try:
        value: object = json.loads(
            data.decode("ascii"),
            parse_float=no_float,
            parse_constant=no_float,
            parse_int=integer,
            object_pairs_hook=pairs,
        )
    # UnicodeDecodeError and JSONDecodeError are subclasses of ValueError.
    except (ValueError, RecursionError):
        raise _refuse(field, "is not JSON in ASCII") from None
    if dump_json(value) != data:
        raise _refuse(field, "is not in canonical form (sorted keys, no spaces, ASCII)")
    return value


def read_part(cls: type[T], value: object, field: str) -> T:
    """Read a part of a job into its class ``cls``, whose annotations give the type of each field.

    Raises JobError with a path that begins with ``field``.
    """
    try:
        return plain.read(cls, value, field)
    except Refusal as refusal:
        raise JobError(refusal.field, refusal.reason, refusal.remedy or _REMEDY) from None
