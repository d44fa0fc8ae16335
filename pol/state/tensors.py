"""Strict reader and deterministic writer of safetensors files.

A file consists of the header's length in eight little-endian bytes, a JSON header (name to dtype, shape and byte
range), and the elements. The usual library allows a header of 100 MB and any number of tensors, so this module has its
own reader. This reader limits the header's size before it parses the header, and accepts only a few dtypes. The ranges
must cover the data one after another without holes. Nothing is ever unpickled.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np

from host.foreign_json import excess_tokens
from pol.errors import StateError
from pol.limits import LIMITS, MAX_DIMENSION, MAX_RANK, Limits
from pol.state.arrays import Array, State, array_from_bytes, canonical_array, dtype_name, raw_bytes
from pol.state.canonical import parts_of
from pol.values import TensorSpec, TensorType

_FILE_DTYPES = {"F32": "f32", "I64": "i64", "BOOL": "bool"}
_FILE_NAMES = {name: code for code, name in _FILE_DTYPES.items()}
_PREFIX = 8
_ENTRY_TOKENS = 32
"""Largest number of JSON tokens of one tensor in a header; a tensor with eight dimensions has 18."""


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """A tensor of a file; its bytes are ``start`` to ``stop``, counted from the end of the header."""

    name: str
    type: TensorType
    start: int
    stop: int


def _no_duplicates(items: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(items)
    if len(result) != len(items):
        raise StateError("header", "a key occurs twice")
    return result


def _parse_json(data: bytes, limits: Limits) -> dict[str, object]:
    if data[:1] != b"{":
        raise StateError("header", "is not a safetensors header")
    if excess := excess_tokens(data, _ENTRY_TOKENS * limits.tensors):
        raise StateError("header", excess)
    try:
        header = json.loads(data.decode("utf-8"), object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError):
        raise StateError("header", "is not JSON") from None
    if not isinstance(header, dict):
        raise StateError("header", "is not an object")
    return header


def _check_metadata(value: object) -> None:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise StateError("header", "its __metadata__ is not a map of strings")


def _parse_entry(name: str, value: object, limits: Limits) -> TensorEntry:
    if len(name) > 256:
        raise StateError("header", "a name has more than 256 characters")
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise StateError(name, "its entry does not consist of dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _FILE_DTYPES:
        raise StateError(name, f"its dtype is not one of {', '.join(_FILE_DTYPES)}")
    if not isinstance(shape, list) or len(shape) > MAX_RANK:
        raise StateError(name, f"its shape is not a list of at most {MAX_RANK} sizes")
    if not all(type(size) is int and 0 <= size <= MAX_DIMENSION for size in shape):
        raise StateError(name, f"a size of its shape is outside 0..{MAX_DIMENSION}")
    tensor = TensorType(_FILE_DTYPES[dtype], tuple(shape))
    if tensor.elements > limits.value_elements:
        raise StateError(name, f"has {tensor.elements} elements, more than {limits.value_elements}")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(type(offset) is int for offset in offsets):
        raise StateError(name, "its data_offsets are not two integers")
    if offsets[0] < 0 or offsets[1] - offsets[0] != tensor.size:
        raise StateError(name, f"its data_offsets do not have the size of {tensor}")
    return TensorEntry(name=name, type=tensor, start=offsets[0], stop=offsets[1])


def _parse_header(header: bytes, data_size: int, limits: Limits) -> list[TensorEntry]:
    fields = _parse_json(header, limits)
    if "__metadata__" in fields:
        _check_metadata(fields.pop("__metadata__"))
    if len(fields) > limits.tensors:
        raise StateError("header", f"names {len(fields)} tensors, more than {limits.tensors}")
    entries = [_parse_entry(name, value, limits) for name, value in fields.items()]
    entries.sort(key=lambda entry: (entry.start, entry.stop))
    position = 0
    for entry in entries:
        if entry.start != position:
            raise StateError(entry.name, "its data overlap those of another tensor, or leave a hole")
        position = entry.stop
    if position != data_size:
        raise StateError("data", f"the header describes {position} bytes of data, but the file has {data_size}")
    return entries


def _header_size(prefix: bytes, limits: Limits) -> int:
    size = int.from_bytes(prefix, "little")
    if len(prefix) != _PREFIX:
        raise StateError("header", "the file is too short")
    if size > limits.header_size:
        raise StateError("header", f"has {size} bytes, more than {limits.header_size}")
    return size


def read_entries(file: BinaryIO, limits: Limits = LIMITS) -> list[TensorEntry]:
    """Read the header of a file, and return its tensors in the order of their bytes.

    The file is then at the first of these bytes. Raises StateError if the header is not valid.
    """
    prefix = file.read(_PREFIX)
    size = _header_size(prefix, limits)
    header = file.read(size)
    if len(header) != size:
        raise StateError("header", "the file is too short")
    start = file.tell()
    total = file.seek(0, os.SEEK_END)
    file.seek(start)
    return _parse_header(header, total - start, limits)


def check_entries(entries: Sequence[TensorEntry], specs: Sequence[TensorSpec]) -> None:
    """Raise StateError if a file does not have exactly these tensors."""
    actual = {entry.name: entry.type for entry in entries}
    expected = {spec.name: spec.type for spec in specs}
    for name in sorted(actual.keys() ^ expected.keys()):
        raise StateError(name, "is missing" if name in expected else "is not expected")
    for name, value in expected.items():
        if actual[name] != value:
            raise StateError(name, f"is {actual[name]}, not {value}")


def load_safetensors(
    source: bytes | Path, specs: Sequence[TensorSpec] | None = None, limits: Limits = LIMITS
) -> dict[str, Array]:
    """Read a safetensors file. Return its arrays by name, in name order; they are read-only, and -0.0 becomes +0.0.

    ``source`` is the bytes, or a file, whose header is checked before its data are read. ``specs`` are the tensors that
    the file must hold; None accepts any tensors within ``limits``.

    Raises StateError if the file does not have the form described in this module, and NotFinite if a tensor holds NaN
    or infinity.
    """
    with source.open("rb") if isinstance(source, Path) else BytesIO(source) as file:
        entries = read_entries(file, limits)
        if specs is not None:
            check_entries(entries, specs)
        data = file.read(max((entry.stop for entry in entries), default=0))
    view = memoryview(data)
    result: dict[str, Array] = {}
    for entry in sorted(entries, key=lambda entry: entry.name):
        part = view[entry.start : entry.stop]
        array = array_from_bytes(part, entry.type.dtype, entry.type.shape, entry.name)
        result[entry.name] = canonical_array(array, entry.name)
        result[entry.name].flags.writeable = False
    return result


def safetensors_header(state: State) -> bytes:
    """Return the length field and the header of the file that :func:`dump_safetensors` writes."""
    header: dict[str, Mapping[str, object]] = {}
    position = 0
    for name in sorted(state):
        array = state[name]
        code = _FILE_NAMES[dtype_name(array, name)]
        header[name] = {
            "dtype": code,
            "shape": list(array.shape),
            "data_offsets": [position, position + array.nbytes],
        }
        position += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # The format aligns the data to eight bytes.
    return len(text).to_bytes(_PREFIX, "little") + text


def dump_safetensors(state: State) -> bytes:
    """Return the bytes of a safetensors file with a state. Tensors are in name order, and there is no metadata.

    Equal states give equal bytes; -0.0 is written as +0.0. Raises NotFinite if a tensor holds NaN or infinity.
    """
    return b"".join(safetensors_pieces(state))


def safetensors_pieces(state: State) -> Iterator[memoryview]:
    """Yield the bytes of :func:`dump_safetensors` in pieces of a few MiB. Raises the same errors."""
    yield memoryview(safetensors_header(state))
    for name in sorted(state):
        for part in parts_of(np.asarray(state[name]), name):
            yield raw_bytes(canonical_array(part, name))
