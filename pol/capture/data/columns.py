"""Columns of a job while it is built: their dtypes are converted in memory or, for large columns, in files."""

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
"""Dtype in a job for each kind of NumPy dtype."""
_IN_MEMORY = 2**26
"""Largest size (bytes) of a converted column that is kept in memory."""
_AT_ONCE = 2**24
"""Size (bytes) of the part of a column that is converted at once."""
AT_ONCE = 1024
"""Number of rows that are read from a data set or a file at once."""


class Scratch:
    """A temporary folder for columns while a job is built."""

    def __init__(self, beside: Path) -> None:
        """Set the folder ``beside``, in which the temporary folder is created; its disk must have room for the data.

        Both folders are created only if a column needs a file.
        """
        self._beside = beside
        self._folders = ExitStack()
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
        """Return a new array for a column, in memory or, if it is large, in a file.

        Raises JobError if the disk has no room, or if the column is larger than a job's data may be.
        """
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if size > LIMITS.data_size:
            reason = f"a column has {size:,} bytes, but a job has at most {LIMITS.data_size:,} bytes of data"
            raise JobError("data", reason, "give fewer rows, such as x[:100_000]")
        if size <= _IN_MEMORY:
            return np.zeros(shape, dtype)
        if self._folder is None:
            self._beside.mkdir(parents=True, exist_ok=True)
            directory = TemporaryDirectory(prefix=".columns-", dir=self._beside)
            self._folder = Path(self._folders.enter_context(directory))
        self._count += 1
        self._check_room(self._folder, size)
        path = self._folder / f"{self._count}.npy"
        return np.lib.format.open_memmap(path, "w+", dtype, tuple(shape))

    @staticmethod
    def _check_room(folder: Path, size: int) -> None:
        """Refuse a column if the disk has no room for it, because a full disk would kill the process without a
        message.
        """
        free = shutil.disk_usage(folder).free
        if size > free:
            reason = f"a column has {size:,} bytes, but only {free:,} are free in {folder.parent}"
            raise JobError("data", reason, "free space there, or build the job on another disk")


def array_of(value: object, where: str) -> Array:
    """Return a value as a NumPy array, or the value itself if it is an array; JobError if it cannot be one array."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        reason = "has masked elements, and a job needs a number for each element"
        raise JobError(where, reason, "replace them by a number: array.filled(0)")
    try:
        array = value.numpy() if isinstance(value, torch.Tensor) else np.asanyarray(value)
    # the value may have rows of different lengths
    except (TypeError, ValueError):
        if isinstance(value, Sequence) and (error := unlike_rows(value, where)):
            raise error from None
        reason = "NumPy cannot make one array of its rows"
        raise JobError(where, reason, "pad or crop the rows to one shape") from None
    return _of_rows(array) if array.dtype == object and array.ndim == 1 else array


def _of_rows(array: Array) -> Array:
    """Return an array of objects as an array of numbers if the objects are rows of one shape.

    Otherwise return the array unchanged.
    """
    rows = array.tolist()
    if not rows or not isinstance(rows[0], list | tuple | np.ndarray | torch.Tensor):
        return array
    try:
        stacked = np.stack([np.asarray(row) for row in rows])
    except (TypeError, ValueError):
        return array
    return stacked if stacked.dtype.kind in TARGETS else array


def target_of(array: Array, where: str, dimensions: int) -> np.dtype[Any]:
    """Return the dtype that these numbers have in a job; JobError if they are not numbers."""
    if array.ndim < dimensions or array.dtype.kind not in TARGETS:
        raise no_numbers(array, where)
    return NUMPY_DTYPES[TARGETS[array.dtype.kind]]


def check_finite(column: Array, where: str) -> None:
    """Refuse a column with NaN or infinity; the JobError names the first such row."""
    if column.dtype.kind != "f":
        return
    first: int | None = None
    gaps = 0
    for rows in slices(len(column), column[:1].nbytes):
        part = column[rows].reshape(len(column[rows]), -1)
        if np.isinf(part).any():
            row = rows.start + int(np.isinf(part).any(axis=1).argmax())
            reason = f"row {row} holds infinity or a number that is too large for float32"
            remedy = "leave out such rows, or limit the numbers: np.clip(x, -1e6, 1e6)"
            raise JobError(where, reason, remedy)
        missing = np.isnan(part).any(axis=1)
        if missing.any() and first is None:
            first = rows.start + int(missing.argmax())
        gaps += int(missing.sum())
    if first is not None:
        more = f", and so do {gaps - 1:,} of the other {len(column) - 1:,}" if gaps > 1 else ""
        raise JobError(where, f"row {first} holds NaN (a missing value){more}", GAPS)


def fitting(part: Array, where: str) -> Array:
    """Return ``part`` unchanged; JobError if an integer does not fit into signed 64 bits."""
    if part.dtype == np.uint64 and part.size and int(part.max()) > MAX_INTEGER:
        raise too_large(where)
    return part


def too_large(where: str) -> JobError:
    """Return the error for an integer that does not fit into signed 64 bits."""
    return JobError(where, "holds an integer of 2^63 or more", "use integers below 2^63")


def slices(rows: int, row_size: int) -> Iterator[slice]:
    """Return slices that divide ``rows`` rows into parts of some MiB; each part is converted at once.

    ``row_size`` is the size of a row in bytes.
    """
    step = max(1, _AT_ONCE // max(1, row_size))
    return (slice(first, first + step) for first in range(0, rows, step))


class ColumnWriter:
    """Columns that are filled a few rows at a time.

    The first rows decide the names, shapes and dtypes of the columns.
    """

    def __init__(self, count: int, field: str, scratch: Scratch, tell: Progress) -> None:
        if not count:
            raise JobError(field, "has no rows", "give at least one row")
        self._count, self._field, self._scratch, self._tell = count, field, scratch, tell
        self.columns: Columns = {}

    def put(self, first: int, parts: Mapping[str, object]) -> None:
        """Write rows (name to array), beginning at row ``first``."""
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
            raise JobError(self._field, reason, "give all rows the same columns")
        for name, part in parts.items():
            where, column = f"{self._field}.{name}", self.columns[name]
            array = array_of(part, where)
            if array.shape[1:] != column.shape[1:]:
                shapes = f"{list(array.shape[1:])}, but earlier rows have {list(column.shape[1:])}"
                reason = f"row {first} or a later row has the shape {shapes}"
                raise JobError(where, reason, "pad or crop the rows to one shape")
            if target_of(array, where, 1) != column.dtype:
                reason = f"row {first} or a later row is {array.dtype}, but earlier rows are {column.dtype}"
                raise JobError(where, reason, "give all rows one type")
            # a number too large for FP32 becomes infinity, which check_finite reports
            with np.errstate(over="ignore"):
                column[first : first + len(array)] = fitting(array, where)
