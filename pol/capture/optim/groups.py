"""Groups of parameters: those that a job trains, their rule, and their learning rate in each step."""

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
from pol.capture.optim.schedules import Course, courses, of_another, several_rates
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
    "LBFGS": "computes the loss several times in a step, as often as its values ask for",
    "SparseAdam": "takes sparse gradients, and those of a job are dense",
    "ASGD": "averages weights by a rule of its own; take SGD, and ema=0.999 for the average",
}


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters that one rule moves; ``varying`` are its options that have a table, ``taken`` its state so far."""

    names: tuple[str, ...]
    rule: Rule
    lr: StepTable
    varying: Mapping[str, StepTable]
    taken: Taken = field(default_factory=Taken)


def trained_groups(spec: JobSpec, steps: int, rows: int, first: int = 0, repeat: int = 1) -> list[Group]:
    """Return the groups of a job with so many rows of data, whose steps are ``first`` to ``steps`` - 1.

    Each step makes ``repeat`` updates.

    Raises JobError when the optimizer is none that a job knows, or not this model's.
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
            reason = "Rprop takes a learning rate for its first step only, and then makes its own"
            raise JobError("schedule", reason, "leave it out, and give torch.optim.Rprop its lr")
        found += courses(one, [options for _, options, _ in own], steps, rows, first, repeat)
    if spec.weights == "seed" and any(isinstance(rule, OwnRule) and rule.rule.steps for _, _, rule in parts):
        reason = "it has state of steps that it has made, and the weights are drawn anew"
        remedy = "leave weights= out, which keeps the weights, or make a new optimizer"
        raise JobError("optimizer", reason, remedy)
    _check_one_rate(spec, parts)
    _check_moved_once(parts)
    rates = share_tables([course.lr for course in found], first * repeat)
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
    """Yield the names of a group with what the optimizer has of them already; a person's own rule has it itself."""
    if isinstance(optimizer, GradientAt):
        optimizer = optimizer.base
    if not isinstance(optimizer, _Optimizer) or isinstance(rule, OwnRule):
        yield names, Taken()
        return
    for some, taken in taken_by_steps(spec.model, optimizer, names, rule):
        if taken.steps and spec.weights == "seed":
            reason = "it has state of steps that it has made, and the weights are drawn anew"
            remedy = "leave weights= out, which keeps the weights, or make a new optimizer"
            raise JobError("optimizer", reason, remedy)
        yield some, taken


_Part = tuple[tuple[str, ...], Mapping[str, Any], Rule]
"""Names of parameters, the options of torch's group, and the rule."""


def _apart(spec: JobSpec) -> list[JobSpec]:
    """Return a job for each optimizer of a list, with the scheduler that is made of it."""
    optimizers: object = spec.optimizer
    if not isinstance(optimizers, list | tuple):
        return [spec]
    for optimizer in optimizers:
        if not isinstance(optimizer, _Optimizer):
            raise _not_in_a_list(optimizer)
        if isinstance(optimizer, GradientAt):
            reason = f"{type(optimizer).__name__} is in a list, and its second gradient is one for all weights"
            raise JobError("optimizer", reason, "give it alone, around one optimizer")
    if not optimizers:
        raise JobError("optimizer", "the list is empty", "give an optimizer")
    schedule: object = spec.schedule
    given = list(schedule) if isinstance(schedule, list | tuple) else [schedule]
    if not all(isinstance(one, LRScheduler) for one in given):
        return [replace(spec, optimizer=optimizer) for optimizer in optimizers]
    found = []
    for optimizer in optimizers:
        own = [one for one in given if getattr(one, "optimizer", None) is optimizer]
        given = [one for one in given if one not in own]
        mine: Any = None if not own else own[0] if len(own) == 1 else own
        found.append(replace(spec, optimizer=optimizer, schedule=mine))
    if given:
        raise of_another()
    return found


def _not_in_a_list(optimizer: object) -> JobError:
    if isinstance(optimizer, SGD | AdamW | Lion):
        name = type(optimizer).__name__
        reason = f"assay.{name} moves every parameter, and is in a list of optimizers"
        kind = "AdamW" if name == "Lion" else name
        return JobError("optimizer", reason, f"give torch.optim.{kind} the parameters that it moves")
    return _unknown(optimizer)


def _check_one_rate(spec: JobSpec, parts: Sequence[_Part]) -> None:
    """Refuse one learning rate for optimizers of a list that have several."""
    if spec.schedule is None or isinstance(spec.schedule, LRScheduler | list | tuple):
        return
    rates = {float(options["lr"]) for _, options, _ in parts if "lr" in options}
    if len(rates) > 1:
        raise several_rates()


def _check_moved_once(parts: Sequence[_Part]) -> None:
    seen = set[str]()
    for names, _, _ in parts:
        if both := sorted(seen.intersection(names)):
            reason = f"two optimizers of the list hold {both[0]}, and each step moves it once"
            raise JobError("optimizer", reason, "give each parameter to one of them")
        seen.update(names)


def _parts(spec: JobSpec, owners: Mapping[int, str]) -> Iterator[_Part]:
    """Yield what one optimizer moves, by groups."""
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
    """Return the refusal of what is no optimizer of a job, with what to give instead."""
    kind = type(optimizer)
    named = {name.lower(): name for name in (each.__name__ for each in _RULES)}
    if isinstance(optimizer, str):
        name = named.get(optimizer.lower(), "AdamW")
        remedy = f"give the optimizer, torch.optim.{name}(model.parameters(), lr=1e-3)"
        return JobError("optimizer", f"{optimizer!r} is a name", remedy)
    if isinstance(optimizer, dict):
        remedy = (
            "give one optimizer with a group of parameters for each, [{'params': …, 'lr': …}, …]; where each has a "
            "loss of its own, give phases={'name': assay.Phase(loss=…, optimizer=…)}"
        )
        return JobError("optimizer", "a dictionary is no optimizer", remedy)
    if isinstance(optimizer, type | partial):
        made = optimizer.func if isinstance(optimizer, partial) else optimizer
        name = getattr(made, "__name__", "it")
        what = "a class" if isinstance(optimizer, type) else "not called yet"
        remedy = f"give the object, {name}(model.parameters(), …)"
        return JobError("optimizer", f"{name} is {what}", remedy)
    why = _WHY.get(kind.__name__) if kind.__module__.startswith("torch.") else None
    if why:
        remedy = f"give one of torch.optim ({_ALL}), or assay.Lion(…)"
        return JobError("optimizer", f"{kind.__name__} {why}", remedy)
    whole = f"{kind.__module__}.{kind.__name__}".removeprefix("builtins.")
    inner = _within(optimizer)
    if inner:
        return JobError("optimizer", f"{whole} is around an optimizer", _unwrapped(kind.__name__, *inner))
    remedy = (
        f"give one of torch.optim ({_ALL}), or write its formula as a function (parameter, gradient, state, step) and "
        "give assay.update_rule(function, model.parameters(), lr=…, state={…}): docs/jobs.md, Update rules"
    )
    if callable(optimizer) and not isinstance(optimizer, _Optimizer):
        name = getattr(optimizer, "__name__", "function")
        remedy = f"give assay.update_rule({name}, model.parameters(), lr=…, state={{…}})"
        return JobError("optimizer", f"{name} is a function", remedy)
    return JobError("optimizer", f"{whole} is no optimizer that a job knows", remedy)


def _within(optimizer: object) -> tuple[str, _Optimizer] | None:
    """Return the optimizer that an object is around, and its name there."""
    for name in ("optimizer", "base_optimizer", "_optimizer", "optim"):
        inner = getattr(optimizer, name, None)
        if isinstance(inner, _Optimizer) and inner is not optimizer:
            return name, inner
    return None


def _unwrapped(kind: str, name: str, inner: _Optimizer) -> str:
    """Return what to give instead of an object around an optimizer."""
    own = f"give that, .{name} ({type(inner).__name__})"
    lowered = kind.lower()
    if "sam" in lowered:
        return f"give assay.SAM around the base optimizer, assay.SAM(its .{name}, rho=0.05)"
    if "lookahead" in lowered:
        return "write it with assay.update_rule, as examples/optimizers.py does"
    return (
        f"{own}, as optimizer, and its learning rate as schedule, a function of the step from 0, such as "
        f"schedule=lambda step: it.rate(step + 1)"
    )


def _of_torch(optimizer: _Optimizer, known: Mapping[int, str]) -> Iterator[_Part]:
    """Yield the groups of an optimizer, whose parameters are the model's own objects."""
    kind = None if isinstance(optimizer, UpdateRule) else _RULES.get(type(optimizer))
    if kind is None and not isinstance(optimizer, UpdateRule):
        raise _unknown(optimizer)
    # torch does not record groups that are added by hand.
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        reason = "it has hooks, and a step of a job is torch's own formula"
        raise JobError("optimizer", reason, "give it without hooks")
    if not _has_own_step(optimizer):
        reason = "its step() was put in the place of torch's own, whose formula a step of a job is"
        remedy = (
            "leave it as torch has it; what it does to weights belongs into the model's forward pass, "
            "under torch.no_grad(), or into assay.update_rule(function, model.parameters(), lr=…)"
        )
        raise JobError("optimizer", reason, remedy)
    for index, group in enumerate(optimizer.param_groups):
        names, trained = [], []
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
                trained.append(parameter)
        if isinstance(optimizer, UpdateRule):
            check_repeatable(optimizer, group)
            own = dict(zip(names, trained, strict=True))
            yield tuple(names), group, OwnRule(optimizer, index, own)
        else:
            assert kind is not None
            yield tuple(names), group, kind(**_options(kind, group))


def _has_own_step(optimizer: _Optimizer) -> bool:
    """Return whether an optimizer's ``step`` is that of its class; a scheduler of torch wraps it to count its calls."""
    given = vars(optimizer).get("step")
    return given is None or (
        hasattr(given, "_wrapped_by_lr_sched") and getattr(given, "__wrapped__", None) is type(optimizer).step
    )


def _options(kind: type[Rule], group: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group's options that a rule has, as plain numbers; the others say how torch computes, not what."""
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    return {name: _plain(value) for name, value in group.items() if name in known}


def _plain(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return float(value)
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def _varying(rule: Rule, course: Course, steps: int, first: int, done: int) -> dict[str, StepTable]:
    """Return the tables of a rule in the steps from ``first`` on, before which it has made ``done`` others."""
    tables = {
        # after its end, a table stays at its last number
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
