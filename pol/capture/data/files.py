"""Files of columns; if the format allows it, a file is read without holding all of it in memory."""

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.lib import format as npy

from pol.capture.data.columns import AT_ONCE, Columns, ColumnWriter, Progress, Scratch
from pol.capture.data.readers import (
    SAVED,
    TABLES,
    package,
    read_images,
    read_saved,
    read_table,
    saved_array,
)
from pol.capture.reports.reasons import first_line
from pol.errors import JobError
from pol.state.arrays import Array

KNOWN = ".npz, .npy, .safetensors, .parquet, .csv, .tsv, .json, .jsonl, .pt, or a folder of images"
_OTHERS = {
    ".h5": 'import h5py; file = h5py.File("{name}"); train={{"x": file["x"][:], "y": file["y"][:]}}',
    ".pkl": "a pickle may run code: if you trust it, load it in your job file and give its arrays",
    ".xlsx": 'give pandas.read_excel("{name}")',
    ".feather": 'give pandas.read_feather("{name}")',
    ".mat": 'found = scipy.io.loadmat("{name}"); train={{"x": found["x"], "y": found["y"]}}',
    ".txt": 'rows = assay.text_rows("{name}", 128); train=rows.train, holdout=rows.holdout',
    ".db": 'give pandas.read_sql("SELECT * FROM rows", sqlite3.connect("{name}"))',
    ".zip": "unpack it and give the path of a file or folder in it",
    ".png": "give a folder that contains one folder of images per class",
}
"""Remedies for kinds of files that cannot be read from a path. The keys are the endings of the file names."""
_ALIKE = {
    ".hdf5": ".h5",
    ".hdf": ".h5",
    ".pickle": ".pkl",
    ".joblib": ".pkl",
    ".xls": ".xlsx",
    ".arrow": ".feather",
    ".sqlite": ".db",
    ".sqlite3": ".db",
    ".tar": ".zip",
    ".gz": ".zip",
    ".tgz": ".zip",
    ".7z": ".zip",
    ".jpg": ".png",
    ".jpeg": ".png",
    ".md": ".txt",
}
_WRITERS = {
    ".npy": "np.save",
    ".npz": "np.savez",
    ".safetensors": "safetensors.numpy.save_file",
    ".parquet": "pyarrow.parquet.write_table",
    **dict.fromkeys((".csv", ".tsv"), "table.to_csv(path, index=False)"),
    **dict.fromkeys((".json", ".jsonl"), 'table.to_json(path, orient="records", lines=True)'),
    **dict.fromkeys(SAVED, "torch.save"),
}
_READ_BYTES = 2**20
_MEMBER = ".npy"
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
"""Functions that read the header, by format version; NumPy uses a later version for non-Latin field names."""


def read_file(path: Path, field: str, scratch: Scratch, tell: Progress) -> Mapping[str, Any]:
    """Return the columns of a file or a folder; JobError if its kind is not supported, or if it is damaged."""
    if path.is_dir() and path.suffix not in _WRITERS:
        return read_images(path, field, scratch, tell)
    if path.suffix not in _WRITERS:
        raise _unknown(path, field)
    if path.suffix == ".npy":
        array = _array(path, field)
        names = array.dtype.names
        return {"x": array} if names is None else {name: array[name] for name in names}
    check_readable(path, field)
    if path.suffix == ".parquet":
        return _parquet(path, field, scratch, tell)
    if path.suffix in SAVED:
        tensors: Mapping[str, Any] = read_saved(path, field)
        return tensors
    if path.suffix in TABLES:
        with _reading(path, field):
            return columns_of_table(read_table(path, field, tell), field)
    with _reading(path, field):
        return _archive(path, scratch) if path.suffix == ".npz" else _safetensors(path)


def table_reader(path: Path) -> str | None:
    """Return the pandas call that reads a file as a table; None if the file does not hold a table."""
    options = {".tsv": ', sep="\\t"', ".jsonl": ", lines=True"}.get(path.suffix, "")
    kind = {".tsv": "csv", ".jsonl": "json"}.get(path.suffix, path.suffix[1:])
    if path.suffix not in (*TABLES, ".parquet"):
        return None
    return f'pandas.read_{kind}("{path.name}"{options})'


def columns_of_table(table: Any, field: str) -> dict[str, Any]:
    """Return the columns of a pandas table; JobError if two have the same name."""
    if not table.columns.is_unique:
        twice = table.columns[table.columns.duplicated()][0]
        raise JobError(field, f"two columns have the name {twice!r}", "rename one of them")
    return {name: table[name].to_numpy() for name in table.columns}


def _unknown(path: Path, field: str) -> JobError:
    """Return the error for a path without a file, or for a file of an unsupported kind."""
    name, suffix = path.name, path.suffix.lower()
    remedy = _OTHERS.get(_ALIKE.get(suffix, suffix), f"give {KNOWN}").format(name=name)
    if not path.exists() and not suffix:
        remedy = f'correct the path, or for a Hugging Face data set give datasets.load_dataset("{path}", split="train")'
        return JobError(field, f"there is no file {path}", remedy)
    check_readable(path, field)
    return JobError(field, f"{name} is not a kind of file that is read by its path", remedy)


def array_file(path: Path, where: str) -> Array | torch.Tensor:
    """Return the array of a .npy file or the tensor of a .pt file, mapped from disk; JobError for any other file."""
    check_readable(path, where)
    if path.suffix in SAVED:
        return saved_array(path, where)
    if path.suffix != ".npy":
        reason = f"{path.name} is not a file of one array"
        raise JobError(where, reason, f'give a .npy or a .pt, or the file for all columns: train="{path.name}"')
    return _array(path, where)


def _array(path: Path, where: str) -> Array:
    check_readable(path, where)
    with _reading(path, where):
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def check_readable(path: Path, field: str) -> None:
    """Raise JobError if there is no file at a path, or if this user has no permission to read the file."""
    try:
        with path.open("rb"):
            return
    except FileNotFoundError:
        reason, remedy = f"there is no file {path}", 'correct the path, such as Path(__file__).parent / "x.npy"'
    except IsADirectoryError:
        reason, remedy = f"{path} is a folder", "give the path of a file in it"
    except OSError as error:
        reason, remedy = f"{path} cannot be read: {error.strerror}", f"let your user read it: chmod u+r {path.name}"
    raise JobError(field, reason, remedy)


@contextmanager
def _reading(path: Path, where: str) -> Iterator[None]:
    """Turn any error that a library raises while it reads a file into a JobError.

    The error may have any class, because each library has error classes of its own.
    """
    try:
        yield
    except JobError:
        raise
    except MemoryError:
        remedy = "write one .npy file for each column; such files are read a few rows at a time"
        raise JobError(where, f"{path.name} does not fit into memory", remedy) from None
    except Exception as error:
        kind = path.suffix.removeprefix(".")
        reason = f"{path.name} cannot be read as {kind} and may be damaged or cut off: {first_line(error)}"
        remedy = f"copy the file again, or write it with {_WRITERS[path.suffix]}"
        raise JobError(where, reason, remedy) from error


# --- .npz ----------------------------------------------------------------------------------------


def _archive(path: Path, scratch: Scratch) -> Columns:
    """Unpack a NumPy archive one part at a time, because unpacked arrays may be much larger than memory."""
    columns = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(_MEMBER):
                raise ValueError(f"{member.filename} in it is not an array")
            with archive.open(member) as file:
                name = member.filename.removesuffix(_MEMBER)
                columns[name] = _member(file, member.file_size, name, scratch)
    return columns


def _member(file: Any, size: int, name: str, scratch: Scratch) -> Array:
    version = npy.read_magic(file)
    read_header = _HEADERS.get(version)
    if read_header is None:
        raise ValueError(f"{name} in it has the unknown format version {version}")
    shape, in_fortran_order, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError(f"{name} in it holds Python objects, which are never unpickled")
    elements = int(np.prod(shape, dtype=object))
    if min(shape, default=0) < 0 or file.tell() + elements * dtype.itemsize != size:
        raise ValueError(f"the size of {name} in it does not fit its shape {list(shape)}")
    array = scratch.array(dtype, shape[::-1] if in_fortran_order else shape)
    _fill(array, file)
    return array.transpose() if in_fortran_order else array


def _fill(array: Array, file: BinaryIO) -> None:
    """Read the bytes of ``file`` into a contiguous array; the archive itself checks that they are intact."""
    room = array.reshape(-1).view(np.uint8)
    done = 0
    while part := file.read(_READ_BYTES):
        room[done : done + len(part)] = np.frombuffer(part, np.uint8)
        done += len(part)


# --- others --------------------------------------------------------------------------------------


def _safetensors(path: Path) -> dict[str, Any]:
    """Return the tensors of a safetensors file as tensors of torch, mapped from disk.

    They may have dtypes that NumPy lacks.
    """
    from safetensors import safe_open

    with safe_open(str(path), framework="pt") as opened:
        names = opened.keys()
        return {name: opened.get_tensor(name) for name in names}


def _parquet(path: Path, field: str, scratch: Scratch, tell: Progress) -> Columns:
    parquet = package("pyarrow.parquet", path.name, field, "write the columns with np.savez")
    with _reading(path, field):
        file = parquet.ParquetFile(path)
        rows, first = ColumnWriter(file.metadata.num_rows, field, scratch, tell), 0
        for batch in file.iter_batches(AT_ONCE):
            rows.put(first, {name: _arrow(batch.column(name)) for name in batch.schema.names})
            first += batch.num_rows
        if first != file.metadata.num_rows:
            raise ValueError(f"{first} rows instead of {file.metadata.num_rows}")
    return rows.columns


def _arrow(column: Any) -> object:
    """Return an Arrow column as an array; lists that all have the same length become a further dimension."""
    if column.null_count:
        return column.to_pylist()
    if hasattr(column, "value_lengths") and len(lengths := column.value_lengths().unique()) == 1:
        inner = np.asarray(_arrow(column.flatten()))
        return inner.reshape(len(column), lengths[0].as_py(), *inner.shape[1:])
    array = column.to_numpy(zero_copy_only=False)
    return column.to_pylist() if array.dtype == object else array
