"""Durations, speeds, work and prices as text.

The form is the same in errors, logs, answers of the link, and commands.
"""

from domain.amount import ASSAY

_DURATIONS = (("days", 86_400), ("h", 3_600), ("min", 60))
_WORK = (
    ("EFLOP", 10**18),
    ("PFLOP", 10**15),
    ("TFLOP", 10**12),
    ("GFLOP", 10**9),
    ("MFLOP", 10**6),
)
_SPEEDS = (("TFLOP/s", 10**12), ("GFLOP/s", 10**9), ("MFLOP/s", 10**6))


def duration(seconds: int) -> str:
    """Return seconds as text: 90 s, 15.0 min, 5.5 h, 12.3 days."""
    for unit, size in _DURATIONS:
        if seconds >= 2 * size:
            return f"{_tenths(seconds, size)} {unit}"
    return f"{seconds:,} s"


def speed(value: int) -> str:
    """Return FLOP/s as text: 950,000 FLOP/s, 1.3 GFLOP/s, 20.0 TFLOP/s."""
    for unit, size in _SPEEDS:
        if value >= size:
            return f"{_tenths(value, size)} {unit}"
    return f"{value:,} FLOP/s"


def work(value: int) -> str:
    """Return FLOPs as text: 950,000 FLOP, 368.2 GFLOP, 1.0 PFLOP."""
    for unit, size in _WORK:
        if value >= size:
            return f"{_tenths(value, size)} {unit}"
    return f"{value:,} FLOP"


def coins(value: int) -> str:
    """Return uassay as an exact amount of ASSAY: 2,500,000 is 2.5 ASSAY."""
    whole, rest = divmod(value, ASSAY)
    decimals = f".{rest:06}".rstrip("0").rstrip(".")
    return f"{whole:,}{decimals} ASSAY"


def price(value: int) -> str:
    """Return a price (uassay per PFLOP) as text in the unit of all outputs: 900,000 ASSAY per PFLOP."""
    return f"{coins(value)} per PFLOP"


def _tenths(value: int, size: int) -> str:
    tenths = (value * 10 + size // 2) // size
    return f"{tenths // 10:,}.{tenths % 10}"
