"""Durations in words, the same for logs, errors and commands."""


def duration(seconds: int) -> str:
    """Write seconds for people: 90 s, 15 min, 5.5 h, 12.3 days."""
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,} s"
