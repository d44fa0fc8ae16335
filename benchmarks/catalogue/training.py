"""Optimizers and schedules of torch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from assay import AdamW, JobSpec, Lion
from benchmarks.catalogue.rows import CLASSES, VECTORS, Make, OfModel, Row, job, linear


def _torch_optimizer(name: str, **options: Any) -> Make:
    make = getattr(torch.optim, name)
    return job(
        lambda: nn.Sequential(linear(), nn.ReLU(), nn.Linear(16, CLASSES)),
        VECTORS,
        optimizer=OfModel(lambda model: make(model.parameters(), **{"lr": 0.01, **options})),
        schedule=None,
    )


def _scheduled(schedule: Callable[[torch.optim.Optimizer], Any]) -> Make:
    def make() -> JobSpec:
        torch.manual_seed(7)
        model = nn.Linear(16, CLASSES)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        return job(lambda: model, VECTORS, optimizer=optimizer, schedule=schedule(optimizer))()

    return make


def _groups(model: nn.Module) -> torch.optim.Optimizer:
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() == 1]
    return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": plain, "lr": 0.1}], 0.01)


def _frozen() -> nn.Module:
    model = nn.Sequential(linear(), nn.ReLU(), nn.Linear(16, CLASSES))
    return model.requires_grad_(False).append(nn.Linear(CLASSES, CLASSES))


_RATES = torch.optim.lr_scheduler

TRAINING: tuple[Row, ...] = (
    (
        "assay.AdamW, clip_norm",
        job(lambda: nn.Linear(16, CLASSES), VECTORS, optimizer=AdamW(), clip_norm=0.5),
    ),
    ("assay.Lion", job(lambda: nn.Linear(16, CLASSES), VECTORS, optimizer=Lion())),
    ("clip_value", job(lambda: nn.Linear(16, CLASSES), VECTORS, clip_value=0.01)),
    ("ema", job(lambda: nn.Linear(16, CLASSES), VECTORS, ema=0.9)),
    ("epochs", job(lambda: nn.Linear(16, CLASSES), VECTORS, steps=None, epochs=1)),
    ("frozen part", job(_frozen, VECTORS)),
    ("optim.SGD, Nesterov", _torch_optimizer("SGD", momentum=0.9, nesterov=True)),
    ("optim.Adam", _torch_optimizer("Adam")),
    ("optim.AdamW", _torch_optimizer("AdamW")),
    ("optim.RMSprop", _torch_optimizer("RMSprop", momentum=0.5)),
    ("optim.Adagrad", _torch_optimizer("Adagrad")),
    ("optim.Adamax", _torch_optimizer("Adamax")),
    ("optim.NAdam", _torch_optimizer("NAdam")),
    ("optim.RAdam", _torch_optimizer("RAdam")),
    ("optim.Adadelta", _torch_optimizer("Adadelta")),
    ("optim.Rprop", _torch_optimizer("Rprop")),
    ("optim.Adafactor", _torch_optimizer("Adafactor")),
    (
        "accumulate=128",
        job(
            lambda: nn.Sequential(linear(), nn.GELU(), nn.Linear(16, CLASSES)),
            lambda: {name: np.tile(column, (16, *[1] * (column.ndim - 1))) for name, column in VECTORS().items()},
            batch=128,
            accumulate=128,
        ),
    ),
    (
        "parameter groups",
        job(lambda: nn.Linear(16, CLASSES), VECTORS, optimizer=OfModel(_groups), schedule=None),
    ),
    ("CosineAnnealingLR", _scheduled(lambda o: _RATES.CosineAnnealingLR(o, 10))),
    ("OneCycleLR", _scheduled(lambda o: _RATES.OneCycleLR(o, 0.1, 10, cycle_momentum=False))),
    ("LambdaLR", _scheduled(lambda o: _RATES.LambdaLR(o, lambda step: 0.9**step))),
    ("MultiStepLR", _scheduled(lambda o: _RATES.MultiStepLR(o, [1]))),
    (
        "CosineAnnealingWarmRestarts",
        _scheduled(lambda o: _RATES.CosineAnnealingWarmRestarts(o, 2)),
    ),
    ("CyclicLR", _scheduled(lambda o: _RATES.CyclicLR(o, 0.01, 0.1, 2))),
    (
        "SequentialLR of LinearLR, StepLR",
        _scheduled(lambda o: _RATES.SequentialLR(o, [_RATES.LinearLR(o), _RATES.StepLR(o, 2)], [5])),
    ),
)
