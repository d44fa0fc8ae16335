"""Files of columns: each is read as far as possible without holding it in memory, and a damaged one is told as that."""

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from pol.errors import JobError
from pol.state.arrays import Array
from pol.tracing.columns import AT_ONCE, Columns, Progress, Rows, Scratch
from pol.tracing.reasons import first_line

KNOWN = ".npz, .npy, .safetensors or .parquet"
_WRITERS = {
    ".npy": "np.save",
    ".npz": "np.savez",
    ".safetensors": "safetensors.numpy.save_file",
    ".parquet": "pyarrow.parquet.write_table",
}
_READ_BYTES = 2**20
_MEMBER = ".npy"
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
"""Of versions of the format; NumPy writes a later one for names of fields that are not Latin."""


def read_file(path: Path, field: str, scratch: Scratch, tell: Progress) -> Mapping[str, Any]:
    """Return the columns of a file; JobError where it is none, or not whole."""
    if path.suffix not in _WRITERS:
        check_readable(path, field)
        raise JobError(field, f"{path.name} is no kind of file that is known", f"give {KNOWN}")
    if path.suffix == ".npy":
        array = array_file(path, field)
        names = array.dtype.names
        return {"x": array} if names is None else {name: array[name] for name in names}
    check_readable(path, field)
    if path.suffix == ".parquet":
        return _parquet(path, field, scratch, tell)
    with _reading(path, field):
        return _archive(path, scratch) if path.suffix == ".npz" else _safetensors(path)


def array_file(path: Path, where: str) -> Array:
    """Return the array of a .npy, which stays on disk; JobError."""
    check_readable(path, where)
    if path.suffix != ".npy":
        raise JobError(where, f"{path.name} is no file of one array", "give a .npy")
    with _reading(path, where):
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def check_readable(path: Path, field: str) -> None:
    """Refuse a path where no file is, or one that may not be read; JobError."""
    try:
        with path.open("rb"):
            return
    except FileNotFoundError:
        reason, remedy = f"there is no file {path}", "check the path; Path(__file__) helps"
    except IsADirectoryError:
        reason, remedy = f"{path} is a folder", "name a file in it"
    except OSError as error:
        reason, remedy = f"{path} cannot be read: {error.strerror}", "see to its rights"
    raise JobError(field, reason, remedy)


@contextmanager
def _reading(path: Path, where: str) -> Iterator[None]:
    """Tell what a library says of a damaged file; each has errors of its own."""
    try:
        yield
    except JobError:
        raise
    except MemoryError:
        remedy = "write it as .npy, one file for each column: those are read a few rows at a time"
        raise JobError(where, f"{path.name} does not fit into memory", remedy) from None
    except Exception as error:
        kind = path.suffix.removeprefix(".")
        reason = f"{path.name} cannot be read as {kind}, it may be damaged or cut off: {first_line(error)}"
        remedy = f"copy it again from where it was whole, or write it with {_WRITERS[path.suffix]}"
        raise JobError(where, reason, remedy) from error


# --- .npz ----------------------------------------------------------------------------------------


def _archive(path: Path, scratch: Scratch) -> Columns:
    """Unpack an archive of NumPy, a part at a time: what is packed well may be much larger than memory."""
    columns = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(_MEMBER):
                raise ValueError(f"{member.filename} in it is no array")
            with archive.open(member) as file:
                name = member.filename.removesuffix(_MEMBER)
                columns[name] = _member(file, member.file_size, name, scratch)
    return columns


def _member(file: Any, size: int, name: str, scratch: Scratch) -> Array:
    version = npy.read_magic(file)
    read_header = _HEADERS.get(version)
    if read_header is None:
        raise ValueError(f"{name} in it has version {version} of the format")
    shape, in_fortran_order, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError(f"{name} in it holds Python objects, which are never unpickled")
    elements = int(np.prod(shape, dtype=object))
    if min(shape, default=0) < 0 or file.tell() + elements * dtype.itemsize != size:
        raise ValueError(f"{name} in it has not the bytes of its shape {list(shape)}")
    array = scratch.array(dtype, shape[::-1] if in_fortran_order else shape)
    _fill(array, file)
    return array.transpose() if in_fortran_order else array


def _fill(array: Array, file: BinaryIO) -> None:
    """Read the elements of a contiguous array; the file says itself where its bytes are not those that were packed."""
    room = array.reshape(-1).view(np.uint8)
    done = 0
    while part := file.read(_READ_BYTES):
        room[done : done + len(part)] = np.frombuffer(part, np.uint8)
        done += len(part)


# --- others --------------------------------------------------------------------------------------


def _safetensors(path: Path) -> dict[str, Any]:
    """Return tensors of torch, which stay on disk, and may have dtypes that NumPy lacks."""
    from safetensors import safe_open

    with safe_open(str(path), framework="pt") as opened:
        names = opened.keys()
        return {name: opened.get_tensor(name) for name in names}


def _parquet(path: Path, field: str, scratch: Scratch, tell: Progress) -> Columns:
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        reason = f"reading {path.name} needs the package pyarrow"
        raise JobError(
            field, reason, "install assay[data], or write the columns with np.savez"
        ) from None
    with _reading(path, field):
        file = parquet.ParquetFile(path)
        rows, first = Rows(file.metadata.num_rows, field, scratch, tell), 0
        for batch in file.iter_batches(AT_ONCE):
            rows.put(first, {name: _arrow(batch.column(name)) for name in batch.schema.names})
            first += batch.num_rows
        if first != file.metadata.num_rows:
            raise ValueError(f"{first} rows instead of {file.metadata.num_rows}")
    return rows.columns


def _arrow(column: Any) -> object:
    """Return a column of Arrow as an array; lists of one length become its further dimensions."""
    if column.null_count:
        return column.to_pylist()
    if hasattr(column, "value_lengths") and len(lengths := column.value_lengths().unique()) == 1:
        inner = np.asarray(_arrow(column.flatten()))
        return inner.reshape(len(column), lengths[0].as_py(), *inner.shape[1:])
    array = column.to_numpy(zero_copy_only=False)
    return column.to_pylist() if array.dtype == object else array
