"""Which parameters a job trains, by which rule, and with what learning rate in each step."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from torch import nn

from pol.errors import JobError
from pol.tracing import updates
from pol.tracing.schedules import Course, courses
from pol.tracing.spec import SGD, AdamW, JobSpec, Lion
from pol.tracing.tables import Table, share_tables
from pol.tracing.taken import Taken, taken_by_steps
from pol.tracing.updates import Rule

_Optimizer = torch.optim.Optimizer
_RULES: dict[type[_Optimizer], type[Rule]] = {
    torch.optim.SGD: updates.GradientDescent,
    torch.optim.Adam: updates.Adam,
    torch.optim.AdamW: updates.Adam,
    torch.optim.NAdam: updates.NAdam,
    torch.optim.RAdam: updates.RAdam,
    torch.optim.Adamax: updates.Adamax,
    torch.optim.RMSprop: updates.RMSprop,
    torch.optim.Adagrad: updates.Adagrad,
    torch.optim.Adadelta: updates.Adadelta,
    torch.optim.Adafactor: updates.Adafactor,
    torch.optim.Rprop: updates.Rprop,
}
_ALL = ", ".join(sorted(kind.__name__ for kind in _RULES))
_WHY = {
    "LBFGS": "computes the loss several times in a step, as often as its values ask for",
    "SparseAdam": "takes sparse gradients, and those of a job are dense",
    "ASGD": "averages weights by a rule of its own; take SGD, and ema=0.999 for the average",
    "Muon": "has no form in a job yet",
}


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters that one rule moves; ``varying`` are its options that have a table, ``taken`` its state so far."""

    names: tuple[str, ...]
    rule: Rule
    lr: Table
    varying: Mapping[str, Table]
    taken: Taken = field(default_factory=Taken)


def trained_groups(spec: JobSpec, steps: int, rows: int, first: int = 0) -> list[Group]:
    """Return the groups of a job with so many rows of data, whose steps are ``first`` to ``steps`` - 1.

    Raises JobError when the optimizer is none that a job knows, or not this model's.
    """
    optimizer: object = spec.optimizer
    parts = list(
        _of_torch(spec.model, optimizer) if isinstance(optimizer, _Optimizer) else _ours(spec)
    )
    if spec.schedule is not None and any(isinstance(rule, updates.Rprop) for _, _, rule in parts):
        reason = "Rprop takes a learning rate for its first step only, and then makes its own"
        raise JobError("schedule", reason, "leave it out, and give torch.optim.Rprop its lr")
    found = courses(spec, [options for _, options, _ in parts], steps, rows, first)
    rates = share_tables([course.lr for course in found], first)
    if not any(names for names, _, _ in parts):
        remedy = "set requires_grad, and give the optimizer its parameters"
        raise JobError("model", "has no parameter to train", remedy)
    if not all(table.is_finite for table in rates):
        raise JobError("schedule", "a learning rate is NaN or infinite", "check the schedule")
    return [
        Group(
            names=some,
            rule=rule,
            lr=rate,
            varying=_varying(rule, course, steps, first, taken.steps),
            taken=taken,
        )
        for (names, _, rule), course, rate in zip(parts, found, rates, strict=True)
        for some, taken in _taken(spec, names, rule)
        if some
    ]


def _taken(
    spec: JobSpec, names: tuple[str, ...], rule: Rule
) -> Iterator[tuple[tuple[str, ...], Taken]]:
    """Yield the names of a group with what the optimizer has of them already."""
    if not isinstance(spec.optimizer, _Optimizer):
        yield names, Taken()
        return
    for some, taken in taken_by_steps(spec.model, spec.optimizer, names, rule):
        if taken.steps and spec.weights == "seed":
            reason = "it has state of steps that it has made, and the weights are drawn anew"
            remedy = "leave weights= out, which keeps the weights, or make a new optimizer"
            raise JobError("optimizer", reason, remedy)
        yield some, taken


_Part = tuple[tuple[str, ...], Mapping[str, Any], Rule]
"""Names of parameters, the options of torch's group, and the rule."""


def _ours(spec: JobSpec) -> list[_Part]:
    names = tuple(name for name, p in spec.model.named_parameters() if p.requires_grad)
    return [(names, {}, _our_rule(spec.optimizer))]


def _our_rule(settings: object) -> Rule:
    if isinstance(settings, SGD):
        return updates.GradientDescent(
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            nesterov=settings.nesterov,
        )
    if isinstance(settings, AdamW | Lion):
        kind = updates.Lion if isinstance(settings, Lion) else updates.Adam
        options = {f.name: getattr(settings, f.name) for f in fields(settings)}
        return kind(**options, decoupled_weight_decay=True)
    if isinstance(settings, list | tuple | dict):
        remedy = (
            "give one optimizer with a group of parameters for each, [{'params': …, 'lr': …}, …]"
        )
        raise JobError("optimizer", "a job has one optimizer, which moves all in each step", remedy)
    if isinstance(settings, type):
        remedy = f"give the object, {settings.__name__}(model.parameters(), …)"
        raise JobError("optimizer", f"{settings.__name__} is a class", remedy)
    raise _unknown(settings)


def _unknown(optimizer: object) -> JobError:
    kind = type(optimizer)
    why = _WHY.get(kind.__name__) if kind.__module__.startswith("torch.") else None
    reason = f"{kind.__name__} {why}" if why else f"{kind.__module__}.{kind.__name__} is not known"
    return JobError("optimizer", reason, f"give one of torch.optim ({_ALL}), or assay.Lion(…)")


def _of_torch(model: nn.Module, optimizer: _Optimizer) -> Iterator[_Part]:
    """Yield the groups of an optimizer, whose parameters are the model's own objects."""
    kind = _RULES.get(type(optimizer))
    if kind is None:
        raise _unknown(optimizer)
    # Whether another is added by hand, torch does not tell.
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        reason = "it has hooks, and a step of a job is torch's own formula"
        raise JobError("optimizer", reason, "give it without hooks")
    known = {id(parameter): name for name, parameter in model.named_parameters()}
    for index, group in enumerate(optimizer.param_groups):
        names = []
        for place, parameter in enumerate(group["params"]):
            name = known.get(id(parameter))
            if name is None:
                shape = tuple(parameter.shape)
                reason = f"parameter {place} of group {index} ({shape}) is none of the model's"
                remedy = (
                    "make the optimizer of the very model that the JobSpec has, after all changes to it, with "
                    "what a loss trains as a part of it"
                )
                raise JobError("optimizer", reason, remedy)
            if parameter.requires_grad:
                names.append(name)
        yield tuple(names), group, kind(**_options(kind, group))


def _options(kind: type[Rule], group: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group's options that a rule has, as plain numbers; the others say how torch computes, not what."""
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    return {name: _plain(value) for name, value in group.items() if name in known}


def _plain(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return float(value)
    return tuple(map(_plain, value)) if isinstance(value, Sequence) else value


def _varying(rule: Rule, course: Course, steps: int, first: int, done: int) -> dict[str, Table]:
    """Return the tables of a rule in the steps from ``first`` on, before which it has made ``done`` others."""
    tables = {
        # after its end, a table stays at its last number
        name: Table(values[done + first :] or values[-1:], steps=steps - first, first=first)
        for name, values in rule.tables(done + steps).items()
    }
    options = dict(course.options)
    if done and "correction1" in options:
        momenta = options["beta1"]
        options["correction1"] = 1.0 - momenta ** (done + first + np.arange(1, len(momenta) + 1))
    return {
        **tables,
        **{name: Table(values, first=first) for name, values in options.items()},
    }
