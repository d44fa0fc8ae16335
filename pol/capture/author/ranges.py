"""Checks of the numbers in a job specification (this module does not import torch)."""

from math import isfinite

from pol.errors import JobError


def number(value: object) -> float:
    """Return ``value`` as a float; NaN if it is not a number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return float("nan")


def check_range(field: str, value: object, low: float = 0.0, high: float = float("inf")) -> None:
    """Refuse a value that is not a finite number from ``low`` (inclusive) to ``high`` (exclusive)."""
    if not low <= number(value) < high:
        below = f" and below {high:g}" if isfinite(high) else ""
        remedy = f"give a number of at least {low:g}{below}"
        raise JobError(field, f"{value!r} is outside the accepted range", remedy)


def check_whole(field: str, value: object, low: int, high: int) -> None:
    """Refuse a value that is not an integer from ``low`` to ``high``."""
    if type(value) is not int or not low <= value <= high:
        raise JobError(field, f"{value!r} is not an integer in {low}..{high}", f"give an integer, such as {low}")
