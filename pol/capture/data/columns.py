"""Columns while a job is built: what of NumPy's becomes what of a job's, in memory or, where it is large, in files."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch

from pol.capture.data.contents import GAPS, no_numbers, unlike_rows
from pol.errors import JobError
from pol.limits import LIMITS, MAX_INTEGER
from pol.state.arrays import NUMPY_DTYPES, Array

Columns = dict[str, Array]
Progress = Callable[[str], None]

TARGETS = {"f": "f32", "i": "i64", "u": "i64", "b": "bool"}
"""Kinds of NumPy's dtypes, and what a job has for them."""
_IN_MEMORY = 2**26
"""Bytes of a converted column that is kept in memory."""
_AT_ONCE = 2**24
"""Bytes that are converted at once."""
AT_ONCE = 1024
"""Rows that are taken from a data set or a file at once."""


class Scratch:
    """A folder for columns while a job is built; it is gone afterwards."""

    def __init__(self, beside: Path) -> None:
        """Make it, when it is needed, in the folder ``beside``, where there is room for the data in any case."""
        self._beside, self._folders = beside, ExitStack()
        self._folder: Path | None = None
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folders.close()

    def array(self, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
        """Return an array to be filled: in memory, or in a file if it is large; JobError where there is no room."""
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if size > LIMITS.data_size:
            reason = f"a column of {size:,} bytes, and a job has {LIMITS.data_size:,} of data at most"
            raise JobError("data", reason, "take a part of it")
        if size <= _IN_MEMORY:
            return np.zeros(shape, dtype)
        if self._folder is None:
            self._beside.mkdir(parents=True, exist_ok=True)
            made = TemporaryDirectory(prefix=".columns-", dir=self._beside)
            self._folder = Path(self._folders.enter_context(made))
        self._count += 1
        self._check_room(self._folder, size)
        path = self._folder / f"{self._count}.npy"
        return np.lib.format.open_memmap(path, "w+", dtype, tuple(shape))

    @staticmethod
    def _check_room(folder: Path, size: int) -> None:
        """A disk that is full when a mapped file is written ends the process without a word."""
        free = shutil.disk_usage(folder).free
        if size > free:
            reason = f"a column of {size:,} bytes, and {free:,} are free for it in {folder.parent}"
            raise JobError("data", reason, "make room, or build where there is some")


def array_of(value: object, where: str) -> Array:
    """Return an array of NumPy, the same where it is one; JobError."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        reason = "has masked elements, and a job has a number in each place"
        raise JobError(where, reason, "give what stands in them, array.filled(…)")
    try:
        array = value.numpy() if isinstance(value, torch.Tensor) else np.asanyarray(value)
    # rows of different lengths
    except (TypeError, ValueError):
        if isinstance(value, Sequence) and (error := unlike_rows(value, where)):
            raise error from None
        reason = "NumPy cannot hold it as one array"
        raise JobError(where, reason, "give rows of one shape, padded or cropped") from None
    return _of_rows(array) if array.dtype == object and array.ndim == 1 else array


def _of_rows(array: Array) -> Array:
    """Return an array of objects that are rows of one shape, as tables have them, as one array; others as they are."""
    rows = array.tolist()
    if not rows or not isinstance(rows[0], list | tuple | np.ndarray | torch.Tensor):
        return array
    try:
        found = np.stack([np.asarray(row) for row in rows])
    except (TypeError, ValueError):
        return array
    return found if found.dtype.kind in TARGETS else array


def target_of(array: Array, where: str, dimensions: int) -> np.dtype[Any]:
    """Return the dtype that a job has for these numbers; JobError where they are none."""
    if array.ndim < dimensions or array.dtype.kind not in TARGETS:
        raise no_numbers(array, where)
    return NUMPY_DTYPES[TARGETS[array.dtype.kind]]


def check_finite(column: Array, where: str) -> None:
    """Name the first row with NaN or infinity, which no step could compute with; JobError."""
    if column.dtype.kind != "f":
        return
    first: int | None = None
    gaps = 0
    for rows in slices(len(column), column[:1].nbytes):
        part = column[rows].reshape(len(column[rows]), -1)
        if np.isinf(part).any():
            row = rows.start + int(np.isinf(part).any(axis=1).argmax())
            reason = f"row {row} holds infinity, or a number that is too large for float32"
            remedy = "leave such rows out, or write smaller numbers: np.clip(x, -1e6, 1e6)"
            raise JobError(where, reason, remedy)
        missing = np.isnan(part).any(axis=1)
        if missing.any() and first is None:
            first = rows.start + int(missing.argmax())
        gaps += int(missing.sum())
    if first is not None:
        more = f", and so do {gaps - 1:,} of the other {len(column) - 1:,}" if gaps > 1 else ""
        raise JobError(where, f"row {first} holds NaN (a missing value){more}", GAPS)


def fitting(part: Array, where: str) -> Array:
    """Return the same; JobError where an integer has no place in 64 bits with a sign."""
    if part.dtype == np.uint64 and part.size and int(part.max()) > MAX_INTEGER:
        raise too_large(where)
    return part


def too_large(where: str) -> JobError:
    """Return what to say of an integer that has no place."""
    return JobError(where, "holds an integer of 2^63 or more", "use smaller ones")


def slices(rows: int, row_size: int) -> Iterator[slice]:
    """Yield which rows are converted at once, some MiB of them."""
    step = max(1, _AT_ONCE // max(1, row_size))
    return (slice(first, first + step) for first in range(0, rows, step))


class ColumnWriter:
    """Columns that are filled a few rows at a time; their shapes are those of the first rows."""

    def __init__(self, count: int, field: str, scratch: Scratch, tell: Progress) -> None:
        if not count:
            raise JobError(field, "has no rows", "check the data")
        self._count, self._field, self._scratch, self._tell = count, field, scratch, tell
        self.columns: Columns = {}

    def put(self, first: int, parts: Mapping[str, object]) -> None:
        """Write rows, name to array, from number ``first`` on."""
        if not first:
            for name, part in parts.items():
                where = f"{self._field}.{name}"
                array = array_of(part, where)
                target = target_of(array, where, 1)
                if array.dtype != target:
                    self._tell(f"{where}: {array.dtype} becomes {target}")
                self.columns[name] = self._scratch.array(target, (self._count, *array.shape[1:]))
        if parts.keys() != self.columns.keys():
            reason = f"row {first} has other columns than row 0"
            raise JobError(self._field, reason, "give the same columns in all")
        for name, part in parts.items():
            where, column = f"{self._field}.{name}", self.columns[name]
            array = array_of(part, where)
            if array.shape[1:] != column.shape[1:]:
                shapes = f"{list(array.shape[1:])}, those before {list(column.shape[1:])}"
                reason = f"row {first} or one after it has the shape {shapes}"
                raise JobError(where, reason, "pad or crop rows to one shape")
            if target_of(array, where, 1) != column.dtype:
                reason = f"row {first} or one after it is {array.dtype}, those before {column.dtype}"
                raise JobError(where, reason, "give rows of one type")
            # what is too large for FP32 becomes infinity, and is found as such
            with np.errstate(over="ignore"):
                column[first : first + len(array)] = fitting(array, where)
