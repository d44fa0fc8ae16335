"""The smallest useful job: is a point inside a circle? (SGD with momentum, ReLU, dropout)."""

import numpy as np
from torch import nn

from assay import SGD, JobSpec, accuracy, cross_entropy


def job() -> JobSpec:
    """Return the job that ``assay job build`` builds."""
    points = (np.arange(600 * 2) * 7919 % 2003 / 2003 * 2 - 1).astype(np.float32).reshape(600, 2)
    inside = (points**2).sum(1) < 0.6
    x, y = points, inside.astype(np.int64)
    return JobSpec(
        name="tiny",
        model=nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 2)),
        loss=cross_entropy(),
        metrics={"accuracy": accuracy()},
        train={"x": x[:480], "y": y[:480]},
        holdout={"x": x[480:], "y": y[480:]},
        optimizer=SGD(momentum=0.9),
        schedule=lambda step: 0.1 if step < 10 else 0.05,
        steps=20,
        batch=16,
        slots=2,
        round_steps=10,
        segment_steps=2,
        seed=3,
    )
