"""Some tensors of a state in a file. No call holds more than the tensors that it returns."""

from collections.abc import Collection, Iterator, Sequence
from io import BufferedReader
from pathlib import Path

import numpy as np

from pol.errors import StateError
from pol.state.arrays import NUMPY_DTYPES, Array, array_from_bytes, raw_bytes
from pol.state.canonical import check_values
from pol.state.layout import OTHER_TENSORS, encoded_size, header_chunk
from pol.state.merge import places_of
from pol.values import TensorSpec


def read_tensors(path: Path, specs: Sequence[TensorSpec], names: Collection[str]) -> dict[str, Array]:
    """Return some tensors of the state in a file of canonical bytes. The state has exactly the tensors ``specs``.

    Raises StateError if the file is not a state with these tensors, and OSError if the file cannot be read. Raises
    NotFinite if one of the tensors that are read holds NaN or infinity.
    """
    return dict(iter_tensors(path, specs, names))


def iter_tensors(path: Path, specs: Sequence[TensorSpec], names: Collection[str]) -> Iterator[tuple[str, Array]]:
    """Yield tensors as :func:`read_tensors` returns them, one after another, in the order of the file."""
    with path.open("rb") as file:
        header = header_chunk(specs)
        if file.read(len(header)) != header or file.seek(0, 2) != encoded_size(specs):
            raise StateError("state", OTHER_TENSORS)
        for spec, start in places_of(specs, len(header)):
            if spec.name in names:
                file.seek(start)
                yield spec.name, _read(file, spec)


def _read(file: BufferedReader, spec: TensorSpec) -> Array:
    array = np.empty(spec.shape, NUMPY_DTYPES[spec.dtype])
    data = raw_bytes(array)
    if array.size and file.readinto(data) != array.nbytes:
        raise StateError("state", "changed while it was read")
    array_from_bytes(data, spec.dtype, spec.shape, spec.name)
    check_values(array, spec)
    return array
