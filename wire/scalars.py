"""Single values from the wire: what is refused, in which words. Every function takes a value and
the field's name.
"""

import re

from domain.errors import BAD_FIELD, INVALID_COINS, TX_DECODE, Refusal

# Control characters, and those that make a text look like another: zero width, line separators,
# changes of direction. The list is explicit, because Unicode's categories differ between versions
# of Python, and nodes must agree.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff\U000e0000-\U000e007f]"
)
_DENOM = re.compile(r"[a-zA-Z][a-zA-Z0-9/:._-]{2,127}\Z")


def decimal(text: str, maximum: int, field: str) -> int:
    """Return the integer that plain decimal digits spell; nothing else is one."""
    # Length goes before int(): Python refuses thousands of digits with a ValueError, and needs long
    # for fewer.
    if not (text.isascii() and text.isdigit()) or (text[0] == "0" and len(text) > 1):
        raise Refusal(
            TX_DECODE,
            field,
            "not a plain decimal number",
            "write digits only: no sign, point, exponent or leading zero",
        )
    if len(text) > 39 or (value := int(text)) > maximum:
        raise Refusal(TX_DECODE, field, "the number is too large", f"at most {maximum}")
    return value


def text(value: str, field: str) -> str:
    """Return a text without control or invisible characters."""
    if not (value.isascii() and value.isprintable()) and _HIDDEN.search(value):
        raise Refusal(TX_DECODE, field, "control or invisible characters", "leave them out")
    return value


def denom(value: str, field: str) -> str:
    """Return a denomination of the form that the Cosmos SDK has."""
    if not _DENOM.match(value):
        raise Refusal(INVALID_COINS, field, "not a denomination", "use uassay")
    return value


def sized(value: bytes, size: int, blank: bool, field: str) -> bytes:
    """Return bytes of one length, or none where ``blank``."""
    if len(value) != size and not (blank and not value):
        raise Refusal(BAD_FIELD, field, f"has {len(value)} bytes", f"it has exactly {size}")
    return value
