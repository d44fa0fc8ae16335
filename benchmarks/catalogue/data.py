"""Data as people keep it: the columns of a job from each kind of source."""

import json
from atexit import register
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from assay import JobSpec, text_rows
from benchmarks.catalogue.rows import CLASSES, VECTORS, Make, Row, job, next_token


class Items(Dataset[dict[str, torch.Tensor]]):
    """A data set of torch with a row at a time."""

    def __len__(self) -> int:
        return len(VECTORS()["y"])

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {name: torch.as_tensor(column[index]) for name, column in VECTORS().items()}


@cache
def _folder() -> Path:
    """Return a folder with the files of the rows; it is gone when the process ends."""
    made = TemporaryDirectory(prefix="assay-catalogue-")
    register(made.cleanup)
    folder, columns = Path(made.name), VECTORS()
    np.savez(folder / "rows.npz", x=columns["x"], y=columns["y"])
    for name, column in columns.items():
        np.save(folder / f"{name}.npy", column)
    tensors = {name: torch.from_numpy(column) for name, column in columns.items()}
    import_module("safetensors.torch").save_file(tensors, folder / "rows.safetensors")
    (folder / "book.txt").write_text("so it went on and it was so " * 40, encoding="utf-8")
    words = ["so", "it", "went", "on", "and", "was"]
    tokenizer = {
        "version": "1.0",
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": dict(zip(words, range(6), strict=True)), "unk_token": "so"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    return folder


def _from(source: Callable[[], Any]) -> Make:
    made = job(lambda: nn.Linear(16, CLASSES), VECTORS)

    def make() -> JobSpec:
        found = source()
        return replace(made(), train=found, holdout=found)

    return make


def _parquet() -> Path:
    path = _folder() / "rows.parquet"
    columns = {name: column.tolist() for name, column in VECTORS().items()}
    import_module("pyarrow.parquet").write_table(import_module("pyarrow").table(columns), path)
    return path


def _mapped() -> dict[str, Any]:
    return {name: np.load(_folder() / f"{name}.npy", mmap_mode="r") for name in VECTORS()}


def _other_types() -> dict[str, Any]:
    columns = VECTORS()
    return {"x": columns["x"].astype(np.float64), "y": columns["y"].astype(np.uint8)}


def _text(tokenizer: str | None) -> Make:
    def make() -> JobSpec:
        named = None if tokenizer is None else _folder() / tokenizer
        rows = text_rows(_folder() / "book.txt", 12, named)
        model = nn.Sequential(nn.Embedding(rows.words, 8), nn.Linear(8, rows.words))
        return job(lambda: model, lambda: {"x": rows.train["x"]}, next_token)()

    return make


DATA: tuple[Row, ...] = (
    ("data: TensorDataset", _from(lambda: TensorDataset(*map(torch.from_numpy, VECTORS().values())))),
    ("data: Dataset, a row at a time", _from(Items)),
    ("data: Hugging Face datasets", _from(lambda: import_module("datasets").Dataset.from_dict(VECTORS()))),
    ("data: .npz", _from(lambda: _folder() / "rows.npz")),
    ("data: .safetensors", _from(lambda: _folder() / "rows.safetensors")),
    ("data: Parquet", _from(_parquet)),
    ("data: memory-mapped .npy", _from(_mapped)),
    ("data: float64 and uint8", _from(_other_types)),
    ("data: text by characters", _text(None)),
    ("data: text, tokenizer file", _text("tokenizer.json")),
)
