"""Loading a job directory: every file against the size, hash or root that the document names."""

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pol.errors import JobError, StateError
from pol.job.document import (
    DATA_FOLDER,
    DOCUMENT,
    GLOBAL_STATE,
    LOCAL_STATE,
    Job,
    JobDocument,
    Shard,
    parse_job,
)
from pol.limits import LIMITS, Limits
from pol.ops.philox import permutation
from pol.state.arrays import NUMPY_DTYPES, Array, State
from pol.state.canonical import decode_state, state_tree
from pol.state.layout import encoded_size
from pol.state.tensors import load_safetensors
from pol.values import TensorSpec

# --- the data in memory, and the order in which training reads it --------------------------------


@dataclass(frozen=True)
class Dataset:
    """The rows of a job in the order of its shards: column name to array, whose first dimension is the row."""

    columns: Mapping[str, Array]
    rows: int


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, rows: int) -> NDArray[np.int64]:
    return permutation(seed, epoch, rows)


def sample_rows(seed: int, rows: int, position: int, count: int) -> NDArray[np.int64]:
    """Return the row numbers of ``count`` positions of the stream from ``position`` on (it may cross epochs).

    Position p of the job's stream is row perm(seed, p div N)[p mod N] of the data.
    """
    parts = []
    while count:
        epoch, offset = divmod(position, rows)
        part = _order(seed, epoch, rows)[offset : offset + count]
        parts.append(part)
        position += len(part)
        count -= len(part)
    return np.concatenate(parts)


def batch_at(dataset: Dataset, job: Job, number: int) -> dict[str, Array]:
    """Return batch ``number`` of the job's sample stream: positions number x batch to number x batch + batch - 1.

    It is ``batch.<column>`` to array of ``batch`` rows, ready to be an input of the step.
    """
    batch = job.document.batch
    rows = sample_rows(job.document.seed, dataset.rows, number * batch, batch)
    return {
        f"batch.{name}": np.take(column, rows, axis=0) for name, column in dataset.columns.items()
    }


# --- loading -------------------------------------------------------------------------------------

_REMEDY = "fetch the job again, or build it again with assay job build"


@dataclass(frozen=True)
class LoadedJob:
    """A job whose files were all verified: initial states and data are in memory, read-only.

    Example::

        loaded = assay.load_job("my-job")
        print(sorted(loaded.global_state))
    """

    job: Job
    initial: tuple[State, State] | None
    data: Dataset

    @property
    def global_state(self) -> State:
        """The state that round 0 begins with."""
        return self._initial[0]

    @property
    def local_state(self) -> State:
        """The local state that every slot begins with."""
        return self._initial[1]

    @property
    def _initial(self) -> tuple[State, State]:
        if self.initial is None:
            raise ValueError("the initial states of this job were let go")
        return self.initial

    def without_initial(self) -> "LoadedJob":
        """Return the same job for whoever begins from other states, so that those of a large model take no memory."""
        return replace(self, initial=None)


def read_file(path: Path, field: str, size_limit: int, size: int | None = None) -> bytes:
    """Read a plain file of at most ``size_limit`` bytes, or of exactly ``size`` where that is known.

    Links, folders and devices are refused, and sizes before reading. Raises JobError, which calls the file ``field``,
    when it is missing, not a plain file, or of the wrong size.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise JobError(field, f"the file cannot be opened ({error.strerror})", _REMEDY) from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise JobError(field, "is not a plain file", _REMEDY)
    with os.fdopen(descriptor, "rb") as file:
        if status.st_size > size_limit:
            raise JobError(field, f"has {status.st_size} bytes, more than {size_limit}", _REMEDY)
        if size is not None and status.st_size != size:
            raise JobError(field, f"has {status.st_size} bytes, not {size}", _REMEDY)
        data = file.read(status.st_size + 1)
    if len(data) != status.st_size:
        raise JobError(field, "changed while it was read", _REMEDY)
    return data


def _load_state(
    directory: Path, name: str, specs: Sequence[TensorSpec], root: bytes, field: str
) -> dict[str, Array]:
    size = encoded_size(specs)
    data = read_file(directory / name, name, size, size)
    try:
        state = decode_state(data, specs)
    except StateError as error:
        raise JobError(f"{name}:{error.field}", error.reason, _REMEDY) from None
    if state_tree(state).root != root:
        raise JobError(field, f"is not the root of {name}", _REMEDY)
    return state


def _load_shard(
    directory: Path, shard: Shard, columns: Sequence[TensorSpec], limits: Limits
) -> dict[str, Array]:
    name = f"{DATA_FOLDER}/{shard.name}"
    data = read_file(directory / DATA_FOLDER / shard.name, name, limits.shard_size, shard.size)
    if sha256(data).digest() != shard.sha256:
        raise JobError(name, "its SHA-256 is not the one in the document", _REMEDY)
    specs = [
        TensorSpec(column.name, column.dtype, (shard.rows, *column.shape)) for column in columns
    ]
    try:
        return load_safetensors(data, specs, limits)
    except StateError as error:
        raise JobError(f"{name}:{error.field}", error.reason, _REMEDY) from None


def load_data(directory: Path, document: JobDocument, limits: Limits = LIMITS) -> Dataset:
    """Read and verify the shards of a job.

    Raises JobError when a file is missing or is not the one that the document describes.
    """
    folder = directory / DATA_FOLDER
    if folder.is_symlink():
        raise JobError(DATA_FOLDER, "is a link", _REMEDY)
    shape = {column.name: (document.rows, *column.shape) for column in document.columns}
    columns = {
        spec.name: np.empty(shape[spec.name], NUMPY_DTYPES[spec.dtype]) for spec in document.columns
    }
    first = 0
    for shard in document.shards:
        for name, part in _load_shard(directory, shard, document.columns, limits).items():
            columns[name][first : first + shard.rows] = part
        first += shard.rows
    for array in columns.values():
        array.flags.writeable = False
    if state_tree(columns).root != document.data_root:
        raise JobError("data_root", "is not the root of the data", _REMEDY)
    return Dataset(columns, document.rows)


def load_job(directory: Path | str, limits: Limits = LIMITS) -> LoadedJob:
    """Load a job directory and verify all that the document says about it.

    Raises JobError, which names the field or file, for anything that is not exactly the job.

    Example::

        loaded = assay.load_job("my-job")
        print(list(loaded.global_state))
    """
    directory = Path(directory)
    job = parse_job(read_file(directory / DOCUMENT, DOCUMENT, limits.document_size), limits)
    document = job.document
    initial = (
        _load_state(
            directory, GLOBAL_STATE, document.global_tensors, document.global_root, "global_root"
        ),
        _load_state(
            directory, LOCAL_STATE, document.local_tensors, document.local_root, "local_root"
        ),
    )
    return LoadedJob(job, initial, load_data(directory, document, limits))
