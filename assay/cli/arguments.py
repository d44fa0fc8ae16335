"""Parsing of what people type: ids, amounts, durations."""

import re

from assay.cli.errors import CliError, Exit

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def order_id(text: str) -> bytes:
    """Parse an order's or bid's id (64 hex digits)."""
    try:
        value = bytes.fromhex(text)
    except ValueError:
        value = b""
    if len(value) != 32:
        raise CliError(f"{text}: not an id; it has 64 hex digits", Exit.USAGE)
    return value


def amount(text: str, what: str) -> int:
    """Parse an amount of uassay: digits, with an optional ``uassay`` behind them."""
    digits = text.removesuffix("uassay")
    if not re.fullmatch(r"[0-9]{1,19}", digits):
        raise CliError(
            f"{what}: {text} is not an amount; write digits, as 2500000uassay", Exit.USAGE
        )
    return int(digits)


def duration(text: str, what: str) -> int:
    """Parse a duration as 90s, 15m, 2h or 7d (seconds without a unit)."""
    match = re.fullmatch(r"([0-9]{1,9})([smhd]?)", text)
    if not match:
        raise CliError(f"{what}: {text} is not a duration; write 90s, 15m, 2h or 7d", Exit.USAGE)
    return int(match[1]) * _UNITS[match[2] or "s"]


def tags(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list."""
    return tuple(sorted({part.strip() for part in text.split(",") if part.strip()}))
