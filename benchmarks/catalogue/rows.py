"""Helpers for the rows of the catalogue: small jobs on random data of the right shape."""

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from assay import SGD, JobSpec
from pol.errors import JobError
from pol.state.arrays import Array

Batch = Mapping[str, torch.Tensor]
Loss = Callable[[nn.Module, Batch], torch.Tensor]
Make = Callable[[], JobSpec]
Row = tuple[str, Make]

ROWS, CLASSES = 16, 5


class Does(nn.Module):
    """A module whose forward pass calls a given function with the module and its inputs. It has the given layers."""

    def __init__(self, function: Callable[..., torch.Tensor], **layers: nn.Module) -> None:
        super().__init__()
        for name, layer in layers.items():
            setattr(self, name, layer)
        self._function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self._function(self, *inputs)


def columns(x: Array, **more: Array) -> dict[str, Array]:
    labels = np.random.default_rng(5).integers(0, CLASSES, len(x))
    return {"x": x, "y": labels, **more}


def floats(*shape: int) -> dict[str, Array]:
    return columns(np.random.default_rng(4).standard_normal((ROWS, *shape), np.float32))


def words(length: int = 12, words: int = 50) -> dict[str, Array]:
    return columns(np.random.default_rng(4).integers(1, words, (ROWS, length)))


VECTORS = partial(floats, 16)
SEQUENCES = partial(floats, 6, 16)
LINES = partial(floats, 3, 24)
IMAGES = partial(floats, 3, 12, 12)
PHOTOS = partial(floats, 3, 32, 32)
LARGE_PHOTOS = partial(floats, 3, 64, 64)
"""Images for networks that halve them five times: batch norm needs more than one position per row."""
VOLUMES = partial(floats, 2, 6, 6, 6)


def classify(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the cross-entropy of the model's scores for ``x``."""
    return F.cross_entropy(model(batch["x"]), batch["y"])


def job(
    model: Callable[[], nn.Module],
    data: Callable[[], dict[str, Array]],
    loss: Loss = classify,
    **options: Any,
) -> Make:
    def make() -> JobSpec:
        columns = data()
        settings: dict[str, Any] = {
            "optimizer": SGD(),
            "schedule": 0.05,
            "steps": 2,
            "batch": 4,
            "seed": 3,
            "weights": "keep",
        }
        torch.manual_seed(7)
        built = model()
        chosen = {name: option(built) if isinstance(option, OfModel) else option for name, option in options.items()}
        holdout = {name: column[:4] for name, column in columns.items()}
        return JobSpec(
            name="row",
            model=built,
            loss=loss,
            train=columns,
            holdout=holdout,
            **{**settings, **chosen},
        )

    return make


class OfModel:
    """An option of a job that is made from the job's model, such as an optimizer of torch."""

    def __init__(self, make: Callable[[nn.Module], Any]) -> None:
        self._make = make

    def __call__(self, model: nn.Module) -> Any:
        return self._make(model)


def head(width: int, *layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width, CLASSES))


def layers(width: int, data: Callable[[], dict[str, Array]], *makers: Callable[[], nn.Module]) -> Make:
    return job(lambda: head(width, *[make() for make in makers]), data)


def linear() -> nn.Module:
    """Return a linear layer with 16 inputs and 16 outputs."""
    return nn.Linear(16, 16)


def next_token(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the cross-entropy of predicting each next element of ``x``; targets that are 1 are ignored."""
    scores = model(batch["x"])
    return F.cross_entropy(scores.flatten(0, 1), batch["x"].roll(-1, 1).flatten(), ignore_index=1)


def package(name: str, remedy: str = "install assay[models]") -> Any:
    """Import a library and return it; raise JobError with ``remedy`` if it is not installed."""
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        raise JobError("case", f"needs {name}", remedy)
    return importlib.import_module(name)
