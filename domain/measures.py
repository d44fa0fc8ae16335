"""Durations and speeds in words: the same in errors, logs, answers of the link, and commands."""

_DURATIONS = (("days", 86_400), ("h", 3_600), ("min", 60))
_SPEEDS = (("TFLOP/s", 10**12), ("GFLOP/s", 10**9), ("MFLOP/s", 10**6))


def duration(seconds: int) -> str:
    """Write seconds for people: 90 s, 15.0 min, 5.5 h, 12.3 days."""
    for unit, size in _DURATIONS:
        if seconds >= 2 * size:
            return f"{_tenths(seconds, size)} {unit}"
    return f"{seconds:,} s"


def speed(value: int) -> str:
    """Write FLOP/s for people: 950,000 FLOP/s, 1.3 GFLOP/s, 20.0 TFLOP/s."""
    for unit, size in _SPEEDS:
        if value >= size:
            return f"{_tenths(value, size)} {unit}"
    return f"{value:,} FLOP/s"


def _tenths(value: int, size: int) -> str:
    tenths = (value * 10 + size // 2) // size
    return f"{tenths // 10:,}.{tenths % 10}"
