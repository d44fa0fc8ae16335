"""Inner and outer optimizers as plain tensor functions: what they compute is traced into the job."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch

from pol.errors import JobError
from pol.job.document import CLOSING, DIFFERENCE
from pol.tracing.spec import SGD, AdamW, Average, Nesterov

Tensors = Mapping[str, torch.Tensor]
VELOCITY = "outer_velocity."
"""Prefix of the outer optimizer's tensors in the global state."""


class Inner(Protocol):
    """An inner optimizer: it belongs to a slot, and its state is the slot's local state."""

    def initial(self, parameters: Tensors) -> dict[str, torch.Tensor]:
        """Return the local state before the first step."""

    def update(
        self, parameters: Tensors, gradients: Tensors, local: Tensors, lr: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Return the new parameters and the new local state."""


class _SGD:
    def __init__(self, settings: SGD) -> None:
        self._settings = settings
        if settings.nesterov and not settings.momentum:
            raise JobError("optimizer", "Nesterov needs a momentum", "give one, such as 0.9")

    def initial(self, parameters: Tensors) -> dict[str, torch.Tensor]:
        if not self._settings.momentum:
            return {}
        return {f"momentum.{name}": torch.zeros_like(p) for name, p in parameters.items()}

    def update(
        self, parameters: Tensors, gradients: Tensors, local: Tensors, lr: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        settings, moved, kept = self._settings, {}, {}
        for name, parameter in parameters.items():
            direction = gradients[name]
            if settings.weight_decay:
                direction = direction + settings.weight_decay * parameter
            if settings.momentum:
                key = f"momentum.{name}"
                kept[key] = settings.momentum * local[key] + direction
                plain = direction + settings.momentum * kept[key]
                direction = plain if settings.nesterov else kept[key]
            moved[name] = parameter - lr * direction
        return moved, kept


class _AdamW:
    """Bias correction takes the powers of the betas from the local state, where they are products: no pow."""

    def __init__(self, settings: AdamW) -> None:
        self._settings = settings

    def initial(self, parameters: Tensors) -> dict[str, torch.Tensor]:
        zeros = {
            f"{kind}.{name}": torch.zeros_like(p)
            for kind in ("exp_avg", "exp_avg_sq")
            for name, p in parameters.items()
        }
        return {"beta1_power": torch.tensor(1.0), "beta2_power": torch.tensor(1.0), **zeros}

    def update(
        self, parameters: Tensors, gradients: Tensors, local: Tensors, lr: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        settings, (beta1, beta2) = self._settings, self._settings.betas
        powers = {
            "beta1_power": local["beta1_power"] * beta1,
            "beta2_power": local["beta2_power"] * beta2,
        }
        size = lr / (1.0 - powers["beta1_power"])
        scale = torch.sqrt(1.0 - powers["beta2_power"])
        moved, kept = {}, dict(powers)
        for name, parameter in parameters.items():
            gradient = gradients[name]
            mean = beta1 * local[f"exp_avg.{name}"] + (1.0 - beta1) * gradient
            square = beta2 * local[f"exp_avg_sq.{name}"] + (1.0 - beta2) * (gradient * gradient)
            decayed = parameter
            if settings.weight_decay:
                decayed = parameter * (1.0 - lr * settings.weight_decay)
            moved[name] = decayed - size * (mean / (torch.sqrt(square) / scale + settings.eps))
            kept[f"exp_avg.{name}"], kept[f"exp_avg_sq.{name}"] = mean, square
        return moved, kept


def inner_optimizer(settings: SGD | AdamW) -> Inner:
    """Return the optimizer that ``settings`` describe."""
    return _SGD(settings) if isinstance(settings, SGD) else _AdamW(settings)


def clip(gradients: Tensors, largest_norm: float) -> dict[str, torch.Tensor]:
    """Return gradients whose norm together is at most ``largest_norm``, as torch's clip_grad_norm_ does."""
    squares = [(gradient * gradient).sum() for gradient in gradients.values()]
    total = squares[0]
    for square in squares[1:]:
        total = total + square
    factor = torch.clamp(largest_norm / (torch.sqrt(total) + 1e-6), max=1.0)
    return {name: gradient * factor for name, gradient in gradients.items()}


def outer_initial(settings: Average | Nesterov, parameters: Tensors) -> dict[str, torch.Tensor]:
    """Return what the outer optimizer adds to the global state."""
    if isinstance(settings, Average):
        return {}
    return {VELOCITY + name: torch.zeros_like(p) for name, p in parameters.items()}


def aggregation(settings: Average | Nesterov) -> str:
    """Return what a slot's update is under an outer optimizer, as the job document says it."""
    return CLOSING if isinstance(settings, Average) else DIFFERENCE


def outer_update(
    settings: Average | Nesterov, state: Tensors, aggregate: Tensors, parameters: Sequence[str]
) -> dict[str, torch.Tensor]:
    """Return the changed global tensors of a round.

    ``aggregate`` is the mean of what :func:`aggregation` says of each slot: for a plain average its closing state, so
    that the mean is the next state as it is; else opening minus closing. Buffers that the step changes are averaged.
    """
    if isinstance(settings, Average):
        return dict(aggregate)
    changed = {}
    for name, update in aggregate.items():
        if name not in parameters:
            changed[name] = state[name] - update
            continue
        velocity = settings.momentum * state[VELOCITY + name] + update
        changed[VELOCITY + name] = velocity
        changed[name] = state[name] - settings.lr * (update + settings.momentum * velocity)
    return changed
