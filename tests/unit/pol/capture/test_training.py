"""A whole job against the loop that anybody would write: torch, plain FP32, same initial weights, same batches."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.eager import as_tensors, take_step
from pol.capture.author.measures import cross_entropy
from pol.capture.author.spec import SGD, AdamW, Average, JobSpec, Nesterov
from pol.capture.build import build
from pol.capture.loading import load_into
from pol.job.dataset import batch_at
from pol.job.load import LoadedJob, load_job
from pol.local.run import run_locally

ROUNDS, ROUND_STEPS = 4, 8
SEEDS = (1, 2, 3)


def _rate(step: int) -> float:
    return 0.02 if step < 20 else 0.01


def _spec(slots: int, outer: Average | Nesterov, seed: int) -> JobSpec:
    from sklearn.datasets import load_digits

    digits = load_digits()
    x, y = digits.data[:800].astype(np.float32) / 16, digits.target[:800]
    return JobSpec(
        name="loop",
        model=nn.Sequential(nn.Linear(64, 32), nn.GELU(), nn.Linear(32, 10)),
        loss=cross_entropy(),
        train={"x": x[:700], "y": y[:700]},
        holdout={"x": x[700:], "y": y[700:]},
        optimizer=AdamW(),
        schedule=_rate,
        slots=slots,
        outer=outer,
        seed=seed,
        batch=32,
        steps=ROUNDS * ROUND_STEPS,
        round_steps=ROUND_STEPS,
    )


def _outer(
    spec: JobSpec, before: Mapping[str, torch.Tensor], models: list[nn.Module], velocity: nn.Module
) -> dict[str, torch.Tensor]:
    """Return the weights after a round, as the DiLoCo paper says it."""
    after = {}
    for name, old in before.items():
        closing = torch.stack([model.get_parameter(name).detach() for model in models]).mean(0)
        if isinstance(spec.outer, Average):
            after[name] = closing
            continue
        update, speed = old - closing, velocity.get_parameter(name)
        speed.data = spec.outer.momentum * speed.data + update
        after[name] = old - spec.outer.lr * (update + spec.outer.momentum * speed.data)
    return after


def _eager_loss(loaded: LoadedJob, spec: JobSpec) -> float:
    """Train in torch's own FP32 and return the mean loss of the last round."""
    load_into(spec.model, loaded.global_state)
    models = [deepcopy(spec.model).train() for _ in range(spec.slots)]
    optimizers = [torch.optim.AdamW(m.parameters(), 1.0, weight_decay=0.01) for m in models]
    velocity = deepcopy(spec.model)
    for speed in velocity.parameters():
        speed.data.zero_()
    losses: list[float] = []
    for step in range(ROUNDS * ROUND_STEPS):
        if step % ROUND_STEPS == 0:
            weights = {n: p.detach().clone() for n, p in models[0].named_parameters()}
            losses = []
        for slot, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            batch = batch_at(loaded.data, loaded.job, step * spec.slots + slot)
            rate = _rate(step)
            losses.append(take_step(model, optimizer, spec.loss, as_tensors(batch), rate))
        if step % ROUND_STEPS == ROUND_STEPS - 1:
            after = _outer(spec, weights, list(models), velocity)
            for model in models:
                model.load_state_dict(after)
    return float(np.mean(losses))


@pytest.mark.parametrize(("slots", "outer"), [(1, Average()), (4, Average()), (4, Nesterov())], ids=str)
def test_the_loss_is_that_of_a_loop_in_plain_torch(tmp_path: Path, slots: int, outer: Average | Nesterov) -> None:
    exact, eager = [], []
    for seed in SEEDS:
        spec, folder = _spec(slots, outer, seed), tmp_path / str(seed)
        build(spec, folder)
        done = run_locally(folder)
        assert done.rounds[-1].loss < 0.7 * done.history["loss"][0]  # it did learn something
        exact.append(done.rounds[-1].loss)
        eager.append(_eager_loss(load_job(folder), spec))
    spread = max(eager) - min(eager)
    differences = np.abs(np.array(exact) - np.array(eager))
    assert differences.max() < spread
    assert differences.max() < 2e-3 * max(eager)  # and in fact far less


def test_slots_that_meet_after_every_step_are_one_machine_with_their_batches_together(
    tmp_path: Path,
) -> None:
    """The mean of one step of plain gradient descent on each batch is the step on all of them."""
    spec = replace(_spec(1, Average(), 5), optimizer=SGD(), schedule=0.1)
    weights = []
    for slots in (1, 4):
        job = replace(spec, slots=slots, batch=64 // slots, steps=6, round_steps=1)
        build(job, tmp_path / str(slots))
        weights.append(run_locally(tmp_path / str(slots)).state)
    for name, whole in weights[0].items():
        np.testing.assert_allclose(weights[1][name], whole, rtol=0, atol=1e-5)
