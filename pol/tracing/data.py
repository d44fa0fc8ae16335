"""Data as people have it, as the columns of a job: arrays, files, data sets of torch and of Hugging Face.

Rows are converted a few at a time, and large columns lie in files, so that data need not fit into memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from pol.errors import JobError
from pol.limits import MAX_INTEGER
from pol.state.arrays import NUMPY_DTYPES, Array

_TARGETS = {"f": "f32", "i": "i64", "u": "i64", "b": "bool"}
"""Kinds of NumPy's dtypes, and what a job has for them."""
_IN_MEMORY = 2**26
"""Bytes of a converted column that is kept in memory."""
_AT_ONCE = 2**24
"""Bytes that are converted at once."""
_ITEMS_AT_ONCE = 1024
_PAIR = ("x", "y")
_FILES = ".npz, .npy, .safetensors or .parquet"

Columns = dict[str, Array]
Progress = Callable[[str], None]


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
        """Return an array to be filled: in memory, or in a file if it is large."""
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if size <= _IN_MEMORY:
            return np.zeros(shape, dtype)
        if self._folder is None:
            self._beside.mkdir(parents=True, exist_ok=True)
            made = TemporaryDirectory(prefix=".columns-", dir=self._beside)
            self._folder = Path(self._folders.enter_context(made))
        self._count += 1
        path = self._folder / f"{self._count}.npy"
        return np.lib.format.open_memmap(path, "w+", dtype, tuple(shape))


def read_columns(source: object, field: str, scratch: Scratch, tell: Progress) -> Columns:
    """Return the columns of ``train`` or ``holdout``: floats as FP32, integers in 64 bits.

    ``source`` is column name to array, tensor, list or file; a file; or a data set with a length.

    Raises JobError, which names the column, when something is not one array of numbers with a row per sample.
    """
    if isinstance(source, str | Path):
        source = _file(Path(source), field, scratch)
    if isinstance(source, DataLoader):
        reason = "is a DataLoader, and a job makes its batches itself, in the order of its seed"
        raise JobError(field, reason, "give the data set, loader.dataset")
    if isinstance(source, IterableDataset):
        reason = "has no length, and a job takes rows in an order of its own"
        raise JobError(
            field, reason, "give one with __len__ and __getitem__, loaded without streaming"
        )
    if isinstance(source, TensorDataset):
        source = _named(source.tensors, field)
    if isinstance(source, Mapping):
        if any(hasattr(part, "column_names") for part in source.values()):
            raise JobError(field, "has several splits", 'give one of them, such as data["train"]')
        columns = {
            name: _converted(source[name], f"{field}.{name}", scratch, tell) for name in source
        }
    elif hasattr(source, "column_names") and hasattr(source, "with_format"):
        columns = _hugging_face(source, field, scratch)
    elif hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        columns = _items(source, field, scratch, tell)
    else:
        reason = f"is a {type(source).__name__}"
        raise JobError(
            field, reason, f"give columns, a data set with a length, or a file ({_FILES})"
        )
    return {str(name): columns[name] for name in sorted(columns, key=str)}


def _named(parts: Sequence[Any], field: str) -> dict[str, Any]:
    """Return the parts of an item by the names that a job gives them: x and y."""
    if len(parts) > len(_PAIR):
        reason = f"has items of {len(parts)} parts without names"
        raise JobError(field, reason, "return a dictionary, name to tensor")
    return dict(zip(_PAIR, parts, strict=False))


def _converted(value: object, where: str, scratch: Scratch, tell: Progress) -> Array:
    """Return one column in a dtype of jobs; it is the very array where it has one already."""
    if isinstance(value, str | Path):
        value = _array_file(Path(value), where)
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        if value.dtype == torch.bfloat16:
            tell(f"{where}: bfloat16 becomes float32")
            value = value.float()
    given = hasattr(value, "dtype")
    array = _array(value, where)
    target = _target(array, where, 1)
    if array.dtype == target and array.flags.c_contiguous:
        return array
    if given and array.dtype != target:
        tell(f"{where}: {array.dtype} becomes {target}")
    found = scratch.array(target, array.shape)
    for rows in _slices(len(array), array[:1].nbytes):
        found[rows] = _fitting(array[rows], where)
    return found


def _array(value: object, where: str) -> Array:
    try:
        return value.numpy() if isinstance(value, torch.Tensor) else np.asanyarray(value)
    # rows of different lengths
    except (TypeError, ValueError):
        reason = "NumPy cannot hold it as one array"
        raise JobError(where, reason, "give rows of one shape, padded or cropped") from None


def _target(array: Array, where: str, dimensions: int) -> np.dtype[Any]:
    if array.ndim < dimensions or array.dtype.kind not in _TARGETS:
        reason = f"is {array.dtype} with {array.ndim} dimensions"
        remedy = "give numbers with one row per sample; texts are made into numbers before"
        raise JobError(where, reason, remedy)
    return NUMPY_DTYPES[_TARGETS[array.dtype.kind]]


def _fitting(part: Array, where: str) -> Array:
    if part.dtype == np.uint64 and part.size and int(part.max()) > MAX_INTEGER:
        raise JobError(where, "holds an integer of 2^63 or more", "use smaller ones")
    return part


def _slices(rows: int, row_size: int) -> Iterator[slice]:
    step = max(1, _AT_ONCE // max(1, row_size))
    return (slice(first, first + step) for first in range(0, rows, step))


class _Rows:
    """Columns that are filled a few rows at a time; their shapes are those of the first rows."""

    def __init__(self, count: int, field: str, scratch: Scratch) -> None:
        self._count, self._field, self._scratch = count, field, scratch
        self.columns: Columns = {}

    def put(self, first: int, parts: Mapping[str, object]) -> None:
        """Write rows, name to array, from number ``first`` on."""
        if not first:
            for name, part in parts.items():
                array = _array(part, f"{self._field}.{name}")
                target = _target(array, f"{self._field}.{name}", 1)
                self.columns[name] = self._scratch.array(target, (self._count, *array.shape[1:]))
        if parts.keys() != self.columns.keys():
            reason = f"row {first} has other columns than row 0"
            raise JobError(self._field, reason, "give the same columns in all")
        for name, part in parts.items():
            where, column = f"{self._field}.{name}", self.columns[name]
            array = _array(part, where)
            if array.shape[1:] != column.shape[1:]:
                shapes = f"{list(array.shape[1:])}, those before {list(column.shape[1:])}"
                reason = f"row {first} or one after it has the shape {shapes}"
                raise JobError(where, reason, "pad or crop rows to one shape")
            if _target(array, where, 1) != column.dtype:
                reason = (
                    f"row {first} or one after it is {array.dtype}, those before {column.dtype}"
                )
                raise JobError(where, reason, "give rows of one type")
            column[first : first + len(array)] = _fitting(array, where)


def _items(source: Any, field: str, scratch: Scratch, tell: Progress) -> Columns:
    """Read each item of a map-style data set once."""
    rows = _Rows(len(source), field, scratch)
    for number in range(len(source)):
        item = source[number]
        parts = item if isinstance(item, Mapping) else _named(_parts(item), field)
        rows.put(number, {name: _one_row(part, f"{field}.{name}") for name, part in parts.items()})
    tell(f"{field}: {len(source):,} items, each read once, with what its transforms drew then")
    return rows.columns


def _parts(item: object) -> Sequence[Any]:
    return item if isinstance(item, tuple | list) else (item,)


def _one_row(part: object, where: str) -> Array:
    if hasattr(part, "getbands"):
        remedy = "give the data set transform=torchvision.transforms.ToTensor()"
        raise JobError(where, "is an image and not yet numbers", remedy)
    if isinstance(part, torch.Tensor):
        part = part.detach().cpu()
        part = part.float() if part.dtype == torch.bfloat16 else part
    return _array(part, where)[np.newaxis]


def _hugging_face(source: Any, field: str, scratch: Scratch) -> Columns:
    """Read a ``datasets.Dataset`` by its own methods, many rows at a time."""
    rows, plain = _Rows(len(source), field, scratch), source.with_format("numpy")
    for first in range(0, len(source), _ITEMS_AT_ONCE):
        part = plain[first : first + _ITEMS_AT_ONCE]
        for name, array in part.items():
            if np.asarray(array).dtype.kind not in _TARGETS:
                reason = "is text, or has rows of different lengths"
                remedy = f'pad and truncate rows, or leave it out: data.remove_columns("{name}")'
                raise JobError(f"{field}.{name}", reason, remedy)
        rows.put(first, part)
    return rows.columns


# --- files ---------------------------------------------------------------------------------------


def _file(path: Path, field: str, scratch: Scratch) -> dict[str, Any]:
    """Return the columns of a file, as far as possible without reading them."""
    _check_there(path, field)
    if path.suffix == ".npz":
        with _loaded(path, field) as archive:
            return {name: archive[name] for name in archive.files}
    if path.suffix == ".npy":
        array = _array_file(path, field)
        names = array.dtype.names
        return {"x": array} if names is None else {name: array[name] for name in names}
    if path.suffix == ".safetensors":
        from safetensors.numpy import load_file

        return load_file(path)
    if path.suffix == ".parquet":
        return _parquet(path, field, scratch)
    raise JobError(field, f"{path.name} is no kind of file that is known", f"give {_FILES}")


def _check_there(path: Path, field: str) -> None:
    if not path.is_file():
        raise JobError(field, f"there is no file {path}", "check the path; Path(__file__) helps")


def _array_file(path: Path, where: str) -> Array:
    _check_there(path, where)
    if path.suffix != ".npy":
        raise JobError(where, f"{path.name} is no file of one array", "give a .npy")
    array: Array = _loaded(path, where)
    return array


def _loaded(path: Path, where: str) -> Any:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise JobError(
            where, f"{path.name}: {error}", "write it with np.save or np.savez"
        ) from None


def _parquet(path: Path, field: str, scratch: Scratch) -> Columns:
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        reason = f"reading {path.name} needs the package pyarrow"
        raise JobError(field, reason, "install it, or write the columns with np.savez") from None
    file = parquet.ParquetFile(path)
    rows, first = _Rows(file.metadata.num_rows, field, scratch), 0
    for batch in file.iter_batches(_ITEMS_AT_ONCE):
        rows.put(first, {name: _arrow(batch.column(name)) for name in batch.schema.names})
        first += batch.num_rows
    return rows.columns


def _arrow(column: Any) -> object:
    """Return a column of Arrow as an array; lists of one length become its further dimensions."""
    if column.null_count:
        return column.to_pylist()
    array = column.to_numpy(zero_copy_only=False)
    return column.to_pylist() if array.dtype == object else array
