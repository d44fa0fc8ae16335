"""Verifying the shards of a job, piece by piece, before training uses their rows."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pol.errors import JobError, StateError
from pol.job.dataset import Column, Dataset, MappedFiles
from pol.job.document import JobDocument, Shard
from pol.job.files import REMEDY, open_file
from pol.job.paths import DATA_FOLDER
from pol.job.sampling import WEIGHTED
from pol.limits import LIMITS, Limits
from pol.rules.commitment import chunk_leaf
from pol.state.arrays import array_from_bytes, canonical_array, raw_bytes
from pol.state.canonical import StateTree
from pol.state.layout import CHUNK_SIZE, header_chunk
from pol.state.tensors import check_entries, read_entries
from pol.values import TensorSpec

_PIECE_SIZE = 2**20
_LARGE_ROW = 2**16
"""Smallest size of a row (bytes) for which reading ahead is worthwhile."""
_NO_MAP = "keep the job on a local disk of this machine, and load fewer jobs at once"


class _ColumnHash:
    """The hashes of a column's chunks.

    Values are checked as they are hashed; a chunk may hold rows of several shards.
    """

    def __init__(self, spec: TensorSpec) -> None:
        self.spec = spec
        self.is_canonical = True
        self._leaves: list[bytes] = []
        self._rest = bytearray()

    def add(self, piece: bytes) -> None:
        """Check and hash the next bytes of the column. Raises StateError or NotFinite if they are not valid values."""
        array = array_from_bytes(piece, self.spec.dtype, (-1,), self.spec.name)
        canonical = canonical_array(array, self.spec.name)
        if canonical is not array and self.is_canonical:
            self.is_canonical = np.array_equal(canonical.view(np.uint32), array.view(np.uint32))
        self._rest += raw_bytes(canonical)
        whole = len(self._rest) // CHUNK_SIZE * CHUNK_SIZE
        if whole:
            with memoryview(self._rest) as view:
                for first in range(0, whole, CHUNK_SIZE):
                    self._leaves.append(chunk_leaf(view[first : first + CHUNK_SIZE]))
            del self._rest[:whole]

    def leaves(self) -> list[bytes]:
        """Return the hashes of all chunks of the column."""
        return [*self._leaves, chunk_leaf(bytes(self._rest))] if self._rest else self._leaves


def load_data(directory: Path, document: JobDocument, limits: Limits = LIMITS) -> Dataset:
    """Verify the shards of a job, and return its data, which stay on disk.

    Raises JobError if a file is missing or differs from the document.
    """
    folder = directory / DATA_FOLDER
    if folder.is_symlink():
        raise JobError(DATA_FOLDER, "is a link", REMEDY)
    hashes = {spec.name: _ColumnHash(spec) for spec in document.columns}
    origins: dict[str, list[int]] = {spec.name: [] for spec in document.columns}
    mapped = _reserved(document)
    first = 0
    for index, shard in enumerate(document.shards):
        name = f"{DATA_FOLDER}/{shard.name}"
        with open_file(folder / shard.name, name, limits.shard_size, shard.size) as file:
            try:
                starts = _verify(file, shard, hashes, limits)
            except StateError as error:
                raise JobError(f"{name}:{error.field}", error.reason, REMEDY) from None
            try:
                mapped.add(index, file.fileno(), shard.size)
            except OSError as error:
                raise JobError(name, f"cannot be mapped ({error.strerror})", _NO_MAP) from None
        for column in document.columns:
            start = mapped.starts[index] + starts[column.name]
            origins[column.name].append(start - first * column.type.size)
        first += shard.rows
    if _root(document, hashes) != document.data_root:
        raise JobError("data_root", "differs from the root of the data", REMEDY)
    columns = [
        Column(spec, mapped.bytes, origins[spec.name], hashes[spec.name].is_canonical) for spec in document.columns
    ]
    data = Dataset(columns, [shard.rows for shard in document.shards])
    if document.sampling.order == WEIGHTED:
        data.weigh(document.sampling.weights)
    return data


def _reserved(document: JobDocument) -> MappedFiles:
    row_size = sum(column.type.size for column in document.columns)
    try:
        return MappedFiles([shard.size for shard in document.shards], row_size < _LARGE_ROW)
    except OSError as error:
        raise JobError(DATA_FOLDER, f"cannot be mapped ({error.strerror})", _NO_MAP) from None


def _verify(file: BinaryIO, shard: Shard, hashes: dict[str, _ColumnHash], limits: Limits) -> dict[str, int]:
    """Verify a shard's hash, and add its rows to the column hashes.

    Return the offset in the file where each column begins.
    """
    digest = sha256()
    for piece in _pieces(file, shard.size):
        digest.update(piece)
    if digest.digest() != shard.sha256:
        name = f"{DATA_FOLDER}/{shard.name}"
        raise JobError(name, "its SHA-256 differs from the one in the document", REMEDY)
    file.seek(0)
    entries = read_entries(file, limits)
    check_entries(
        entries,
        [TensorSpec(name, column.spec.dtype, (shard.rows, *column.spec.shape)) for name, column in hashes.items()],
    )
    start = file.tell()
    for entry in entries:
        for piece in _pieces(file, entry.type.size):
            hashes[entry.name].add(piece)
    return {entry.name: start + entry.start for entry in entries}


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the next ``size`` bytes of a file, piece by piece."""
    while size:
        piece = file.read(min(size, _PIECE_SIZE))
        if not piece:
            raise StateError("data", "changed while it was read")
        size -= len(piece)
        yield piece


def _root(document: JobDocument, hashes: dict[str, _ColumnHash]) -> bytes:
    specs = [TensorSpec(spec.name, spec.dtype, (document.rows, *spec.shape)) for spec in document.columns]
    leaves = {name: column.leaves() for name, column in hashes.items()}
    return StateTree(chunk_leaf(header_chunk(specs)), leaves).root
