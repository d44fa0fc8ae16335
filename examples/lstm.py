"""An LSTM written as a Python loop, which reads the image of a digit row by row.

    assay job build examples/lstm.py -o lstm-job

The capture unrolls the loop over the eight rows. For long loops use nn.LSTM or assay.repeat.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from assay import AdamW, JobSpec, Nesterov, accuracy, cross_entropy

ROWS, COLUMNS, WIDTH, CLASSES = 8, 8, 32, 10


class LSTM(nn.Module):
    """A cell that is applied to each row of the image, and a layer that scores the classes from the last state."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Linear(COLUMNS + WIDTH, 4 * WIDTH)
        self.score = nn.Linear(WIDTH, CLASSES)

    def cell(self, x: torch.Tensor, hidden: torch.Tensor, memory: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the hidden state and the memory after one more row ``x`` of the image."""
        keep, write, show, new = self.gates(torch.cat([x, hidden], dim=1)).chunk(4, dim=1)
        memory = keep.sigmoid() * memory + write.sigmoid() * new.tanh()
        return show.sigmoid() * memory.tanh(), memory

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = memory = images.new_zeros(images.shape[0], WIDTH)
        for row in images.unbind(1):
            hidden, memory = self.cell(row, hidden, memory)
        scores: torch.Tensor = self.score(hidden)
        return scores


def job() -> JobSpec:
    """Return the job that ``assay job build`` builds."""
    digits = load_digits()
    order = np.random.default_rng(5).permutation(len(digits.target))
    x, y = digits.images[order].astype(np.float32) / 16, digits.target[order]
    return JobSpec(
        name="lstm",
        model=LSTM(),
        loss=cross_entropy(),
        metrics={"accuracy": accuracy()},
        train={"x": x[:-360], "y": y[:-360]},
        holdout={"x": x[-360:], "y": y[-360:]},
        optimizer=AdamW(weight_decay=0.01),
        schedule=1e-2,
        clip_norm=1.0,
        steps=100,
        batch=32,
        slots=2,
        round_steps=20,
        segment_steps=5,
        # The outer optimizer of DiLoCo.
        outer=Nesterov(lr=0.7, momentum=0.6),
        seed=13,
    )
