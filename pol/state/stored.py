"""A state that stays in its file of canonical bytes. It is for states that may not fit into memory."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, Final, cast
from weakref import finalize

import numpy as np

from domain.hashing import merkle_root
from pol.errors import StateError
from pol.rules.commitment import chunk_leaf
from pol.state.arrays import NUMPY_DTYPES, Array, array_from_bytes
from pol.state.canonical import CHUNKS_AT_ONCE, check_values
from pol.state.layout import CHUNK_SIZE, MAX_HEADER, OTHER_TENSORS, encoded_size, header_chunk, parse_header
from pol.state.merge import places_of
from pol.values import TensorSpec

_ALIGNMENT: Final = 64


class StoredState(Mapping[str, Array]):
    """A state whose read-only arrays are mapped into memory when they are used.

    The object owns the file and closes it; no other code may read or write the file.
    """

    def __init__(self, file: BinaryIO, specs: Sequence[TensorSpec], start: int = 0) -> None:
        """Open the state whose canonical bytes begin at byte ``start``; only its header and its size are checked.

        Raises StateError if they do not fit the tensors ``specs``.
        """
        finalize(self, file.close)
        header = header_chunk(specs)
        file.seek(start)
        if file.read(len(header)) != header:
            raise StateError("header", OTHER_TENSORS)
        size = os.fstat(file.fileno()).st_size - start
        if size != encoded_size(specs):
            raise StateError("state", f"has {size} bytes, not {encoded_size(specs)}")
        self._file, self._start = file, start
        self._places = {spec.name: (spec, position) for spec, position in places_of(specs, start + len(header))}

    def __getitem__(self, name: str) -> Array:
        spec, position = self._places[name]
        dtype = NUMPY_DTYPES[spec.dtype]
        if not spec.type.size:
            return np.zeros(spec.shape, dtype)
        # The map has a descriptor of its own, which is closed with the map.
        return np.memmap(self._file, dtype, "r", position, spec.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def checked_root(self) -> bytes:
        """Read and check the whole file once, and return the root of the state.

        Raises StateError if the bytes are not canonical, and NotFinite if a tensor holds NaN or infinity.
        """
        self._file.seek(self._start)
        return next_root(self._file, [spec for spec, _ in self._places.values()])


def aligned_state(pieces: Iterable[bytes | memoryview], specs: Sequence[TensorSpec]) -> StoredState:
    """Return a state whose canonical bytes are ``pieces``, in a file without a name.

    A back end reads its tensors where they are mapped. Those of another file begin at any byte, so it would copy them.
    """
    start = -len(header_chunk(specs)) % _ALIGNMENT
    file = TemporaryFile()  # noqa: SIM115  (the state closes it)
    file.write(bytes(start))
    file.writelines(pieces)
    file.flush()
    return StoredState(cast(BinaryIO, file), specs, start)


def next_root(file: BinaryIO, specs: Sequence[TensorSpec]) -> bytes:
    """Read and check the state whose canonical bytes come next in an open file, and return its root.

    Only a few chunks are in memory at a time. Raises StateError if the bytes are not those of a state with the tensors
    ``specs``, and NotFinite if a tensor holds NaN or infinity.
    """
    header = header_chunk(specs)
    start = file.read(len(header))
    if start != header:
        parse_header(start)
        raise StateError("header", OTHER_TENSORS)
    leaves = [chunk_leaf(header)]
    for spec, _ in places_of(specs, 0):
        leaves += _checked_leaves(file, spec)
    return merkle_root(leaves)


def _checked_leaves(file: BinaryIO, spec: TensorSpec) -> Iterator[bytes]:
    remaining = spec.type.size
    while remaining:
        data = memoryview(file.read(min(remaining, CHUNKS_AT_ONCE * CHUNK_SIZE)))
        if not data:
            raise StateError("state", "changed while it was read")
        remaining -= len(data)
        items = (len(data) // NUMPY_DTYPES[spec.dtype].itemsize,)
        check_values(array_from_bytes(data, spec.dtype, items, spec.name), spec)
        yield from (chunk_leaf(data[i : i + CHUNK_SIZE]) for i in range(0, len(data), CHUNK_SIZE))


def file_root(path: Path) -> bytes:
    """Return the root of the state in a file. The state may have any tensors. Raises StateError if the file does not
    hold a state.
    """
    with path.open("rb") as file:
        _, specs = parse_header(file.read(MAX_HEADER + 4))
    return StoredState(path.open("rb"), specs).checked_root()
