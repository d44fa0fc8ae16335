"""The canonical bytes of a state, and the Merkle tree over their chunks.

Chunk 0 is the header (``layout.py``). The tensors follow in name order, little-endian and in C order, each starting a
new chunk of 64 KiB. A tensor's last chunk may be short. There is no padding, so the canonical bytes are the chunks one
after another. The tree is built as in RFC 6962 over ``merkle_leaf("assay/state/chunk", chunk)``. Replay, disputes and
the hand-over all use this root. If a tensor did not change, it is not hashed again.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from io import BufferedReader
from itertools import chain
from pathlib import Path
from types import MappingProxyType

import numpy as np

from domain.hashing import merkle_path, merkle_root
from pol.errors import NotFinite, StateError
from pol.rules.commitment import chunk_leaf
from pol.state.arrays import (
    NUMPY_DTYPES,
    Array,
    State,
    array_from_bytes,
    canonical_array,
    dtype_name,
    raw_bytes,
)
from pol.state.layout import (
    CHUNK_SIZE,
    OTHER_TENSORS,
    chunk_lengths,
    encoded_size,
    header_chunk,
    parse_header,
)
from pol.values import Shape, TensorSpec

NOTHING_KNOWN: Mapping[str, Sequence[bytes]] = MappingProxyType({})
CHUNKS_AT_ONCE = 2**8
"""Number of chunks of a tensor that are hashed or copied at once."""


def state_specs(state: State) -> tuple[TensorSpec, ...]:
    """Return the name, the dtype and the shape of each tensor of a state, in name order."""
    return tuple(TensorSpec(name, dtype_name(state[name], name), state[name].shape) for name in sorted(state))


def encode_state(state: State) -> bytes:
    """Return the canonical bytes of a state (-0.0 is written as +0.0).

    Raises NotFinite if a tensor holds NaN or infinity, and StateError if its dtype is not one that a job may use.
    """
    return b"".join(state_pieces(state))


def state_pieces(state: State) -> Iterator[bytes | memoryview]:
    """Yield the canonical bytes of a state piece by piece. Raises the same errors as :func:`encode_state`."""
    yield header_chunk(state_specs(state))
    for name in sorted(state):
        for part in parts_of(state[name], name):
            yield raw_bytes(canonical_array(part, name))


def decode_state(data: bytes, specs: Sequence[TensorSpec]) -> dict[str, Array]:
    """Return the state that canonical bytes encode. Its arrays are read-only views of ``data``.

    ``specs`` are the tensors that the state must have, in any order. Raises StateError if ``data`` is not the canonical
    encoding of a state with exactly these tensors, and NotFinite if a tensor holds NaN or infinity.
    """
    expected = header_chunk(specs)
    if data[: len(expected)] != expected:
        # If the header itself is not valid, this call raises a more precise error.
        parse_header(data)
        raise StateError("header", OTHER_TENSORS)
    if len(data) != encoded_size(specs):
        raise StateError("state", f"has {len(data)} bytes, not {encoded_size(specs)}")
    view, position = memoryview(data), len(expected)
    result: dict[str, Array] = {}
    for spec in sorted(specs, key=lambda spec: spec.name.encode()):
        part = view[position : position + spec.type.size]
        position += spec.type.size
        array = array_from_bytes(part, spec.dtype, spec.shape, spec.name)
        check_values(array, spec)
        result[spec.name] = array
    return result


def read_state(path: Path, specs: Sequence[TensorSpec]) -> dict[str, Array]:
    """Return the state in a file of canonical bytes.

    Its arrays own their memory, so that memory holds the state only once. Raises the same errors as
    :func:`decode_state`, and OSError if the file cannot be read.
    """
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size != encoded_size(specs):
            # This call raises the error that describes the fault.
            return decode_state(file.read(), specs)
        return read_next_state(file, specs)


def read_next_state(file: BufferedReader, specs: Sequence[TensorSpec]) -> dict[str, Array]:
    """Return the state whose canonical bytes come next in an open file.

    Raises the same errors as :func:`read_state`.
    """
    expected = header_chunk(specs)
    start = file.read(len(expected))
    if start != expected:
        parse_header(start)
        raise StateError("header", OTHER_TENSORS)
    result: dict[str, Array] = {}
    for spec in sorted(specs, key=lambda spec: spec.name.encode()):
        array = np.empty(spec.shape, NUMPY_DTYPES[spec.dtype])
        data = raw_bytes(array)
        if array.size and file.readinto(data) != array.nbytes:
            raise StateError("state", "changed while it was read")
        array_from_bytes(data, spec.dtype, spec.shape, spec.name)
        check_values(array, spec)
        array.flags.writeable = False
        result[spec.name] = array
    return result


def check_values(array: Array, spec: TensorSpec) -> None:
    """Raise NotFinite if an array holds NaN or infinity, and StateError if it holds -0.0.

    A canonical state has none of these values.
    """
    if spec.dtype == "f32":
        if not np.isfinite(array).all():
            raise NotFinite(spec.name)
        if (array.view(np.uint32) == 0x80000000).any():
            raise StateError(spec.name, "holds -0.0, which canonical bytes may not contain")


def chunks_of(data: bytes) -> list[bytes]:
    """Split canonical bytes into their chunks.

    The header determines the sizes of the chunks. Raises StateError if the sum of these sizes is not the number of
    bytes.
    """
    chunks, position = [], 0
    for length in chunk_lengths(data, len(data)):
        chunks.append(data[position : position + length])
        position += length
    return chunks


class StateTree:
    """The Merkle tree of a state's chunks.

    Its leaves are the hash of the header, and the hashes of each tensor's chunks.
    """

    def __init__(self, header: bytes, tensors: Mapping[str, Sequence[bytes]]) -> None:
        self.tensors = tensors
        self.leaves = (header, *chain.from_iterable(tensors.values()))

    @property
    def count(self) -> int:
        """Number of chunks."""
        return len(self.leaves)

    @cached_property
    def root(self) -> bytes:
        """Root of the tree (32 bytes)."""
        return merkle_root(self.leaves)

    def path(self, index: int) -> tuple[bytes, ...]:
        """Return the audit path of chunk ``index``. Raises ValueError if the tree has no such chunk."""
        return merkle_path(self.leaves, index)


def tensor_leaves(array: Array, name: str) -> tuple[bytes, ...]:
    """Return the hashes of a tensor's chunks. Raises NotFinite if it holds NaN or infinity."""
    if 0 < array.nbytes <= CHUNK_SIZE:
        return (chunk_leaf(raw_bytes(canonical_array(array, name))),)
    return tuple(chain.from_iterable(_leaves_of_part(part, name) for part in parts_of(array, name)))


def parts_of(array: Array, name: str) -> Iterator[Array]:
    """Yield a tensor in parts of whole chunks, so that only one part at a time is copied into canonical form."""
    dtype_name(array, name)
    flat = array.reshape(-1)
    step = CHUNKS_AT_ONCE * CHUNK_SIZE // array.itemsize
    return (flat[first : first + step] for first in range(0, len(flat), step))


def _leaves_of_part(part: Array, name: str) -> Iterator[bytes]:
    data = raw_bytes(canonical_array(part, name))
    return (chunk_leaf(data[i : i + CHUNK_SIZE]) for i in range(0, len(data), CHUNK_SIZE))


def state_tree(
    state: State, known: Mapping[str, Sequence[bytes]] = NOTHING_KNOWN, canonical: Collection[str] = ()
) -> StateTree:
    """Return the Merkle tree of a state's canonical chunks.

    ``known`` holds the leaves of some tensors, which are not hashed again. The caller guarantees that the arrays of
    these tensors are the arrays that were hashed, and that they have not changed since then. Raises NotFinite if
    another tensor holds NaN or infinity. The caller guarantees that the tensors ``canonical`` are in canonical form, as
    the outputs of a program are. They are neither checked nor copied.
    """
    names = sorted(state)
    header = _header_leaf(tuple([_type_of(state[name], name) for name in names]))
    leaves = {}
    for name in names:
        hashes = known.get(name)
        if not hashes:
            hashes = _canonical_leaves(state[name]) if name in canonical else tensor_leaves(state[name], name)
        leaves[name] = hashes
    return StateTree(header, leaves)


def _canonical_leaves(array: Array) -> tuple[bytes, ...]:
    """Return the hashes of the chunks of a tensor in canonical form."""
    data = raw_bytes(array)
    return tuple([chunk_leaf(data[i : i + CHUNK_SIZE]) for i in range(0, len(data), CHUNK_SIZE)])


def _type_of(array: Array, name: str) -> tuple[str, str, Shape]:
    return name, dtype_name(array, name), array.shape


@lru_cache(maxsize=16)
def _header_leaf(types: tuple[tuple[str, str, Shape], ...]) -> bytes:
    """Return the hash of the header of a state with these names, dtypes and shapes.

    The states of a job have the same few headers in every round, and a header takes longer to make than a small tensor
    to hash.
    """
    return chunk_leaf(header_chunk([TensorSpec(*type_) for type_ in types]))


def freeze(state: State) -> dict[str, Array]:
    """Return a copy of the state in canonical form.

    Its arrays are read-only, because a hash tree is valid only as long as the state does not change.
    """
    result = {}
    for name in sorted(state):
        array = canonical_array(state[name], name)
        if array is state[name] or array.base is not None:
            array = array.copy()
        array.flags.writeable = False
        result[name] = array
    return result
