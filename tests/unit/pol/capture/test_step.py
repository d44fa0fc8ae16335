"""A traced step in exact arithmetic against the training step that anybody would write in torch."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from pol.capture.author.measures import cross_entropy
from pol.capture.author.spec import SGD, AdamW, JobSpec
from pol.capture.build import build
from pol.capture.functions import JobFunctions
from pol.capture.loading import load_into
from pol.errors import JobError
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.dataset import batch_at
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.load import LoadedJob, load_job
from pol.local.run import run_locally
from pol.work.segments import advance, slot_state

NUMPY = backend(Engine("numpy"))
STEPS = 8


def _rate(step: int) -> float:
    return 0.02 * (step + 1) if step < 4 else 0.05


def _mlp(activation: Callable[[], nn.Module]) -> nn.Module:
    return nn.Sequential(nn.Linear(12, 24), nn.LayerNorm(24), activation(), nn.Dropout(0.0), nn.Linear(24, 5))


def _spec(model: nn.Module, optimizer: SGD | AdamW, clip: float | None) -> JobSpec:
    generator = np.random.default_rng(11)
    x = generator.standard_normal((96, 12)).astype(np.float32)
    y = generator.integers(0, 5, 96)
    return JobSpec(
        name="agreement",
        model=model,
        loss=cross_entropy(),
        train={"x": x, "y": y},
        holdout={"x": x[:10], "y": y[:10]},
        optimizer=optimizer,
        schedule=_rate,
        clip_norm=clip,
        steps=STEPS,
        batch=16,
        seed=21,
    )


def _torch_optimizer(settings: SGD | AdamW, model: nn.Module) -> torch.optim.Optimizer:
    if isinstance(settings, SGD):
        return torch.optim.SGD(
            model.parameters(),
            1.0,
            settings.momentum,
            0.0,
            settings.weight_decay,
            settings.nesterov,
        )
    return torch.optim.AdamW(model.parameters(), 1.0, settings.betas, settings.eps, settings.weight_decay)


def _eager(loaded: LoadedJob, spec: JobSpec, model: nn.Module) -> tuple[list[float], dict[str, Any]]:
    load_into(model, loaded.global_state)
    model.train()
    assert isinstance(spec.optimizer, SGD | AdamW)
    optimizer = _torch_optimizer(spec.optimizer, model)
    losses = []
    for step in range(STEPS):
        batch = batch_at(loaded.data, loaded.job, step)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(
            model(torch.from_numpy(batch["batch.x"])), torch.from_numpy(batch["batch.y"])
        )
        loss.backward()  # type: ignore[no-untyped-call]
        if spec.clip_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), spec.clip_norm)
        for group in optimizer.param_groups:
            group["lr"] = _rate(step)
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, {name: p.detach().numpy() for name, p in model.named_parameters()}


@pytest.mark.parametrize(
    ("activation", "optimizer", "clip"),
    [
        (nn.ReLU, SGD(), None),
        (nn.ReLU, SGD(), 50.0),  # longer than any gradient here, so it must change nothing
        (nn.ReLU, SGD(momentum=0.9, weight_decay=0.01), 0.3),
        (nn.GELU, SGD(momentum=0.9, nesterov=True), None),
        (lambda: nn.GELU(approximate="tanh"), AdamW(eps=1e-3, weight_decay=0.1), 0.5),
        (nn.GELU, AdamW(betas=(0.8, 0.95), eps=1e-3), None),
    ],
    ids=[
        "relu-sgd",
        "relu-sgd-unclipped",
        "relu-momentum-decay-clip",
        "gelu-nesterov",
        "tanh-adamw-clip",
        "gelu-adamw",
    ],
)
def test_several_steps_agree_with_eager_torch(
    tmp_path: Path, activation: Callable[[], nn.Module], optimizer: SGD | AdamW, clip: float | None
) -> None:
    model = _mlp(activation)
    spec = _spec(model, optimizer, clip)
    build(spec, tmp_path)
    loaded = load_job(tmp_path)
    losses, weights = _eager(loaded, spec, model)
    reached = slot_state(loaded, loaded.global_state, loaded.local_state)
    found = []
    for step in range(STEPS):
        reached, metrics = advance(loaded, reached, step, 0, NUMPY)
        found.append(float(metrics["loss"]))
    np.testing.assert_allclose(found, losses, rtol=2e-3)
    for name, expected in weights.items():
        moved = float(np.abs(expected - loaded.global_state[name]).max())
        assert moved > 1e-3  # it did learn something
        difference = float(np.abs(reached.global_state[name] - expected).max())
        assert difference <= 5e-3 * moved + 1e-6, name


def test_all_of_training_at_once_is_what_its_functions_say(tmp_path: Path) -> None:
    """Groups, a cycle of learning rate and momentum, parts of a batch, clipping and an average, traced."""
    model = _mlp(nn.ReLU)
    parameters = list(model.parameters())
    groups: list[dict[str, Any]] = [
        {"params": parameters[:2], "weight_decay": 0.1},
        {"params": parameters[2:], "lr": 0.01, "amsgrad": True},
    ]
    optimizer = torch.optim.Adam(groups, 0.02)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, [0.02, 0.01], STEPS)
    spec = replace(
        _spec(model, SGD(), None),
        optimizer=optimizer,
        schedule=scheduler,
        accumulate=2,
        clip_value=0.05,
        ema=0.5,
    )
    build(spec, tmp_path)
    loaded = load_job(tmp_path)
    functions = JobFunctions(spec, STEPS, 96)
    reached = slot_state(loaded, loaded.global_state, loaded.local_state)
    eager = {f"global.{n}": torch.from_numpy(np.array(a)) for n, a in loaded.global_state.items()}
    eager |= {f"local.{n}": torch.from_numpy(np.array(a)) for n, a in loaded.local_state.items()}
    for step in range(STEPS):
        batch = batch_at(loaded.data, loaded.job, step)
        inputs = {name: torch.from_numpy(array) for name, array in batch.items()}
        number = torch.tensor(step)
        eager |= functions.step({**eager, **inputs, STEP: number, BATCH_NUMBER: number})
        reached, _ = advance(loaded, reached, step, 0, NUMPY)
    for name, array in reached.global_state.items():
        expected = eager[f"global.{name}"].detach().numpy()
        moved = float(np.abs(expected - loaded.global_state[name]).max())
        assert moved > 1e-3
        assert float(np.abs(array - expected).max()) <= 5e-3 * moved, name
    assert {name.partition(".")[0] for name in reached.global_state} == {"0", "1", "4", "ema"}


def test_what_the_means_lack_is_in_the_local_state(tmp_path: Path) -> None:
    spec = _spec(_mlp(nn.ReLU), AdamW(betas=(0.5, 0.75)), None)
    build(spec, tmp_path)
    loaded = load_job(tmp_path)
    assert loaded.local_state["correction1"] == 0.0
    reached = slot_state(loaded, loaded.global_state, loaded.local_state)
    for step in range(3):
        reached, _ = advance(loaded, reached, step, 0, NUMPY)
    assert reached.local_state["correction1"] == np.float32(1 - 0.125)
    assert reached.local_state["correction2"] == np.float32(1 - 0.421875)


def test_products_count_as_torch_counts_them(tmp_path: Path) -> None:
    model = _mlp(nn.GELU)
    spec = _spec(model, SGD(), None)
    job = build(spec, tmp_path)
    counter = FlopCounterMode(display=False)
    with counter:
        x = torch.zeros(spec.batch, 12)
        labels = torch.zeros(spec.batch, dtype=torch.int64)
        nn.functional.cross_entropy(model(x), labels).backward()  # type: ignore[no-untyped-call]
    assert job.document.step.work.products == counter.get_total_flops() > 0


def test_products_of_the_demo_job(digits: tuple[Path, Any]) -> None:
    assert digits[1].document.step.work.products == 2_744_320


class _Aside(nn.Module):
    """Keeps a weight aside, where the weights of the step are never put."""

    def __init__(self, hold: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.hidden, self.out = nn.Linear(12, 24), nn.Linear(24, 5)
        self.aside = [hold(self.hidden.weight)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.aside[0] if self.aside else self.hidden.weight
        result: torch.Tensor = self.out(nn.functional.linear(x, weight))
        return result


def test_a_weight_that_is_kept_aside_is_trained(tmp_path: Path) -> None:
    """A layer of Keras holds its weights so."""
    aside, plain = _Aside(lambda weight: weight), _Aside(lambda weight: weight)
    plain.aside.clear()
    ends = []
    for name, model in (("aside", aside), ("plain", plain)):
        build(replace(_spec(model, SGD(), None), weights="keep"), tmp_path / name)
        ends.append(run_locally(tmp_path / name).state["hidden.weight"])
    assert np.array_equal(ends[0], ends[1])
    assert not np.array_equal(ends[0], aside.hidden.weight.detach().numpy())


def test_initial_weights_are_no_constants_of_a_step(tmp_path: Path) -> None:
    """Every step would have gone down the gradient at the initial weights, and nobody would have been told."""
    with pytest.raises(JobError, match=r"reads the initial hidden.weight in every step"):
        build(_spec(_Aside(lambda weight: weight.data), SGD(), None), tmp_path)
