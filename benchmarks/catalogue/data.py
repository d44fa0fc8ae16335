"""Jobs whose columns come from common data sources, one job per source."""

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
    """A map-style data set of torch that returns one row at a time."""

    def __len__(self) -> int:
        return len(VECTORS()["y"])

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {name: torch.as_tensor(column[index]) for name, column in VECTORS().items()}


@cache
def _folder() -> Path:
    """Return a folder with files of the same rows in several formats. It is deleted when the process ends."""
    temporary = TemporaryDirectory(prefix="assay-catalogue-")
    register(temporary.cleanup)
    folder = Path(temporary.name)
    columns = VECTORS()
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
    make_job = job(lambda: nn.Linear(16, CLASSES), VECTORS)

    def make() -> JobSpec:
        data = source()
        return replace(make_job(), train=data, holdout=data)

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
        tokenizer_file = None if tokenizer is None else _folder() / tokenizer
        rows = text_rows(_folder() / "book.txt", 12, tokenizer_file)
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
