"""Inner and outer optimizers as plain tensor functions: what they compute is traced into the job."""

from collections.abc import Mapping, Sequence

import torch

from pol.job.document import CLOSING, DIFFERENCE
from pol.tracing.groups import Group
from pol.tracing.spec import Average, Nesterov
from pol.tracing.updates import Now, Parameter

Tensors = Mapping[str, torch.Tensor]
VELOCITY = "outer_velocity."
"""Prefix of the outer optimizer's tensors in the global state."""
AVERAGE = "ema."
"""Prefix of the moving averages of weights in the global state."""


class InnerOptimizer:
    """The inner optimizer: it belongs to a slot, and its state is the slot's local state."""

    def __init__(self, groups: Sequence[Group]) -> None:
        """Move the parameters of each group by its rule."""
        self._groups = groups

    def initial(self, parameters: Tensors) -> dict[str, torch.Tensor]:
        """Return the local state before the first step."""
        state = {}
        for index, group in enumerate(self._groups):
            for name, number in {**group.rule.numbers(), **group.taken.numbers}.items():
                state[number_name(name, index)] = torch.tensor(number)
            for kind, number in group.rule.kept().items():
                for name in group.names:
                    shape = group.rule.shapes(parameters[name].shape).get(kind)
                    if shape is not None:
                        state[f"{kind}.{name}"] = torch.full(
                            shape, number, dtype=parameters[name].dtype
                        )
            state.update(group.taken.tensors)
        return state

    def update(
        self, parameters: Tensors, gradients: Tensors, local: Tensors, step: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Return the new parameters and the new local state; what has no gradient stays as it is, and its state."""
        moved: dict[str, torch.Tensor] = {}
        kept: dict[str, torch.Tensor] = {}
        for index, group in enumerate(self._groups):
            varying = {name: table.at(step) for name, table in group.varying.items()}
            done = group.taken.steps
            now = Now(step + done if done else step, group.lr.at(step), varying)
            numbers = {name: local[number_name(name, index)] for name in group.rule.numbers()}
            numbers, common = group.rule.begin(numbers, now)
            kept.update({number_name(name, index): number for name, number in numbers.items()})
            for name in group.names:
                if name not in gradients:
                    continue
                kinds = group.rule.shapes(parameters[name].shape)
                state = {kind: local[f"{kind}.{name}"] for kind in kinds}
                parameter = Parameter(parameters[name], gradients[name], state)
                moved[name], state = group.rule.update(parameter, now, common)
                kept.update({f"{kind}.{name}": tensor for kind, tensor in state.items()})
        return moved, kept


def number_name(name: str, index: int) -> str:
    """Return the name of a group's number in the local state."""
    return f"{name}.{index}" if index else name


def clip_values(gradients: Tensors, largest: float) -> dict[str, torch.Tensor]:
    """Return gradients whose elements are at most ``largest`` in size, as torch's clip_grad_value_ does."""
    return {name: torch.clamp(part, -largest, largest) for name, part in gradients.items()}


def clip(gradients: Tensors, largest_norm: float) -> dict[str, torch.Tensor]:
    """Return gradients whose norm together is at most ``largest_norm``, as torch's clip_grad_norm_ does."""
    squares = [(gradient * gradient).sum() for gradient in gradients.values()]
    total = squares[0]
    for square in squares[1:]:
        total = total + square
    factor = torch.clamp(largest_norm / (torch.sqrt(total) + 1e-6), max=1.0)
    return {name: gradient * factor for name, gradient in gradients.items()}


def averages_initial(
    share: float | None, state: Tensors, names: Sequence[str]
) -> dict[str, torch.Tensor]:
    """Return the moving averages of weights before the first step: the weights."""
    return {} if share is None else {AVERAGE + name: state[name].clone() for name in names}


def averages(share: float | None, state: Tensors, moved: Tensors) -> dict[str, torch.Tensor]:
    """Return the moving averages after a step, of which ``share`` is left, beside the weights that it moved."""
    if share is None:
        return {}
    return {
        AVERAGE + name: share * state[AVERAGE + name] + (1.0 - share) * weight
        for name, weight in moved.items()
    }


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
