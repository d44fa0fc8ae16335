"""Canonical bytes of a state and the Merkle tree over their chunks.

Chunk 0 is the header (``layout.py``). Then come the tensors in name order, little-endian in C
order, each starting a new chunk of 64 KiB; a tensor's last chunk may be short and nothing is
padded, so the canonical bytes are the chunks one after another. The tree is RFC 6962 over
``merkle_leaf("assay/state/chunk", chunk)``: one root serves replay, dispute and hand-over, and a
chunk that did not change is not hashed again.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from domain.hashing import merkle_leaf, merkle_path, merkle_root
from pol.errors import NotFinite, StateError
from pol.state.arrays import (
    Array,
    State,
    array_from_bytes,
    canonical_array,
    dtype_name,
    raw_bytes,
)
from pol.state.layout import (
    CHUNK_SIZE,
    chunk_sizes,
    encoded_size,
    header_chunk,
    parse_header,
    tensor_chunks,
)
from pol.values import TensorSpec

_TAG = "assay/state/chunk"


def state_specs(state: State) -> tuple[TensorSpec, ...]:
    """Return name, dtype and shape of every tensor, in name order."""
    return tuple(
        TensorSpec(name, dtype_name(state[name], name), state[name].shape) for name in sorted(state)
    )


def encode_state(state: State) -> bytes:
    """Return the canonical bytes of a state (-0.0 is written as +0.0).

    Raises NotFinite when a tensor holds NaN or infinity, and StateError when its dtype is not one of a job's.
    """
    return b"".join(state_pieces(state))


def state_pieces(state: State) -> Iterator[bytes | memoryview]:
    """Yield the canonical bytes of a state, header and tensors one after another; raises as :func:`encode_state`."""
    yield header_chunk(state_specs(state))
    for name in sorted(state):
        yield raw_bytes(canonical_array(state[name], name))


def decode_state(data: bytes, specs: Sequence[TensorSpec]) -> dict[str, Array]:
    """Return the state that canonical bytes hold; arrays are read-only views of ``data``.

    ``specs`` are exactly the tensors that it must have, in any order. Raises StateError for anything but the one
    encoding of a state with these tensors, and NotFinite when a tensor holds NaN or infinity.
    """
    expected = header_chunk(specs)
    if data[: len(expected)] != expected:
        # a better reason, where the header itself is at fault
        parse_header(data)
        raise StateError("header", "the tensors are not the ones that the job names")
    if len(data) != encoded_size(specs):
        raise StateError("state", f"has {len(data)} bytes, not {encoded_size(specs)}")
    view, position = memoryview(data), len(expected)
    result: dict[str, Array] = {}
    for spec in sorted(specs, key=lambda spec: spec.name.encode()):
        part = view[position : position + spec.type.size]
        position += spec.type.size
        array = array_from_bytes(part, spec.dtype, spec.shape, spec.name)
        if spec.dtype == "f32":
            if not np.isfinite(array).all():
                raise NotFinite(spec.name)
            if (array.view(np.uint32) == 0x80000000).any():
                raise StateError(spec.name, "holds -0.0, which has no place in canonical bytes")
        result[spec.name] = array
    return result


def chunks_of(data: bytes) -> list[bytes]:
    """Return the chunks of canonical bytes, found from the header; StateError if the sizes do not fit."""
    position, specs = parse_header(data)
    if len(data) != encoded_size(specs):
        raise StateError("state", f"has {len(data)} bytes, not {encoded_size(specs)}")
    chunks = [data[:position]]
    for size in chunk_sizes(specs):
        chunks.append(data[position : position + size])
        position += size
    return chunks


class StateTree:
    """The Merkle tree of a state's chunks, from the leaf hash of each, header first."""

    def __init__(self, leaves: Sequence[bytes]) -> None:
        self.leaves = tuple(leaves)

    @property
    def count(self) -> int:
        """Number of chunks."""
        return len(self.leaves)

    @cached_property
    def root(self) -> bytes:
        """Root of the tree (32 bytes)."""
        return merkle_root(self.leaves)

    def path(self, index: int) -> tuple[bytes, ...]:
        """Return the audit path of chunk ``index``; ValueError outside the tree."""
        return merkle_path(self.leaves, index)


def chunk_leaf(chunk: bytes | memoryview) -> bytes:
    """Return the leaf hash of a chunk."""
    return merkle_leaf(_TAG, bytes(chunk))


def _tensor_leaves(array: Array, old: Array | None, old_leaves: Sequence[bytes]) -> list[bytes]:
    """Hash the chunks of an array; where ``old`` has the same bytes, its leaf is taken over."""
    data = raw_bytes(array)
    before = raw_bytes(old) if old is not None else memoryview(b"")
    leaves = []
    for index, start in enumerate(range(0, len(data), CHUNK_SIZE)):
        chunk = bytes(data[start : start + CHUNK_SIZE])
        same = old is not None and chunk == bytes(before[start : start + CHUNK_SIZE])
        leaves.append(old_leaves[index] if same else chunk_leaf(chunk))
    return leaves


def state_tree(
    state: State, previous: StateTree | None = None, previous_state: State | None = None
) -> StateTree:
    """Return the tree of a state's canonical chunks.

    With a ``previous_state`` of the same tensors and its tree, chunks that are equal there are not hashed again, and a
    tensor that is the same object is not even looked at. Raises NotFinite when a tensor holds NaN or infinity.
    """
    specs = state_specs(state)
    if previous is None or previous_state is None or state_specs(previous_state) != specs:
        previous = previous_state = None
    # the header follows from the specs
    leaves = [previous.leaves[0] if previous else chunk_leaf(header_chunk(specs))]
    for spec in specs:
        count = tensor_chunks(spec)
        old_leaves = previous.leaves[len(leaves) : len(leaves) + count] if previous else ()
        old = previous_state[spec.name] if previous_state is not None else None
        if old is state[spec.name] and old is not None:
            leaves += old_leaves
            continue
        array = canonical_array(state[spec.name], spec.name)
        plain = canonical_array(old, spec.name) if old is not None else None
        leaves += _tensor_leaves(array, plain, old_leaves)
    return StateTree(leaves)


def freeze(state: State) -> dict[str, Array]:
    """Return the state in canonical form with arrays that refuse writing (trees rely on that)."""
    result = {}
    for name in sorted(state):
        array = canonical_array(state[name], name)
        if array is state[name] or array.base is not None:
            array = array.copy()
        array.flags.writeable = False
        result[name] = array
    return result
