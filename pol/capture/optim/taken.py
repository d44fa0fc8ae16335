"""Existing state of an optimizer of torch, as the initial local state of the slots of a job.

For each parameter, a rule of a job keeps the same tensors as torch, under nearly the same names. Torch also counts
steps. In a job, these counts become numbers of a group (1 - beta^n), and offsets of the step number. Parameters with
different counts of steps go into different groups.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from pol.capture.optim import updates
from pol.capture.optim.updates import Rule
from pol.capture.reports.reasons import listed
from pol.errors import JobError

_MOMENTUM = "momentum"
_NEW = "create a new optimizer, which has no state, such as torch.optim.AdamW(model.parameters(), lr=1e-3)"
_IN_TORCH = {_MOMENTUM: "momentum_buffer"}
"""Torch's names for tensors of a rule's state, where they differ from the names in a job."""


@dataclass(frozen=True, slots=True)
class Taken:
    """State that an optimizer already has for the parameters of a group, and the number of steps that the optimizer has
    made for these parameters.
    """

    steps: int = 0
    numbers: Mapping[str, float] = field(default_factory=dict)
    tensors: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Tensors by their names in the local state."""


def taken_by_steps(
    model: nn.Module, optimizer: torch.optim.Optimizer, names: Sequence[str], rule: Rule
) -> Iterator[tuple[tuple[str, ...], Taken]]:
    """Yield the names of a group, split by the number of steps that the optimizer has made, each part with its state.

    Raises JobError if the state does not fit the rule or the parameters.
    """
    parameters = dict(model.named_parameters())
    states: dict[str, Mapping[str, Any]] = {name: optimizer.state.get(parameters[name], {}) for name in names}
    apart: dict[tuple[int, float], list[str]] = {}
    for name, state in states.items():
        key = steps_of(state), float(state.get("mu_product", 1.0))
        apart.setdefault(key, []).append(name)
    for (steps, product), some in apart.items():
        tensors = {
            f"{kind}.{name}": tensor
            for name in some
            for kind, tensor in _tensors(name, parameters[name], states[name], rule)
        }
        yield tuple(some), Taken(steps, numbers_after(rule, steps, product), tensors)


def numbers_after(rule: Rule, steps: int, product: float) -> dict[str, float]:
    """Return the numbers of a group after ``steps`` steps. ``product`` is the product of all momenta, which only NAdam
    needs.
    """
    known: dict[str, float] = {"mu_product": product}
    match rule:
        case updates.Adam() | updates.NAdam() | updates.RAdam() | updates.Adamax():
            first, second = rule.betas
            known |= {"correction1": 1.0 - first**steps, "correction2": 1.0 - second**steps}
    if isinstance(rule, updates.NAdam):
        known["decay_power"] = 0.96 ** (rule.momentum_decay * steps)
    return {name: known[name] for name in rule.numbers()} if steps else dict(rule.numbers())


def optimizer_state(
    model: nn.Module, optimizer: torch.optim.Optimizer, names: Sequence[str], rule: Rule
) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    """Return the tensors and numbers that an optimizer keeps for the parameters ``names``.

    The optimizer must have made the same number of steps for all of these parameters.
    """
    (_, taken), *_ = taken_by_steps(model, optimizer, names, rule)
    return dict(taken.tensors), dict(taken.numbers)


def describe_state(taken: Sequence[Taken]) -> str | None:
    """Return a line for the report about the state from which the optimizer continues, or None if there is none."""
    used = [part for part in taken if part.steps]
    if not used:
        return None
    names = {name.partition(".") for part in used for name in part.tensors}
    kinds, count = sorted({kind for kind, _, _ in names}), len({name for _, _, name in names})
    steps = max(part.steps for part in used)
    after = f", after {steps:,} steps" if steps > 1 else ""
    return f"the optimizer continues from its state{after}: {listed(kinds)} of {count:,} parameters"


def steps_of(state: Mapping[str, Any]) -> int:
    """Return the number of steps that an optimizer has made for a parameter.

    SGD keeps no count. For SGD, the number is 1 if the state has a momentum, and 0 otherwise.
    """
    if "step" in state:
        return int(state["step"])
    return int(state.get(_IN_TORCH[_MOMENTUM]) is not None)


def _tensors(
    name: str, parameter: nn.Parameter, state: Mapping[str, Any], rule: Rule
) -> Iterator[tuple[str, torch.Tensor]]:
    for kind, shape in rule.shapes(parameter.shape).items() if state else ():
        value = state.get(_IN_TORCH.get(kind, kind))
        if value is None and kind == _MOMENTUM and isinstance(rule, updates.GradientDescent):
            # There was no step yet.
            continue
        if not isinstance(value, torch.Tensor) or value.shape != shape:
            what = f"of shape {list(value.shape)}" if isinstance(value, torch.Tensor) else "missing"
            reason = f"{kind} of {name} is {what} in its state, but must have the shape {list(shape)}"
            raise JobError("optimizer", reason, _NEW)
        tensor = value.detach().to("cpu", torch.float32).clone()
        if not bool(torch.isfinite(tensor).all()):
            reason = f"{kind} of {name} has NaN or infinity in its state"
            raise JobError("optimizer", reason, _NEW)
        yield kind, tensor
