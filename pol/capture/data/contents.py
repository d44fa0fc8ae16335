"""Errors for columns that do not hold numbers, each with a remedy."""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pol.errors import JobError
from pol.state.arrays import Array

_SHOWN = 3
"""Number of values that an error quotes."""
_LONGEST = 24
"""Number of characters of a value that an error quotes."""
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?([ T].*)?|\d\d?[./]\d\d?[./]\d{2,4}")
GAPS = (
    "leave out such rows, write a number there, or write 0 and add a column that marks them "
    '(docs/jobs.md, "Missing values", shows each)'
)
"""The three remedies for missing values."""
_KINDS = {"M": "dates", "m": "time spans", "c": "complex numbers", "V": "records"}


def no_numbers(array: Array, where: str) -> JobError:
    """Return the error for an array that is not a column of numbers."""
    name = where.partition(".")[2] or where
    column = f'table["{name}"]'
    if not array.ndim:
        reason = f"is a single value, {_short(array.item())}, not one per row"
        return JobError(where, reason, f"repeat it for each row, as np.full(len(y), {name}) does")
    kind = array.dtype.kind
    if kind == "M":
        remedy = f'count days from a date: ({column} - pandas.Timestamp("2000-01-01")).dt.days'
        return JobError(where, "holds dates", remedy)
    if kind == "m":
        remedy = f"convert them to numbers: {column}.dt.total_seconds()"
        return JobError(where, "holds time spans", remedy)
    if kind == "c":
        remedy = f"give two columns, {name}.real and {name}.imag"
        return JobError(where, "holds complex numbers", remedy)
    if kind in "USO":
        return _of_objects(array, where, name, column)
    what = _KINDS.get(kind, f"{array.dtype}")
    return JobError(where, f"holds {what}", "give one column of numbers for each field")


def unlike_rows(rows: Sequence[Any], where: str) -> JobError | None:
    """Return the error for rows of different shapes; None if all rows have one shape."""
    first: tuple[int, ...] | None = None
    for number, row in enumerate(rows):
        try:
            shape = np.shape(row)
        except ValueError:
            reason = f"row {number} itself has parts of different lengths"
            return JobError(where, reason, "pad or crop the rows to one shape")
        if first is None:
            first = shape
        elif shape != first:
            reason = f"row {number} has the shape {list(shape)}, but row 0 has {list(first)}"
            return JobError(where, reason, "pad or crop the rows to one shape")
    return None


def is_missing(value: object) -> bool:
    """Return whether a value stands for a missing value: it is None, NaN, or pandas' NA or NaT."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return True
    return type(value).__name__ in ("NAType", "NaTType")


def _of_objects(array: Array, where: str, name: str, column: str) -> JobError:
    if not array.size:
        return JobError(where, "has no rows", "give at least one row")
    missing = next((row for row, value in _values(array) if is_missing(value)), None)
    values = [value for _, value in _values(array) if not is_missing(value)]
    texts = [str(value) for value in values if isinstance(value, str | bytes)]
    if values and len(texts) == len(values):
        return _of_texts(texts, where, name, column)
    if all(isinstance(value, int | float | np.number | np.bool_) for value in values):
        return JobError(where, f"row {missing} has no value", GAPS)
    if array.ndim == 1 and (error := unlike_rows(array.tolist(), where)):
        return error
    row, odd = next(
        (row, value)
        for row, value in _values(array)
        if not isinstance(value, int | float | np.number | np.bool_) and not is_missing(value)
    )
    reason = f"row {row} holds a {type(odd).__name__}, {_short(odd)}"
    return JobError(where, reason, f'give numbers, or leave the column out: table.drop(columns="{name}")')


def _of_texts(texts: Sequence[str], where: str, name: str, column: str) -> JobError:
    few = list(dict.fromkeys(texts))[:_SHOWN]
    shown = ", ".join(map(_short, few))
    left_out = f'or leave the column out: table.drop(columns="{name}")'
    if all(map(_is_number, texts)):
        remedy = f"convert them to numbers: {column}.astype(float)"
        return JobError(where, f"holds numbers as text ({shown})", remedy)
    if all(_DATE.fullmatch(text) for text in texts):
        since = f'pandas.to_datetime({column}) - pandas.Timestamp("2000-01-01")'
        return JobError(where, f"holds dates as text ({shown})", f"count days from a date: ({since}).dt.days")
    numbers = ", ".join(f"{_short(text)}: {number}" for number, text in enumerate(few))
    dots = "" if len(few) == len(dict.fromkeys(texts)) else ", …"
    remedy = f"replace texts by numbers, the same in train and holdout: {column}.map({{{numbers}{dots}}}); {left_out}"
    return JobError(where, f"holds text ({shown}{dots})", remedy)


def _values(array: Array) -> Iterator[tuple[int, Any]]:
    """Yield each value with the number of its row."""
    width = array.size // len(array) if len(array) else 1
    return ((place // max(1, width), value) for place, value in enumerate(array.reshape(-1).tolist()))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _short(value: object) -> str:
    text = repr(value) if isinstance(value, str | bytes) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
