"""Strict safetensors: what is refused, and that it is refused before it costs anything."""

import io
import json
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from pol.errors import NotFinite, StateError
from pol.limits import Limits
from pol.state.arrays import Array
from pol.state.tensors import dump_safetensors, load_safetensors
from pol.values import TensorSpec

STATE: dict[str, Array] = {
    "b/x": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a": np.array(-3, np.int64),
    "c": np.array([True, False]),
    "d": np.zeros((0, 2), np.float32),
}


def file(header: object, data: bytes = b"", size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if size is None else size).to_bytes(8, "little") + text + data


def entry(dtype: object = "F32", shape: object = (1,), offsets: object = (0, 4)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_the_library_reads_what_we_write() -> None:
    found = safetensors.numpy.load(dump_safetensors(STATE))
    assert set(found) == set(STATE)
    for name, array in STATE.items():
        assert np.array_equal(found[name], array)
        assert found[name].dtype == array.dtype


def test_we_read_what_the_library_writes(tmp_path: Path) -> None:
    data = safetensors.numpy.save(STATE, metadata={"made": "elsewhere"})
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    for source in (data, path):
        found = load_safetensors(source)
        assert list(found) == sorted(STATE)
        for name, array in STATE.items():
            assert np.array_equal(found[name], array)
            assert not found[name].flags.writeable


def test_equal_states_give_equal_files() -> None:
    turned = {name: STATE[name].copy(order="F") for name in reversed(STATE)}
    assert dump_safetensors(turned) == dump_safetensors(STATE)
    minus = {"a": np.array([-0.0], np.float32)}
    assert dump_safetensors(minus) == dump_safetensors({"a": np.array([0.0], np.float32)})
    assert len(dump_safetensors(STATE)) % 8 == (24 + 8 + 2) % 8


@pytest.mark.parametrize(
    ("data", "where", "reason"),
    [
        (b"", "header", "too short"),
        (b"\x01\x00", "header", "too short"),
        (file(b"{}", size=100), "header", "too short"),
        (file(b"{}", size=100 * 2**20), "header", "104857600 bytes"),
        (file(b"{}", size=2**64 - 1), "header", "bytes, more than"),
        (file(b"[]"), "header", "not a safetensors header"),
        (file(b"{"), "header", "not JSON"),
        (file(b'{"a":\xff}'), "header", "not JSON"),
        (file(b'{"a":' + b"[" * 20000), "header", "not JSON"),
        (file(b'{"a":{},"a":{}}'), "header", "twice"),
        (file({"__metadata__": {"a": 1}}), "header", "__metadata__"),
        (file({"a": 1}), "a", "not consist of dtype, shape"),
        (file({"a": {**entry(), "more": 1}}, bytes(4)), "a", "not consist of dtype, shape"),
        (file({"a": entry("F64", offsets=(0, 8))}, bytes(8)), "a", "dtype"),
        (file({"a": entry("BF16", offsets=(0, 2))}, bytes(2)), "a", "dtype"),
        (file({"a": entry(dtype=["F32"])}, bytes(4)), "a", "dtype"),
        (file({"a": entry(shape=3)}, bytes(4)), "a", "shape"),
        (file({"a": entry(shape=[-1])}, bytes(4)), "a", "0..2147483647"),
        (file({"a": entry(shape=[True])}, bytes(4)), "a", "0..2147483647"),
        (file({"a": entry(shape=[1] * 9)}, bytes(4)), "a", "at most 8"),
        (file({"a": entry(shape=[2**20, 2**20])}, bytes(4)), "a", "elements"),
        (file({"a": entry(shape=[2])}, bytes(4)), "a", "do not have the size"),
        (file({"a": entry(offsets=[4, 0])}, bytes(4)), "a", "do not have the size"),
        (file({"a": entry(offsets=[-4, 0])}, bytes(4)), "a", "do not have the size"),
        (file({"a": entry(offsets=[0.0, 4.0])}, bytes(4)), "a", "integers"),
        (file({"a": entry(offsets=[0])}, bytes(4)), "a", "integers"),
        (file({"a": entry(), "b": entry()}, bytes(4)), "b", "overlap"),
        (file({"a": entry(offsets=[4, 8])}, bytes(8)), "a", "hole"),
        (file({"a": entry()}, bytes(5)), "data", "5"),
        (file({"a": entry()}, bytes(3)), "data", "3"),
        (file({"a": entry("BOOL", offsets=(0, 1))}, b"\x02"), "a", "neither 0 nor 1"),
        (file({"x" * 300: entry()}, bytes(4)), "header", "256"),
        (pickle.dumps({"a": [1.0] * 100}), "header", "bytes, more than"),
    ],
)
def test_refusals(data: bytes, where: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    for source in (data, path):
        with pytest.raises(StateError) as caught:
            load_safetensors(source)
        assert caught.value.field == where
        assert reason in caught.value.reason


def test_zip_is_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(10_000_000))
    with pytest.raises(StateError):
        load_safetensors(buffer.getvalue())


def test_100_000_tensors_are_refused() -> None:
    names = {f"{index}": entry("BOOL", (), (index, index + 1)) for index in range(100_000)}
    with pytest.raises(StateError, match="bytes, more than") as caught:
        load_safetensors(file(names, bytes(100_000)))
    assert caught.value.field == "header"
    with pytest.raises(StateError, match="brackets, commas and colons, more than 131072"):
        load_safetensors(file(names, bytes(100_000)), limits=Limits(header_size=2**30))
    few = dict(list(names.items())[:5_000])
    with pytest.raises(StateError, match="5000 tensors, more than 4096"):
        load_safetensors(file(few, bytes(5_000)))


def test_a_large_header_on_disk_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    with path.open("wb") as output:
        output.write((100 * 2**20).to_bytes(8, "little") + b"{")
        output.truncate(100 * 2**20 + 8)  # sparse: nothing is written
    tracemalloc.start()
    with pytest.raises(StateError, match="104857600 bytes"):
        load_safetensors(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite(value: float) -> None:
    with pytest.raises(NotFinite) as caught:
        load_safetensors(file({"a": entry()}, np.array(value, "<f4").tobytes()))
    assert caught.value.field == "a"
    with pytest.raises(NotFinite):
        dump_safetensors({"a": np.array([value], np.float32)})


@pytest.mark.parametrize(
    ("specs", "where"),
    [
        ([TensorSpec("a", "f32", (2,))], "a"),
        ([TensorSpec("a", "i64", (1,))], "a"),
        ([TensorSpec("a", "f32", (1,)), TensorSpec("b", "f32", ())], "b"),
        ([], "a"),
    ],
)
def test_other_tensors_than_asked_for(specs: list[TensorSpec], where: str) -> None:
    with pytest.raises(StateError) as caught:
        load_safetensors(file({"a": entry()}, bytes(4)), specs)
    assert caught.value.field == where


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_files_are_refused_or_read_as_the_library_reads_them(data: st.DataObject) -> None:
    damaged = bytearray(dump_safetensors(STATE))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = load_safetensors(bytes(damaged))
    except StateError:
        return
    assert dump_safetensors(found) == dump_safetensors(safetensors.numpy.load(bytes(damaged)))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_are_refused(data: bytes) -> None:
    for raw in (data, len(data).to_bytes(8, "little") + data, file(b"{" + data)):
        try:
            assert load_safetensors(raw) == {}  # the one file that chance finds: no tensors
        except StateError:
            continue
        assert raw[8:].strip() == b"{}"
