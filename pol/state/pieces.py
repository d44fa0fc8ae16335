"""States in pieces: some tensors of a state in a file, and a whole state from the files of several machines.

A piece is a state of its own, with some of the tensors. No call holds more than the tensors that it returns.
"""

from collections.abc import Collection, Iterator, Sequence
from io import BufferedReader
from pathlib import Path

import numpy as np

from pol.errors import StateError
from pol.state.arrays import NUMPY_DTYPES, Array, array_from_bytes, raw_bytes
from pol.state.canonical import OTHER_TENSORS, check_values
from pol.state.layout import MAX_HEADER, encoded_size, header_chunk, parse_header
from pol.values import TensorSpec

_COPY_BYTES = 1 << 20


def read_tensors(path: Path, specs: Sequence[TensorSpec], names: Collection[str]) -> dict[str, Array]:
    """Return some tensors of the state in a file of canonical bytes. The state has exactly the tensors ``specs``.

    Raises StateError if the file is not a state with these tensors, and OSError if the file cannot be read. Raises
    NotFinite if one of the tensors that are read holds NaN or infinity.
    """
    with path.open("rb") as file:
        header = header_chunk(specs)
        if file.read(len(header)) != header or file.seek(0, 2) != encoded_size(specs):
            raise StateError("state", OTHER_TENSORS)
        result: dict[str, Array] = {}
        for spec, start in _places(specs, len(header)):
            if spec.name in names:
                file.seek(start)
                result[spec.name] = _read(file, spec)
        return result


def merged_pieces(paths: Sequence[Path], specs: Sequence[TensorSpec]) -> Iterator[bytes]:
    """Yield the canonical bytes of the state whose tensors ``specs`` are in the pieces at ``paths``.

    Raises StateError if the pieces do not have each of these tensors once.
    """
    found: dict[str, tuple[Path, int]] = {}
    count = 0
    for path in paths:
        with path.open("rb") as file:
            size, own = parse_header(file.read(4 + MAX_HEADER))
        count += len(own)
        found |= {spec.name: (path, start) for spec, start in _places(own, size) if spec in specs}
    if count != len(specs) or len(found) != len(specs):
        raise StateError("state", "its pieces do not have each tensor of the job once")
    yield header_chunk(specs)
    for spec, _ in _places(specs, 0):
        path, start = found[spec.name]
        with path.open("rb") as file:
            file.seek(start)
            left = spec.type.size
            while left:
                data = file.read(min(left, _COPY_BYTES))
                if not data:
                    raise StateError(spec.name, "its piece is too short")
                left -= len(data)
                yield data


def _places(specs: Sequence[TensorSpec], start: int) -> Iterator[tuple[TensorSpec, int]]:
    """Yield the tensors of a state in order, each with its position."""
    for spec in sorted(specs, key=lambda spec: spec.name.encode()):
        yield spec, start
        start += spec.type.size


def _read(file: BufferedReader, spec: TensorSpec) -> Array:
    array = np.empty(spec.shape, NUMPY_DTYPES[spec.dtype])
    data = raw_bytes(array)
    if array.size and file.readinto(data) != array.nbytes:
        raise StateError("state", "changed while it was read")
    array_from_bytes(data, spec.dtype, spec.shape, spec.name)
    check_values(array, spec)
    return array
