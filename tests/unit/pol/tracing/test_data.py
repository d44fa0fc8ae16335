"""Columns from whatever people keep data in."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from pol.errors import JobError
from pol.tracing import data
from pol.tracing.build import build_job
from pol.tracing.data import Scratch, read_columns
from pol.tracing.text import text_rows

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


class Table:
    """What a data set of Hugging Face has of methods."""

    column_names = ("y", "x")

    def __init__(self, **columns: Any) -> None:
        self._columns, self._form = columns, ""

    def with_format(self, form: str) -> "Table":
        self._form = form
        return self

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, rows: slice) -> dict[str, Any]:
        assert self._form == "numpy"
        return {name: column[rows] for name, column in self._columns.items()}


def _saved(folder: Path) -> Path:
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", Y)
    np.savez(folder / "both.npz", x=X, y=Y)
    pairs = np.zeros(6, [("x", np.float64, 2), ("y", np.uint8)])
    pairs["x"], pairs["y"] = X, Y
    np.save(folder / "pairs.npy", pairs)
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
        lambda f: TensorDataset(torch.tensor(X), torch.tensor(Y)),
        lambda f: Items([(torch.tensor(x), int(y)) for x, y in zip(X, Y, strict=True)]),
        lambda f: Items([{"y": y, "x": list(x)} for x, y in zip(X, Y, strict=True)]),
        lambda f: Table(x=X, y=Y),
    ],
)
@pytest.mark.parametrize("large", [False, True])
def test_all_of_these_are_the_same_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Any, large: bool
) -> None:
    if large:
        monkeypatch.setattr(data, "_IN_MEMORY", 0)
        monkeypatch.setattr(data, "_AT_ONCE", 20)
        monkeypatch.setattr(data, "_ITEMS_AT_ONCE", 4)
    _are_x_and_y(_read(source(_saved(tmp_path)), tmp_path))
    assert not list((tmp_path / "out").glob("*")), "what was written on the way is left"


def test_what_is_converted_is_said_and_what_fits_is_not_copied(tmp_path: Path) -> None:
    said: list[str] = []
    _read({"x": X, "y": Y, "z": [1.0] * 6, "b": Y > 2}, tmp_path, said)
    assert said == ["train.x: float64 becomes float32", "train.y: uint8 becomes int64"]
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
        (DataLoader(Items([1])), r"train: is a DataLoader.*loader\.dataset"),
        (Endless(), "train: has no length"),
        ({"train": Table(x=X)}, r'several splits.*data\["train"\]'),
        (Table(x=np.array(["a", "b"])), r'train\.x: is text.*remove_columns\("x"\)'),
        (Items([(1, 2, 3)]), "3 parts without names"),
        (Items([Picture()]), r"train\.x: is an image.*ToTensor"),
        (Items([[1.0, [2]], [1.0, [2, 3]]]), r"train\.y: row 1.*shape \[2\].*pad"),
        (Items([{"x": 1}, {"z": 1}]), "row 1 has other columns"),
        (Items([(1, 2), (1.5, 2)]), r"train\.x: row 1.*float64"),
        ({"x": [[1], [1, 2]]}, r"train\.x: NumPy cannot.*padded"),
        ({"x": np.array([2**63], np.uint64)}, r"train\.x: .*2\^63"),
        ({"x": ["a"]}, r"train\.x: is <U1"),
        ({"x": "missing.npy"}, r"train\.x: there is no file"),
        ("missing.npz", "train: there is no file"),
        (__file__, "no kind of file.*npz"),
        (3, "train: is a int"),
    ],
)
def test_what_is_no_data_is_refused_with_a_remedy(
    tmp_path: Path, source: object, reason: str
) -> None:
    with pytest.raises(JobError, match=reason):
        _read(source, tmp_path)


def test_parquet_is_read_or_the_missing_package_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"")
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        with pytest.raises(JobError, match=r"needs the package pyarrow.*np\.savez"):
            _read(path, tmp_path)
        return
    table = import_module("pyarrow").table({"x": X.tolist(), "y": Y})
    parquet.write_table(table, path, row_group_size=4)
    _are_x_and_y(_read(path, tmp_path))


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
