"""Groups of parameters that a job trains, with their update rules and their learning rates in each step."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.optim.lr_scheduler import LRScheduler

from pol.capture.author.spec import SGD, AdamW, JobSpec, Lion
from pol.capture.optim import updates
from pol.capture.optim.gradient_at import GradientAt
from pol.capture.optim.schedules import Course, courses, other_optimizer_error, several_rates_error
from pol.capture.optim.tables import StepTable, share_tables
from pol.capture.optim.taken import Taken, taken_by_steps
from pol.capture.optim.update_rules import OwnRule, UpdateRule, check_repeatable
from pol.capture.optim.updates import Rule
from pol.errors import JobError

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
    torch.optim.Muon: updates.Muon,
    torch.optim.Rprop: updates.Rprop,
}
_ALL = ", ".join(sorted(kind.__name__ for kind in _RULES))
_WHY = {
    "LBFGS": "computes the loss several times per step, and the values of the loss decide how often",
    "SparseAdam": "needs sparse gradients, and the gradients of a job are dense",
    "ASGD": "averages weights by its own rule; use SGD, and ema=0.999 for the average",
}
"""Reasons why a job cannot use an optimizer of torch."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group of parameters that one rule moves.

    ``varying`` holds a table for each option that varies by step, and ``taken`` the state that the optimizer has from
    earlier steps.
    """

    names: tuple[str, ...]
    rule: Rule
    lr: StepTable
    varying: Mapping[str, StepTable]
    taken: Taken = field(default_factory=Taken)


def trained_groups(spec: JobSpec, steps: int, rows: int, first: int = 0, repeat: int = 1) -> list[Group]:
    """Return the groups of a job with ``rows`` rows of data, whose steps are ``first`` to ``steps`` - 1.

    Each step makes ``repeat`` updates.

    Raises JobError if a job does not support the optimizer, or if the optimizer has parameters of another model.
    """
    owners = {id(p): name for name, p in spec.model.named_parameters()}
    parts: list[_Part] = []
    movers: list[object] = []
    found: list[Course] = []
    for one in _apart(spec):
        own = list(_parts(one, owners))
        parts += own
        movers += [one.optimizer] * len(own)
        if one.schedule is not None and any(isinstance(rule, updates.Rprop) for _, _, rule in own):
            reason = "Rprop uses a learning rate only in its first step, and then sets its own"
            raise JobError("schedule", reason, "leave schedule= out, and set lr in torch.optim.Rprop(…, lr=0.01)")
        found += courses(one, [options for _, options, _ in own], steps, rows, first, repeat)
    if spec.weights == "seed" and any(isinstance(rule, OwnRule) and rule.rule.steps for _, _, rule in parts):
        raise _stale_state()
    _check_one_rate(spec, parts)
    _check_moved_once(parts)
    rates = share_tables([course.lr for course in found], first * repeat)
    if not any(names for names, _, _ in parts):
        remedy = "set requires_grad to True on the parameters to train, and pass them to the optimizer"
        raise JobError("model", "has no parameter to train", remedy)
    if not all(table.is_finite for table in rates):
        remedy = "change the schedule so that it returns a finite number, such as 0.001, for every step"
        raise JobError("schedule", "a learning rate is NaN or infinite", remedy)
    return [
        Group(
            names=some,
            rule=rule,
            lr=rate,
            varying=_varying(rule, course, steps * repeat, first * repeat, taken.steps),
            taken=taken,
        )
        for (names, _, rule), mover, course, rate in zip(parts, movers, found, rates, strict=True)
        for some, taken in _taken(spec, mover, names, rule)
        if some
    ]


def _taken(
    spec: JobSpec, optimizer: object, names: tuple[str, ...], rule: Rule
) -> Iterator[tuple[tuple[str, ...], Taken]]:
    """Yield the names of a group's parameters, with the state that the optimizer already has for them.

    Parameters with different numbers of steps come separately. A custom rule provides its state itself.
    """
    if isinstance(optimizer, GradientAt):
        optimizer = optimizer.base
    if not isinstance(optimizer, _Optimizer) or isinstance(rule, OwnRule):
        yield names, Taken()
        return
    for some, taken in taken_by_steps(spec.model, optimizer, names, rule):
        if taken.steps and spec.weights == "seed":
            raise _stale_state()
        yield some, taken


def _stale_state() -> JobError:
    reason = 'it has state from earlier steps, but weights="seed" draws new weights'
    remedy = "leave weights= out to keep the weights, or create a new optimizer"
    return JobError("optimizer", reason, remedy)


_Part = tuple[tuple[str, ...], Mapping[str, Any], Rule]
"""Names of parameters, the options of their group in torch, and their rule."""


def _apart(spec: JobSpec) -> list[JobSpec]:
    """Return one copy of the job for each optimizer in its list, with the scheduler of that optimizer.

    A job with a single optimizer is returned unchanged.
    """
    optimizers: object = spec.optimizer
    if not isinstance(optimizers, list | tuple):
        return [spec]
    for optimizer in optimizers:
        if not isinstance(optimizer, _Optimizer):
            raise _not_in_a_list(optimizer)
        if isinstance(optimizer, GradientAt):
            name = type(optimizer).__name__
            reason = f"{name} is in a list, but its second gradient needs all weights"
            remedy = f"give {name} alone, without a list: optimizer={name}(torch.optim.SGD(model.parameters(), 0.1), …)"
            raise JobError("optimizer", reason, remedy)
    if not optimizers:
        remedy = "give an optimizer, such as torch.optim.AdamW(model.parameters(), lr=1e-3)"
        raise JobError("optimizer", "the list is empty", remedy)
    schedule: object = spec.schedule
    schedulers = list(schedule) if isinstance(schedule, list | tuple) else [schedule]
    if not all(isinstance(one, LRScheduler) for one in schedulers):
        return [replace(spec, optimizer=optimizer) for optimizer in optimizers]
    specs = []
    for optimizer in optimizers:
        own = [one for one in schedulers if getattr(one, "optimizer", None) is optimizer]
        schedulers = [one for one in schedulers if one not in own]
        mine: Any = None if not own else own[0] if len(own) == 1 else own
        specs.append(replace(spec, optimizer=optimizer, schedule=mine))
    if schedulers:
        raise other_optimizer_error()
    return specs


def _not_in_a_list(optimizer: object) -> JobError:
    if isinstance(optimizer, SGD | AdamW | Lion):
        name = type(optimizer).__name__
        reason = f"assay.{name} moves every parameter, so it cannot be in a list of optimizers"
        kind = "AdamW" if name == "Lion" else name
        return JobError("optimizer", reason, f"use torch.optim.{kind}(parameters, lr=1e-3) with the parameters to move")
    return _unknown(optimizer)


def _check_one_rate(spec: JobSpec, parts: Sequence[_Part]) -> None:
    """Raise JobError if the schedule is a single learning rate but the optimizers of a list have different learning
    rates.
    """
    if spec.schedule is None or isinstance(spec.schedule, LRScheduler | list | tuple):
        return
    rates = {float(options["lr"]) for _, options, _ in parts if "lr" in options}
    if len(rates) > 1:
        raise several_rates_error()


def _check_moved_once(parts: Sequence[_Part]) -> None:
    seen = set[str]()
    for names, _, _ in parts:
        if both := sorted(seen.intersection(names)):
            reason = f"two optimizers of the list have the parameter {both[0]}"
            raise JobError("optimizer", reason, "give each parameter to only one of the optimizers")
        seen.update(names)


def _parts(spec: JobSpec, owners: Mapping[int, str]) -> Iterator[_Part]:
    """Yield the groups of parameters that one optimizer moves."""
    optimizer: object = spec.optimizer
    if isinstance(optimizer, GradientAt):
        optimizer = optimizer.base
    if isinstance(optimizer, _Optimizer):
        yield from _of_torch(optimizer, owners)
        return
    names = tuple(name for name, p in spec.model.named_parameters() if p.requires_grad)
    yield names, {}, _our_rule(optimizer)


def _our_rule(settings: object) -> Rule:
    if isinstance(settings, SGD):
        return updates.GradientDescent(
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            nesterov=settings.nesterov,
        )
    if isinstance(settings, AdamW | Lion):
        kind = updates.LionRule if isinstance(settings, Lion) else updates.Adam
        options = {f.name: getattr(settings, f.name) for f in fields(settings)}
        return kind(**options, decoupled_weight_decay=True)
    raise _unknown(settings)


def _unknown(optimizer: object) -> JobError:
    """Return the error for an object that cannot be a job's optimizer; the remedy depends on its kind."""
    kind = type(optimizer)
    named = {name.lower(): name for name in (each.__name__ for each in _RULES)}
    if isinstance(optimizer, str):
        name = named.get(optimizer.lower(), "AdamW")
        remedy = f"give the optimizer itself: torch.optim.{name}(model.parameters(), lr=1e-3)"
        return JobError("optimizer", f"{optimizer!r} is a name, not an optimizer", remedy)
    if isinstance(optimizer, dict):
        remedy = (
            "give one optimizer with several groups of parameters, [{'params': …, 'lr': …}, …]; if each group has its "
            "own loss, give phases={'name': assay.Phase(loss=…, optimizer=…)}"
        )
        return JobError("optimizer", "a dictionary is not an optimizer", remedy)
    if isinstance(optimizer, type | partial):
        function = optimizer.func if isinstance(optimizer, partial) else optimizer
        name = getattr(function, "__name__", "it")
        what = "a class, not an object" if isinstance(optimizer, type) else "not called yet"
        remedy = f"call it: {name}(model.parameters(), …)"
        return JobError("optimizer", f"{name} is {what}", remedy)
    why = _WHY.get(kind.__name__) if kind.__module__.startswith("torch.") else None
    if why:
        remedy = f"use an optimizer of torch.optim ({_ALL}), or assay.Lion(…)"
        return JobError("optimizer", f"{kind.__name__} {why}", remedy)
    whole = f"{kind.__module__}.{kind.__name__}".removeprefix("builtins.")
    inner = _within(optimizer)
    if inner:
        return JobError("optimizer", f"{whole} is a wrapper around an optimizer", _unwrapped(kind.__name__, *inner))
    remedy = (
        f"use an optimizer of torch.optim ({_ALL}), or write its formula as a function (parameter, gradient, state, "
        "step) and give assay.update_rule(function, model.parameters(), lr=…, state={…}): docs/jobs.md, Update rules"
    )
    if callable(optimizer) and not isinstance(optimizer, _Optimizer):
        name = getattr(optimizer, "__name__", "function")
        remedy = f"give assay.update_rule({name}, model.parameters(), lr=…, state={{…}})"
        return JobError("optimizer", f"{name} is a function, not an optimizer", remedy)
    return JobError("optimizer", f"a job does not support {whole} as optimizer", remedy)


def _within(optimizer: object) -> tuple[str, _Optimizer] | None:
    """Return the optimizer that an object wraps, and the name of the object's attribute that holds this optimizer."""
    for name in ("optimizer", "base_optimizer", "_optimizer", "optim"):
        inner = getattr(optimizer, name, None)
        if isinstance(inner, _Optimizer) and inner is not optimizer:
            return name, inner
    return None


def _unwrapped(kind: str, name: str, inner: _Optimizer) -> str:
    """Return the remedy for an object that wraps an optimizer."""
    lowered = kind.lower()
    if "sam" in lowered:
        return f"use assay.SAM with the base optimizer: assay.SAM(its .{name}, rho=0.05)"
    if "lookahead" in lowered:
        return "write it with assay.update_rule, as examples/optimizers.py does"
    return (
        f"give its .{name} ({type(inner).__name__}) as optimizer, and its learning rate as schedule, a function of the "
        "step from 0, such as schedule=lambda step: wrapper.rate(step + 1)"
    )


def _of_torch(optimizer: _Optimizer, known: Mapping[int, str]) -> Iterator[_Part]:
    """Yield the groups of an optimizer of torch; raise JobError if a parameter is not one of the model's objects."""
    kind = None if isinstance(optimizer, UpdateRule) else _RULES.get(type(optimizer))
    if kind is None and not isinstance(optimizer, UpdateRule):
        raise _unknown(optimizer)
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        reason = "it has step hooks, but a job computes torch's own formula without hooks"
        raise JobError("optimizer", reason, "remove the hooks: call remove() on the handles that registering returned")
    if not _has_own_step(optimizer):
        reason = "its step() was replaced, but a job computes torch's own formula"
        remedy = (
            "keep torch's step(); change weights in the model's forward pass under torch.no_grad(), or with "
            "assay.update_rule(function, model.parameters(), lr=…)"
        )
        raise JobError("optimizer", reason, remedy)
    for index, group in enumerate(optimizer.param_groups):
        names, trained = [], []
        for place, parameter in enumerate(group["params"]):
            name = known.get(id(parameter))
            if name is None:
                shape = tuple(parameter.shape)
                reason = f"parameter {place} of group {index} (shape {shape}) is not a parameter of the model"
                remedy = (
                    "create the optimizer from the model of the JobSpec, after all changes to the model; if the loss "
                    "has parameters, make the loss a submodule of the model"
                )
                raise JobError("optimizer", reason, remedy)
            if parameter.requires_grad:
                names.append(name)
                trained.append(parameter)
        if isinstance(optimizer, UpdateRule):
            check_repeatable(optimizer, group)
            own = dict(zip(names, trained, strict=True))
            yield tuple(names), group, OwnRule(optimizer, index, own)
        else:
            assert kind is not None
            yield tuple(names), group, kind(**_options(kind, group))


def _has_own_step(optimizer: _Optimizer) -> bool:
    """Return whether an optimizer's ``step`` is the method of its class.

    A scheduler may have wrapped the method to count calls.
    """
    replacement = vars(optimizer).get("step")
    if replacement is None:
        return True
    is_wrapped = hasattr(replacement, "_wrapped_by_lr_sched")
    return is_wrapped and getattr(replacement, "__wrapped__", None) is type(optimizer).step


def _options(kind: type[Rule], group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a group that its rule uses, as plain numbers. The group's other options do not change the
    formula.
    """
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    return {name: _plain(value) for name, value in group.items() if name in known}


def _plain(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return float(value)
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def _varying(rule: Rule, course: Course, steps: int, first: int, done: int) -> dict[str, StepTable]:
    """Return the tables of the options that vary, for the steps from ``first`` on.

    ``done`` is the number of steps that the optimizer had made before the job began.
    """
    tables = {
        # Past its end, a table keeps its last number.
        name: StepTable(values[done + first :] or values[-1:], steps=steps - first, first=first)
        for name, values in rule.tables(done + steps).items()
    }
    options = dict(course.options)
    if done and "correction1" in options:
        momenta = options["beta1"]
        options["correction1"] = 1.0 - momenta ** (done + first + np.arange(1, len(momenta) + 1))
    return {
        **tables,
        **{name: StepTable(values, first=first) for name, values in options.items()},
    }
