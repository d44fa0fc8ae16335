"""The layout of the canonical bytes of a state, computed from names and types alone, without allocation.

Chunk 0 is the header: four big-endian bytes with the length of the rest, then the canonical JSON of
``[[name, dtype, shape], …]``, sorted by the bytes of the names. The tensors follow in the same order, each starting a
new chunk of 64 KiB.
"""

import json
from collections.abc import Iterator, Sequence

from domain.limits import STATE_CHUNK_BYTES, STATE_HEADER_MAX
from pol.errors import StateError
from pol.limits import MAX_DIMENSION, MAX_RANK
from pol.values import ITEM_SIZE, TensorSpec

CHUNK_SIZE = STATE_CHUNK_BYTES
"""Size of a full chunk in bytes."""
MAX_HEADER = STATE_HEADER_MAX - 4
"""Largest size of the header's JSON in bytes."""

OTHER_TENSORS = "its tensors are not those of the job"


def _sorted(specs: Sequence[TensorSpec]) -> list[TensorSpec]:
    return sorted(specs, key=lambda spec: spec.name.encode())


def header_chunk(specs: Sequence[TensorSpec]) -> bytes:
    """Return chunk 0 of a state with these tensors, which may be in any order.

    Raises StateError if the chunk is too long.
    """
    entries = [[spec.name, spec.dtype, list(spec.shape)] for spec in _sorted(specs)]
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    if len(text) > MAX_HEADER:
        raise StateError("header", f"has {len(text)} bytes, more than {MAX_HEADER}")
    return len(text).to_bytes(4, "big") + text


def encoded_size(specs: Sequence[TensorSpec]) -> int:
    """Return the size of the canonical form of a state with these tensors, in bytes."""
    return len(header_chunk(specs)) + sum(spec.type.size for spec in specs)


def tensor_chunks(spec: TensorSpec) -> int:
    """Return the number of chunks of one tensor. It is 0 if the tensor has no elements."""
    return -(-spec.type.size // CHUNK_SIZE)


def chunk_count(specs: Sequence[TensorSpec]) -> int:
    """Return the number of chunks of a state with these tensors, including the header."""
    return 1 + sum(tensor_chunks(spec) for spec in specs)


def chunk_sizes(specs: Sequence[TensorSpec]) -> Iterator[int]:
    """Yield the sizes of all chunks after the header, in order."""
    for spec in _sorted(specs):
        for start in range(0, spec.type.size, CHUNK_SIZE):
            yield min(CHUNK_SIZE, spec.type.size - start)


def _parse_entry(entry: object) -> TensorSpec:
    match entry:
        case [str(name), str(dtype), list(shape)] if dtype in ITEM_SIZE and len(shape) <= MAX_RANK:
            if all(type(size) is int and 0 <= size <= MAX_DIMENSION for size in shape):
                return TensorSpec(name, dtype, tuple(shape))
    raise StateError("header", "an entry is not a name, a dtype and a shape")


def parse_header(data: bytes) -> tuple[int, tuple[TensorSpec, ...]]:
    """Return the size of the header chunk, and the tensors in the header, in order. ``data`` begins with the header.

    Raises StateError if the header is incomplete, too long or not canonical, or if its names are not ascending.
    """
    length = int.from_bytes(data[:4], "big")
    if len(data) < 4 or length > MAX_HEADER or len(data) < 4 + length:
        raise StateError("header", "is incomplete or too long")
    chunk = bytes(data[: 4 + length])
    try:
        entries = json.loads(chunk[4:].decode("ascii"))
    except (ValueError, RecursionError):
        raise StateError("header", "is not JSON in ASCII") from None
    if not isinstance(entries, list):
        raise StateError("header", "is not a list")
    specs = tuple(_parse_entry(entry) for entry in entries)
    if len({spec.name for spec in specs}) != len(specs):
        raise StateError("header", "a name occurs twice")
    if any("\ud800" <= character <= "\udfff" for spec in specs for character in spec.name):
        raise StateError("header", "a name is not text")
    # This comparison also refuses names that are not in ascending order.
    if header_chunk(specs) != chunk:
        raise StateError("header", "is not in canonical form")
    return len(chunk), specs


def chunk_lengths(start: bytes, size: int) -> list[int]:
    """Return the sizes of the chunks of canonical bytes.

    ``start`` is the beginning of these bytes, with the whole header, and ``size`` is the number of all bytes. Raises
    StateError if their sum is not ``size``.
    """
    position, specs = parse_header(start)
    if size != encoded_size(specs):
        raise StateError("state", f"has {size} bytes, not {encoded_size(specs)}")
    return [position, *chunk_sizes(specs)]
