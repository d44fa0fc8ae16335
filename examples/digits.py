"""A small classifier of handwritten digits: 1,797 real images of 8 x 8 that scikit-learn ships.

    assay job build examples/digits.py -o digits-job

The last 360 images are the test set; they stay on this machine, and no provider sees them.
"""

import math

import numpy as np
from sklearn.datasets import load_digits
from torch import nn

from assay import AdamW, JobSpec, accuracy, cross_entropy

STEPS = 160


def learning_rate(step: int) -> float:
    """Return the learning rate of a step: a warm-up of 20 steps, then a cosine down to a tenth."""
    if step < 20:
        return 3e-3 * (step + 1) / 20
    return 3e-3 * (0.55 + 0.45 * math.cos(math.pi * step / STEPS))


def job() -> JobSpec:
    """Return the job that ``assay job build`` builds."""
    digits = load_digits()
    order = np.random.default_rng(7).permutation(len(digits.target))
    x, y = digits.data[order].astype(np.float32) / 16, digits.target[order]
    model = nn.Sequential(
        nn.Linear(64, 128),
        nn.LayerNorm(128),
        nn.GELU(),
        nn.Dropout(0.1),
        nn.Linear(128, 64),
        nn.GELU(),
        nn.Linear(64, 10),
    )
    return JobSpec(
        name="digits",
        model=model,
        loss=cross_entropy(),
        metrics={"accuracy": accuracy()},
        train={"x": x[:-360], "y": y[:-360]},
        holdout={"x": x[-360:], "y": y[-360:]},
        optimizer=AdamW(weight_decay=0.01),
        schedule=learning_rate,
        clip_norm=1.0,
        steps=STEPS,
        batch=32,
        slots=2,
        round_steps=40,
        segment_steps=5,
        seed=7,
    )
