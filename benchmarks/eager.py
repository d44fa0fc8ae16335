"""Plain FP32 training in torch that mirrors a job: the same weights, batches and learning rates."""

from collections.abc import Iterator, Mapping

import torch
from torch import nn

from pol.capture.author.spec import AdamW, JobSpec, Measure
from pol.capture.loading import load_into
from pol.job.dataset import batch_at
from pol.job.load import LoadedJob
from pol.state.arrays import Array


def take_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Measure,
    batch: Mapping[str, torch.Tensor],
    rate: float,
    clip_norm: float | None = None,
) -> float:
    """Take a training step, and return the loss before the update."""
    optimizer.param_groups[0]["lr"] = rate
    optimizer.zero_grad()
    value = loss(model, batch)
    value.backward()  # type: ignore[no-untyped-call]
    if clip_norm is not None:
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return float(value.detach())


def as_tensors(columns: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    """Return a batch's columns as tensors; a prefix ``batch.`` is removed from their names."""
    return {name.removeprefix("batch."): torch.from_numpy(column.copy()) for name, column in columns.items()}


def losses(spec: JobSpec, loaded: LoadedJob, model: nn.Module, backwards: bool = False) -> Iterator[float]:
    """Train a model like a job with one slot and AdamW, and yield the loss of each step.

    ``backwards`` reverses the rows of each batch: the mathematics is the same, and only the rounding differs.
    """
    assert isinstance(spec.optimizer, AdamW)
    assert spec.slots == 1
    chosen = spec.optimizer
    load_into(model.train(), loaded.global_state)
    optimizer = torch.optim.AdamW(model.parameters(), 1.0, chosen.betas, chosen.eps, chosen.weight_decay)
    for step in range(loaded.job.document.steps):
        rows = batch_at(loaded.data, loaded.job, step)
        batch = as_tensors({key: rows[key][::-1] for key in rows} if backwards else rows)
        rate = spec.learning_rate(step)
        yield take_step(model, optimizer, spec.loss, batch, rate, spec.clip_norm)
