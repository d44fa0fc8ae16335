"""Columns from whatever people keep data in."""

import json
import pickle
import shutil
import struct
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from pol.capture.author.text import text_rows
from pol.capture.build import build_job
from pol.capture.data import columns, files
from pol.capture.data import sources as data
from pol.capture.data.columns import Scratch
from pol.capture.data.sources import read_columns
from pol.errors import JobError

X = np.arange(12, dtype=np.float64).reshape(6, 2) / 8
Y = np.arange(6, dtype=np.uint8)


def _read(source: object, folder: Path, said: list[str] | None = None) -> dict[str, np.ndarray]:
    with Scratch(folder / "out") as scratch:
        found = read_columns(source, "train", scratch, (said if said is not None else []).append)
        return {name: np.array(column) for name, column in found.items()}


def _are_x_and_y(columns: dict[str, np.ndarray]) -> None:
    assert list(columns) == ["x", "y"]
    assert [str(columns[name].dtype) for name in "xy"] == ["float32", "int64"]
    np.testing.assert_array_equal(columns["x"], X.astype(np.float32))
    np.testing.assert_array_equal(columns["y"], Y)


class Items(Dataset[Any]):
    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


def _hugging_face(**columns: Any) -> Any:
    """Return a data set of the library itself."""
    dataset = import_module("datasets").Dataset
    return dataset.from_dict({name: np.asarray(column) for name, column in columns.items()})


def _saved(folder: Path) -> Path:
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", Y)
    np.savez_compressed(folder / "both.npz", x=np.asfortranarray(X), y=Y)
    save_file({"x": torch.tensor(X).bfloat16(), "y": torch.tensor(Y)}, folder / "both.safetensors")
    pairs = np.zeros(6, [("x", np.float64, 2), ("y", np.uint8)])
    pairs["x"], pairs["y"] = X, Y
    np.save(folder / "pairs.npy", pairs)
    table = import_module("pyarrow").table({"y": Y, "x": X.tolist()})
    import_module("pyarrow.parquet").write_table(table, folder / "rows.parquet", row_group_size=4)
    return folder


@pytest.mark.parametrize(
    "source",
    [
        lambda f: {"y": Y, "x": X},
        lambda f: {"y": Y.tolist(), "x": torch.tensor(X).bfloat16()},
        lambda f: {"y": np.load(f / "y.npy", mmap_mode="r"), "x": X.astype(np.float16)},
        lambda f: {"y": str(f / "y.npy"), "x": f / "x.npy"},
        lambda f: str(f / "both.npz"),
        lambda f: f / "pairs.npy",
        lambda f: f / "both.safetensors",
        lambda f: TensorDataset(torch.tensor(X), torch.tensor(Y)),
        lambda f: Items([(torch.tensor(x), int(y)) for x, y in zip(X, Y, strict=True)]),
        lambda f: Items([{"y": y, "x": list(x)} for x, y in zip(X, Y, strict=True)]),
        lambda f: _hugging_face(y=Y, x=X),
        lambda f: f / "rows.parquet",
    ],
)
@pytest.mark.parametrize("large", [False, True])
def test_all_of_these_are_the_same_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Any, large: bool
) -> None:
    if large:
        monkeypatch.setattr(columns, "_IN_MEMORY", 0)
        monkeypatch.setattr(columns, "_AT_ONCE", 20)
        for module in (data, files):
            monkeypatch.setattr(module, "AT_ONCE", 4)
    _are_x_and_y(_read(source(_saved(tmp_path)), tmp_path))
    assert not list((tmp_path / "out").glob("*")), "what was written on the way is left"


def test_what_is_converted_is_said_and_what_fits_is_not_copied(tmp_path: Path) -> None:
    said: list[str] = []
    _read({"x": X, "y": Y, "z": [1.0] * 6, "b": Y > 2}, tmp_path, said)
    assert said == ["train.x: float64 becomes float32", "train.y: uint8 becomes int64"]
    said.clear()
    _read({f"column {number}": X for number in range(13)}, tmp_path, said)
    assert said == ["train: float64 becomes float32 in 13 columns, column 0 to column 12"]
    kept = np.lib.format.open_memmap(tmp_path / "k.npy", "w+", np.float32, (6, 2))
    with Scratch(tmp_path) as scratch:
        assert np.shares_memory(read_columns({"k": kept}, "train", scratch, said.append)["k"], kept)


class Endless(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(())


class Picture:
    def getbands(self) -> tuple[str, ...]:
        return ("R",)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (Endless(), "train: has no length"),
        ({"a": np.ma.masked_equal([1, 2], 2)}, r"train\.a: has masked elements.*filled"),
        (Items([(1, 2, 3)]), "3 parts without names"),
        (Items([Picture()]), r"train\.x: is an image.*ToTensor"),
        (Items([[1.0, [2]], [1.0, [2, 3]]]), r"train\.y: row 1.*shape \[2\].*pad"),
        (Items([{"x": 1}, {"z": 1}]), "row 1 has other columns"),
        (Items([(1, 2), (1.5, 2)]), r"train\.x: row 1.*float64"),
        ({"x": [[1], [1, 2]]}, r"train\.x: row 1 has the shape \[2\], but row 0 has \[1\].*pad or crop"),
        ({"x": np.array([2**63], np.uint64)}, r"train\.x: .*2\^63"),
        ({"x": ["a"]}, r"train\.x: holds text \('a'\).*map\(\{'a': 0\}\)"),
        ({"x": "missing.npy"}, r"train\.x: there is no file"),
        ("missing.npz", "train: there is no file"),
        (__file__, "not a kind of file.*npz"),
        (
            Path(__file__).parents[4] / ".ci",
            r"does not contain a folder for each class.*cat/1\.png",
        ),
        ({"y": [0.0, 1.0, np.nan]}, r"train\.y: row 2 holds NaN"),
        ({"x": np.array([1.0, 1e300])}, r"train\.x: row 1 holds .*too large for float32"),
        (Items([]), "train: has no rows"),
        ({"a\nb": X}, r"its name is empty or has characters that cannot be printed; rename"),
        ({"": X}, r"its name is empty or has characters that cannot be printed; rename"),
        ({"a b" * 40: X}, r"its name has more than 154 characters in a job; give .* shorter"),
        (3, "train: is a int"),
    ],
)
def test_what_is_no_data_is_refused_with_a_remedy(tmp_path: Path, source: object, reason: str) -> None:
    with pytest.raises(JobError, match=reason):
        _read(source, tmp_path)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda: {"train": _hugging_face(x=X)}, r'several splits.*data\["train"\]'),
        (lambda: _hugging_face(x=["a", "b"]), r'train\.x: holds text.*remove_columns\("x"\)'),
        (lambda: _hugging_face(x=X).to_iterable_dataset(), "has no length.*without streaming"),
        (lambda: _hugging_face(x=[1e300, 2.0]), r"train\.x: row 0 holds .*too large for float32"),
        (lambda: _hugging_face(x=np.array([1, 2**63], np.uint64)), r"train\.x: .*2\^63 or more"),
        (lambda: _hugging_face(x=[]), "train: has no rows"),
        (
            lambda: import_module("datasets").Dataset.from_dict({"x": [[1], [1, 2]]}),
            r"train\.x: row 1 has the shape \[2\], but row 0 has \[1\]; pad and cut the rows.*max_length",
        ),
        (
            lambda: import_module("datasets").Dataset.from_dict({"x": [1, None]}),
            "train.x: row 1 holds NaN",
        ),
    ],
)
def test_a_data_set_of_hugging_face_that_is_no_data_is_refused_with_a_remedy(
    tmp_path: Path, made: Callable[[], object], reason: str
) -> None:
    with pytest.raises(JobError, match=reason):
        _read(made(), tmp_path)


def test_a_transform_of_a_data_set_is_applied_and_columns_that_are_left_out_stay_out(
    tmp_path: Path,
) -> None:
    rows = _hugging_face(x=X, y=Y)
    said: list[str] = []
    doubled = rows.with_transform(lambda batch: {"x": torch.tensor(batch["x"]) * 2})
    found = _read(doubled, tmp_path, said)
    np.testing.assert_array_equal(found["x"], X.astype(np.float32) * 2)
    assert list(found) == ["x"]
    assert "each read once (random transforms are drawn only once" in said[-1]
    assert list(_read(rows.with_format("torch", columns=["y"]), tmp_path)) == ["y"]
    assert list(_read(rows.with_format("torch", ["y"], True), tmp_path)) == ["x", "y"]


def test_pictures_of_a_data_set_are_read_as_their_numbers(tmp_path: Path) -> None:
    pictures = np.arange(6 * 4, dtype=np.uint8).reshape(6, 2, 2)
    image, library = import_module("PIL.Image"), import_module("datasets")
    rows = library.Dataset.from_dict({"x": [image.fromarray(picture) for picture in pictures]})
    said: list[str] = []
    np.testing.assert_array_equal(_read(rows, tmp_path, said)["x"], pictures)
    assert said == ["train.x: uint8 becomes int64"]


def test_what_a_data_set_has_converted_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    _are_x_and_y(_read(_hugging_face(x=X, y=Y), tmp_path, said))
    assert sorted(said) == ["train.x: float64 becomes float32", "train.y: uint8 becomes int64"]


def test_a_parquet_of_lists_keeps_its_dimensions(tmp_path: Path) -> None:
    arrow, cube = import_module("pyarrow"), np.arange(24.0).reshape(4, 3, 2)
    fixed = arrow.FixedSizeListArray.from_arrays(arrow.array(cube.reshape(-1)), 6)
    table = arrow.table({"x": cube.tolist(), "y": fixed, "z": [True, False] * 2})
    path = tmp_path / "rows.parquet"
    import_module("pyarrow.parquet").write_table(table, path)
    found = _read(path, tmp_path)
    np.testing.assert_array_equal(found["x"], cube)
    np.testing.assert_array_equal(found["y"], cube.reshape(4, 6))
    assert found["z"].dtype == np.bool_


def test_a_parquet_with_holes_is_refused(tmp_path: Path) -> None:
    arrow, path = import_module("pyarrow"), tmp_path / "rows.parquet"
    for rows, reason in (
        ([1.0, None], "train.x"),
        ([[1.0], [1.0, 2.0]], r"row 1 has the shape \[2\]"),
        (["a", "b"], r"train\.x: holds text \('a', 'b'\)"),
    ):
        import_module("pyarrow.parquet").write_table(arrow.table({"x": rows}), path)
        with pytest.raises(JobError, match=reason):
            _read(path, tmp_path)


def test_without_pyarrow_a_parquet_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _saved(tmp_path) / "rows.parquet"
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(JobError, match=r"needs the package pyarrow.*assay\[data\].*np\.savez"):
        _read(path, tmp_path)


def _zip(path: Path, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def _note(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "no array")


def _header(shape: str, descr: str = "<f8") -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def _safetensors(path: Path, shape: list[int], stop: int) -> None:
    entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, stop]}
    text = json.dumps({"x": entry}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(16))


def _cut(path: Path, keep: int) -> None:
    path.write_bytes(path.read_bytes()[:keep])


DAMAGED: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "an empty archive": ("a.npz", lambda p: p.write_bytes(b""), "cut off"),
    "an archive that is cut off": ("both.npz", lambda p: _cut(p, 200), "cut off"),
    "an archive of objects": (
        "a.npz",
        lambda p: np.savez(p, allow_pickle=True, x=np.array([{}], object)),
        "Python objects.*never unpickled",
    ),
    "an archive of texts": ("a.npz", _note, "is not an array"),
    "an archive with a bomb": ("a.npz", lambda p: _zip(p, x=_header("(2**60,)")), "cut off"),
    "an archive with less than its shape": (
        "a.npz",
        lambda p: _zip(p, x=_header("(1000000000000, 9)") + bytes(16)),
        "the size of .* does not fit its shape",
    ),
    "an archive with a huge header": (
        "a.npz",
        lambda p: _zip(p, x=_header("(" + "1, " * 20_000 + ")")),
        "cut off",
    ),
    "an array of objects": (
        "a.npy",
        lambda p: np.save(p, np.array([{}], object), allow_pickle=True),
        "cannot be read as npy.*Python objects",
    ),
    "an array that is cut off": ("x.npy", lambda p: _cut(p, 150), "cut off.*mmap"),
    "an array that is a pickle": (
        "a.npy",
        lambda p: p.write_bytes(pickle.dumps([1])),
        "allow_pickle|magic",
    ),
    "tensors that are cut off": ("both.safetensors", lambda p: _cut(p, 60), "cut off"),
    "tensors of a wrong shape": ("a.safetensors", lambda p: _safetensors(p, [5], 16), "cut off"),
    "tensors of a huge shape": ("a.safetensors", lambda p: _safetensors(p, [2**62, 4], 16), "cut"),
    "a folder": ("a.npz", lambda p: p.mkdir(), "is a folder.*the path of a file in it"),
    "what may not be read": ("a.npz/b.npz", lambda p: p.parent.touch(), "cannot be read: Not a"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_file_is_told_in_one_sentence(tmp_path: Path, case: str) -> None:
    name, damage, reason = DAMAGED[case]
    path = _saved(tmp_path) / name
    damage(path)
    with pytest.raises(JobError, match=reason) as caught:
        _read(path, tmp_path)
    assert caught.value.field == "train"
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


def test_an_archive_that_is_larger_than_a_job_is_refused(tmp_path: Path) -> None:
    """Before any of it is written."""
    with Scratch(tmp_path) as scratch, pytest.raises(JobError, match="8,589,934,592 bytes of data"):
        scratch.array(np.dtype(np.float32), (2**29, 5))


def test_an_archive_that_is_larger_than_the_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written through a map of memory, a full disk would end the process."""
    monkeypatch.setattr(columns, "_IN_MEMORY", 0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=95))
    with pytest.raises(JobError, match="a column has 96 bytes, but only 95 are free"):
        _read(_saved(tmp_path) / "both.npz", tmp_path)


def test_an_archive_is_unpacked_with_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_IN_MEMORY", 0)
    np.savez_compressed(tmp_path / "zeros.npz", x=np.zeros((4096, 2048), np.float32))
    with Scratch(tmp_path) as scratch:
        tracemalloc.start()
        try:
            found = read_columns(tmp_path / "zeros.npz", "train", scratch, lambda _: None)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert found["x"].nbytes == 2**25
        assert most < 2**24


def test_a_job_file_imports_what_lies_beside_it(tmp_path: Path) -> None:
    """Each folder its own module of the same name, and nothing of it stays."""
    text = "import helper_beside\ndef job():\n    return helper_beside.made()\n"
    before = list(sys.path)
    for name in ("One", "Two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "job.py").write_text(text)
        helper = f"class {name}:\n    pass\n\n\ndef made():\n    return {name}()\n"
        (folder / "helper_beside.py").write_text(helper)
        with pytest.raises(JobError, match=f"returned {name}"):
            build_job(folder / "job.py", tmp_path / "out")
    assert "helper_beside" not in sys.modules
    assert sys.path == before


def test_a_tokenizer_may_be_pinned_by_its_hash(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{}")
    (tmp_path / "a.txt").write_text("abcabcabc")
    with pytest.raises(JobError, match=r"tokenizer: .*has the SHA-256 44136fa"):
        text_rows(tmp_path / "a.txt", 2, tmp_path / "t.json", "00" * 32)
