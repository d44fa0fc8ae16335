"""Canonical JSON without floats: sorted keys, no spaces, ASCII only; one value has one encoding.

A document is accepted only if encoding the parsed value gives the same bytes. This one comparison excludes duplicate
keys, leading zeros, unnecessary escapes, and byte order marks.
"""

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TypeVar

from domain import plain
from domain.errors import Refusal
from host.foreign_json import excess_tokens
from pol.errors import JobError
from pol.limits import MAX_INTEGER

T = TypeVar("T")

_REMEDY = "write the document with assay job build"
_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"?)*+([\[\]{}]?)', re.DOTALL)
"""Pattern for the text up to the next bracket outside strings, including the bracket. Its quantifiers are possessive,
so that the time is linear.

A string that is not closed extends to the end of the text.
"""


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """Limits on a document: its bytes, its tokens (:func:`host.foreign_json.count_tokens`), and its nesting depth."""

    size: int
    tokens: int
    depth: int


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
    for part in _TO_BRACKET.finditer(data):
        bracket = part.group(1)
        if bracket in (b"[", b"{"):
            depth += 1
            if depth > limit:
                raise _refuse(field, f"is nested deeper than {limit} levels")
        elif bracket:
            depth -= 1
            # Without this check, a text of closing brackets alone would take seconds.
            if depth < 0:
                raise _refuse(field, "is not JSON in ASCII")


def parse_json(data: bytes, limits: JsonLimits, field: str) -> object:
    """Parse canonical JSON within ``limits``, which are checked before any value is created.

    Raises JobError for ``field`` if the document is too large, has too many tokens, is too deep, is not JSON or is not
    in canonical form. It may not hold floats, duplicate keys, or integers of 2^63 or more.
    """
    if len(data) > limits.size:
        raise _refuse(field, f"has {len(data)} bytes, more than {limits.size}")
    if excess := excess_tokens(data, limits.tokens):
        raise _refuse(field, excess)
    _check_depth(data, limits.depth, field)

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
