"""Canonical bytes, chunks and trees of states."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from domain.hashing import merkle_leaf, verify_path
from pol.errors import NotFinite, StateError
from pol.rules.commitment import chunk_leaf
from pol.state import canonical
from pol.state.arrays import Array
from pol.state.canonical import (
    chunks_of,
    decode_state,
    encode_state,
    freeze,
    read_state,
    state_specs,
    state_tree,
)
from pol.state.layout import CHUNK_SIZE, chunk_count, encoded_size, header_chunk
from pol.state.stored import StoredState
from pol.values import TensorSpec


def arrays() -> st.SearchStrategy[Array]:
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
    floats = hnp.arrays(np.float32, shapes, elements=st.floats(width=32, allow_nan=False, allow_infinity=False))
    integers = hnp.arrays(np.int64, shapes, elements=st.integers(-(2**63), 2**63 - 1))
    return st.one_of(floats, integers, hnp.arrays(np.bool_, shapes))


STATES = st.dictionaries(st.from_regex(r"[a-z]{1,3}(\.[a-z0-9]{1,3})?", fullmatch=True), arrays(), max_size=5)


def example() -> dict[str, Array]:
    generator = np.random.default_rng(0)
    return {
        "z": np.array(-5, np.int64),
        "a.weight": generator.standard_normal((300, 100)).astype(np.float32),
        "a.mask": np.array([True, False, True]),
        "empty": np.zeros((0, 4), np.float32),
    }


def from_file(data: bytes, specs: Sequence[TensorSpec]) -> dict[str, Array]:
    with NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return read_state(Path(file.name), specs)


def stored(data: bytes, specs: Sequence[TensorSpec]) -> StoredState:
    file: Any = TemporaryFile()  # noqa: SIM115
    file.write(data)
    file.flush()
    return StoredState(file, specs)


def checked(state: StoredState) -> dict[str, Array]:
    state.checked_root()
    return dict(state)


@settings(max_examples=50, deadline=None)
@given(STATES)
def test_a_stored_state_is_the_one_that_was_written(state: dict[str, Array]) -> None:
    found = stored(encode_state(state), state_specs(state))
    assert found.checked_root() == state_tree(state).root
    assert encode_state(found) == encode_state(state)
    assert len(found) == len(state)
    assert all(found[name].shape == state[name].shape for name in state)


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.0])
def test_a_stored_state_has_canonical_numbers(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the last part of a tensor, too."""
    monkeypatch.setattr("pol.state.stored.CHUNKS_AT_ONCE", 1)
    state = {"a": np.ones(40_000, np.float32)}
    data = bytearray(encode_state(state))
    data[-4:] = np.float32(value).tobytes()
    with pytest.raises(StateError) as caught:
        stored(bytes(data), state_specs(state)).checked_root()
    assert caught.value.field == "a"


def test_a_stored_state_outlives_its_tensors_and_closes_its_file() -> None:
    state = example()
    found = stored(encode_state(state), state_specs(state))
    file, kept = found._file, found["a.weight"]
    del found
    assert file.closed
    np.testing.assert_array_equal(kept, state["a.weight"])
    assert not kept.flags.writeable


def test_layout() -> None:
    data = encode_state({"b": np.array([1, -1], np.int64), "a": np.array([1.0, -0.0], np.float32)})
    header = b'[["a","f32",[2]],["b","i64",[2]]]'
    assert data == len(header).to_bytes(4, "big") + header + (
        bytes.fromhex("0000803f00000000") + (1).to_bytes(8, "little") + b"\xff" * 8
    )


@settings(max_examples=100, deadline=None)
@given(STATES)
def test_decodes_to_the_same_state(state: dict[str, Array]) -> None:
    data, specs = encode_state(state), state_specs(state)
    decoded = decode_state(data, specs)
    assert list(decoded) == sorted(state)
    for name, array in decoded.items():
        assert np.array_equal(array, state[name])
        assert array.dtype == state[name].dtype
    assert encode_state(decoded) == data
    assert len(data) == encoded_size(specs)
    read = from_file(data, specs)
    assert list(read) == sorted(state)
    assert encode_state(read) == data
    for array in read.values():
        assert array.flags.owndata
        assert not array.flags.writeable


@settings(max_examples=100, deadline=None)
@given(STATES, st.randoms(use_true_random=False))
def test_order_and_layout_in_memory_do_not_matter(state: dict[str, Array], random: Any) -> None:
    names = list(state)
    random.shuffle(names)
    turned = {name: state[name].copy(order="F") for name in names}
    assert encode_state(turned) == encode_state(state)


@settings(max_examples=50, deadline=None)
@given(STATES)
def test_chunks_are_the_leaves(state: dict[str, Array]) -> None:
    chunks, tree = chunks_of(encode_state(state)), state_tree(state)
    assert tuple(chunk_leaf(chunk) for chunk in chunks) == tree.leaves
    assert tree.count == len(chunks) == chunk_count(state_specs(state))


def test_every_tensor_starts_a_chunk() -> None:
    state = example()
    chunks = chunks_of(encode_state(state))
    assert b"".join(chunks) == encode_state(state)
    full, rest = divmod(120_000, CHUNK_SIZE)
    assert [len(chunk) for chunk in chunks[1:]] == [3, *[CHUNK_SIZE] * full, rest, 8]
    assert chunk_leaf(chunks[1]) == merkle_leaf("assay/state/chunk", b"\x01\x00\x01")


def test_paths() -> None:
    tree = state_tree(example())
    for index in range(tree.count):
        assert verify_path(tree.leaves[index], index, tree.count, tree.path(index), tree.root)


def test_empty_state_has_a_header() -> None:
    assert encode_state({}) == b"\x00\x00\x00\x02[]"
    assert state_tree({}).count == 1
    assert decode_state(b"\x00\x00\x00\x02[]", ()) == {}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite_is_refused(value: float) -> None:
    state = {"a": np.zeros(2, np.float32), "b": np.array([1.0, value], np.float32)}
    for function in (encode_state, state_tree):
        with pytest.raises(NotFinite) as caught:
            function(state)
        assert caught.value.field == "b"
    data = bytearray(encode_state({**state, "b": np.ones(2, np.float32)}))
    data[-4:] = np.array(value, "<f4").tobytes()
    with pytest.raises(NotFinite):
        decode_state(bytes(data), state_specs(state))


def test_zeros_of_either_sign_are_one_state() -> None:
    plus, minus = {"a": np.zeros(3, np.float32)}, {"a": -np.zeros(3, np.float32)}
    assert encode_state(plus) == encode_state(minus)
    assert state_tree(plus).root == state_tree(minus).root
    data = bytearray(encode_state(plus))
    data[-1] = 0x80
    with pytest.raises(StateError, match=r"-0\.0"):
        decode_state(bytes(data), state_specs(plus))


def test_dtypes_of_a_job_only() -> None:
    for dtype in (np.float64, np.float16, np.int32, np.uint8, np.complex64):
        with pytest.raises(StateError, match="dtype"):
            encode_state({"a": np.zeros(2, dtype)})


def test_tensors_whose_leaves_are_known_are_not_hashed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = example()
    tree = state_tree(state)
    hashed: list[int] = []

    def counting(chunk: bytes) -> bytes:
        hashed.append(len(chunk))
        return chunk_leaf(chunk)

    monkeypatch.setattr(canonical, "chunk_leaf", counting)
    changed = {**state, "a.weight": state["a.weight"] + 1}
    known = {name: leaves for name, leaves in tree.tensors.items() if name != "a.weight"}
    after = state_tree(changed, known)
    assert len(hashed) == len(tree.tensors["a.weight"])  # the header is known too
    hashed.clear()
    assert after.leaves == state_tree(changed).leaves
    assert len(hashed) == tree.count - 1


@settings(max_examples=50, deadline=None)
@given(STATES)
def test_known_leaves_never_change_the_result(state: dict[str, Array]) -> None:
    tree = state_tree(state)
    half = {name: tree.tensors[name] for name in sorted(state)[::2]}
    assert state_tree(state, half).leaves == tree.leaves


@settings(max_examples=50, deadline=None)
@given(STATES)
def test_each_state_has_its_own_header(state: dict[str, Array]) -> None:
    """Also beside states that differ in one name, dtype or shape only."""
    name = sorted(state)[0] if state else "a"
    others: list[dict[str, Array]] = [
        {**state, name: np.zeros((3, 1), np.float32)},
        {**state, name: np.zeros(3, np.int64)},
        {**state, name: np.zeros((1, 3), np.float32)},
        {**state, f"{name}_": np.zeros(3, np.int64)},
    ]
    for other in (state, *others, state):
        assert state_tree(other).leaves[0] == chunk_leaf(header_chunk(state_specs(other)))


@settings(max_examples=50, deadline=None)
@given(STATES)
def test_tensors_in_canonical_form_have_the_same_leaves(state: dict[str, Array]) -> None:
    frozen = freeze(state)
    assert state_tree(frozen, canonical=frozen).leaves == state_tree(state).leaves


def test_other_tensors_are_checked() -> None:
    state = {"a": np.zeros(3, np.float32), "b": np.array([np.nan], np.float32)}
    with pytest.raises(NotFinite, match="b"):
        state_tree(state, canonical={"a"})


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_bytes_are_refused_or_the_same(data: st.DataObject) -> None:
    state = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([True, False])}
    encoded = bytearray(encode_state(state))
    for _ in range(data.draw(st.integers(1, 3))):
        kind = data.draw(st.sampled_from(["flip", "cut", "add"]))
        offset = data.draw(st.integers(0, len(encoded) - 1))
        if kind == "flip":
            encoded[offset] ^= data.draw(st.integers(1, 255))
        elif kind == "cut":
            del encoded[offset]
        else:
            encoded.insert(offset, data.draw(st.integers(0, 255)))
    damaged = bytes(encoded)
    specs = state_specs(state)
    for decode in (
        lambda raw: decode_state(raw, specs),
        lambda raw: from_file(raw, specs),
        lambda raw: checked(stored(raw, specs)),
        chunks_of,
    ):
        try:
            decoded = decode(damaged)
        except StateError:
            continue
        again = encode_state(decoded) if isinstance(decoded, dict) else b"".join(decoded)
        assert again == damaged  # one state, one encoding


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(StateError):
        decode_state(raw, (TensorSpec("a", "f32", (2,)),))
    with pytest.raises(StateError):
        from_file(raw, (TensorSpec("a", "f32", (2,)),))
    with pytest.raises(StateError):
        chunks_of(len(raw).to_bytes(4, "big") + raw)


@pytest.mark.parametrize(
    "text",
    [
        b'[["b","f32",[1]],["a","f32",[1]]]',
        b'[["a","f32",[1]],["a","f32",[1]]]',
        b'[["a","f32",[1]] ]',
        b'[["a","f64",[1]]]',
        b'[["a","f32",[-1]]]',
        b'[["a","f32",[true]]]',
        b'[["a","f32",[1.0]]]',
        b'[["a","f32",[1,1,1,1,1,1,1,1,1]]]',
        b'[["\\ud800","f32",[1]]]',
        b'[["a","f32"]]',
        b"[" * 5000,
        b"{}",
        b"1",
        '[["é","f32",[1]]]'.encode(),
    ],
)
def test_headers_that_are_not_canonical(text: bytes) -> None:
    with pytest.raises(StateError) as caught:
        chunks_of(len(text).to_bytes(4, "big") + text + b"\x00" * 4)
    assert caught.value.field == "header"


def test_other_tensors_than_asked_for() -> None:
    data = encode_state({"a": np.zeros(2, np.float32)})
    for spec in (
        TensorSpec("b", "f32", (2,)),
        TensorSpec("a", "i64", (1,)),
        TensorSpec("a", "f32", (1, 2)),
    ):
        with pytest.raises(StateError, match="not those of the job"):
            decode_state(data, (spec,))
    with pytest.raises(StateError, match="bytes"):
        decode_state(data + b"\x00", (TensorSpec("a", "f32", (2,)),))


def test_frozen_states_cannot_be_written() -> None:
    state: dict[str, Array] = {"a": np.array([1.0, -0.0], np.float32)}
    state["b"] = np.arange(4).reshape(2, 2).T
    frozen = freeze(state)
    state["a"][0] = 5.0
    assert frozen["a"].tolist() == [1.0, 0.0]
    for array in frozen.values():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
