"""A job with a layer of torch that goes through time and a loop of its own."""

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from pol.capture.author.spec import SGD, Batch, JobSpec
from pol.capture.build import build
from pol.capture.loops.repeating import repeat

_FEATURES, _ROWS = 3, 8


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(_FEATURES, 4, batch_first=True)
        self.own, self.score = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, _ = self.layer(x)

        def turn(h: torch.Tensor, part: torch.Tensor) -> tuple[torch.Tensor, None]:
            return torch.tanh(self.own(h) + part) * 0.9, None

        last, _ = repeat(turn, torch.zeros(len(x), 4), states.transpose(0, 1))
        found: torch.Tensor = self.score(last)
        return found


def _loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(model(batch["x"]), batch["y"])


def build_recurrent_job(folder: Path, turns: int) -> None:
    """Write a job of four segments of two steps in one round."""
    numbers = np.random.default_rng(1)
    data = {
        "x": numbers.standard_normal((_ROWS, turns, _FEATURES)).astype(np.float32),
        "y": numbers.integers(0, 3, _ROWS),
    }
    spec = JobSpec(
        name="recurrent",
        model=_Recurrent(),
        loss=_loss,
        train=data,
        holdout=data,
        batch=4,
        steps=8,
        round_steps=8,
        segment_steps=2,
        optimizer=SGD(),
        schedule=lambda step: 0.1 / (1 + step),
    )
    build(spec, folder)
