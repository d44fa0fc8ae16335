"""The state that an optimizer of torch already has, as the local state that the slots of a job begin with.

Each tensor of it is what a rule keeps of a parameter, under nearly the same name. What torch counts in steps is a
number of the group in a job (1 - beta^n), or moves what goes by the number of the step. Parameters for which the
optimizer has made different numbers of steps have these numbers apart.
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
_IN_TORCH = {_MOMENTUM: "momentum_buffer"}
"""What a rule keeps, to the name in torch where that is another."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The steps that an optimizer made for the parameters of a group, and its state."""

    steps: int = 0
    numbers: Mapping[str, float] = field(default_factory=dict)
    tensors: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """By the names that they have in the local state."""


def taken_by_steps(
    model: nn.Module, optimizer: torch.optim.Optimizer, names: Sequence[str], rule: Rule
) -> Iterator[tuple[tuple[str, ...], Taken]]:
    """Yield the names of a group, apart by the steps that the optimizer has made for them, with its state of them.

    Raises JobError when the state is not that of the rule or of the parameters.
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
    """Return the numbers of a group after so many steps; ``product`` is that of the momenta, where a rule has one."""
    known: dict[str, float] = {"mu_product": product}
    match rule:
        case updates.Adam() | updates.NAdam() | updates.RAdam() | updates.Adamax():
            first, second = rule.betas
            known |= {"correction1": 1.0 - first**steps, "correction2": 1.0 - second**steps}
    if isinstance(rule, updates.NAdam):
        known["decay_power"] = 0.96 ** (rule.momentum_decay * steps)
    return {name: known[name] for name in rule.numbers()} if steps else dict(rule.numbers())


def left_of(
    model: nn.Module, optimizer: torch.optim.Optimizer, names: Sequence[str], rule: Rule
) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    """Return the state of an optimizer of parameters for which it has made equally many steps: tensors and numbers."""
    (_, taken), *_ = taken_by_steps(model, optimizer, names, rule)
    return dict(taken.tensors), dict(taken.numbers)


def said_of(taken: Sequence[Taken]) -> str | None:
    """Return a line on the state that is taken; None where there is none."""
    used = [part for part in taken if part.steps]
    if not used:
        return None
    names = {name.partition(".") for part in used for name in part.tensors}
    kinds, count = sorted({kind for kind, _, _ in names}), len({name for _, _, name in names})
    steps = max(part.steps for part in used)
    after = f", after {steps:,} steps" if steps > 1 else ""
    return f"the optimizer goes on from its state{after}: {listed(kinds)} of {count:,} parameters"


def steps_of(state: Mapping[str, Any]) -> int:
    """Return the steps that an optimizer has made for a parameter; SGD does not count, and has a momentum or none."""
    if "step" in state:
        return int(state["step"])
    return int(state.get(_IN_TORCH[_MOMENTUM]) is not None)


def _tensors(
    name: str, parameter: nn.Parameter, state: Mapping[str, Any], rule: Rule
) -> Iterator[tuple[str, torch.Tensor]]:
    for kind, shape in rule.shapes(parameter.shape).items() if state else ():
        found = state.get(_IN_TORCH.get(kind, kind))
        if found is None and kind == _MOMENTUM and isinstance(rule, updates.GradientDescent):
            # there was no step yet
            continue
        if not isinstance(found, torch.Tensor) or found.shape != shape:
            what = f"of shape {list(found.shape)}" if isinstance(found, torch.Tensor) else "missing"
            reason = f"{kind} of {name} is {what} in its state, and the optimizer needs {list(shape)}"
            raise JobError("optimizer", reason, "make a new optimizer of the model, without state")
        tensor = found.detach().to("cpu", torch.float32).clone()
        if not bool(torch.isfinite(tensor).all()):
            reason = f"{kind} of {name} holds NaN or infinity in its state"
            raise JobError("optimizer", reason, "make a new optimizer of the model, without state")
        yield kind, tensor
