"""Canonical JSON without floats: sorted keys, no spaces, ASCII only; one value has one encoding.

A document is accepted only if encoding what was read gives the same bytes, which rules out
duplicate keys, leading zeros, escapes that are not needed, and byte order marks in one comparison.
"""

import json
import re
from collections import Counter

from pol.errors import JobError
from pol.limits import MAX_INTEGER

_REMEDY = "write the document with assay job build"
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
"""A string (to the end, if nothing closes it) or a bracket; possessive, so that the time is linear."""


def dump_json(value: object) -> bytes:
    """Return the canonical bytes of a value of dicts, lists, strings, integers and booleans."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
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

    Args:
        data: the bytes.
        size_limit: most bytes; depth_limit: most nested lists and objects.
        field: what to call the document in errors.

    Raises:
        JobError: too large, too deep, not JSON, holds a float, a null, a huge integer or a
            duplicate key, or is not in canonical form.
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
            (twice, _), *_rest = Counter(name for name, _ in items).most_common(1)
            raise _refuse(field, f"the key {twice[:40]!r} occurs twice")
        return result

    try:
        value: object = json.loads(
            data.decode("ascii"),
            parse_float=no_float,
            parse_constant=no_float,
            parse_int=integer,
            object_pairs_hook=pairs,
        )
    except (ValueError, RecursionError):  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise _refuse(field, "is not JSON in ASCII") from None
    if dump_json(value) != data:
        raise _refuse(field, "is not in canonical form (sorted keys, no spaces, ASCII)")
    return value


def take_object(value: object, keys: tuple[str, ...], field: str) -> dict[str, object]:
    """Return ``value`` if it is an object with exactly these keys; JobError naming the key
    otherwise.
    """
    if not isinstance(value, dict):
        raise _refuse(field, "is not an object")
    for key in value:
        if key not in keys:
            raise _refuse(f"{field}.{key[:40]}".lstrip("."), "there is no such field")
    for key in keys:
        if key not in value:
            raise _refuse(f"{field}.{key}".lstrip("."), "the field is missing")
    return value


def take_list(value: object, limit: int, field: str) -> list[object]:
    """Return ``value`` if it is a list of at most ``limit`` entries."""
    if not isinstance(value, list):
        raise _refuse(field, "is not a list")
    if len(value) > limit:
        raise _refuse(field, f"has {len(value)} entries, more than {limit}")
    return value


def take_int(value: object, low: int, high: int, field: str) -> int:
    """Return ``value`` if it is an integer in ``low..high`` (a boolean is not)."""
    if type(value) is not int:
        raise _refuse(field, "is not an integer")
    if not low <= value <= high:
        raise _refuse(field, f"{value} is outside {low}..{high}")
    return value


def take_str(value: object, limit: int, field: str) -> str:
    """Return ``value`` if it is a string of at most ``limit`` characters."""
    if not isinstance(value, str):
        raise _refuse(field, "is not a string")
    if len(value) > limit:
        raise _refuse(field, f"has {len(value)} characters, more than {limit}")
    return value


def take_hex(value: object, size: int, field: str) -> bytes:
    """Return the bytes of ``value`` if it is ``size`` bytes in lower-case hex."""
    text = take_str(value, 2 * size, field)
    if len(text) != 2 * size or re.fullmatch("[0-9a-f]*", text) is None:
        raise _refuse(field, f"is not {size} bytes in lower-case hex")
    return bytes.fromhex(text)
