"""Schedules: the learning rate of each group of parameters in each step, and also the momentum if it cycles."""

import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from pol.capture.author.spec import DEFAULT_RATE, JobSpec
from pol.capture.optim.gradient_at import GradientAt
from pol.capture.optim.tables import check_length
from pol.errors import JobError
from pol.state.arrays import Array

_CYCLES = ("SGD", "RMSprop", "Adam", "AdamW", "Muon", "UpdateRule")
"""Optimizers whose momentum (or first beta, if they have no momentum) may vary by step."""


@dataclass(frozen=True, slots=True)
class Course:
    """Learning rates of a group, and the other options of its rule that vary by step.

    ``lr`` has one number per step, or a single number for all steps.
    """

    lr: Array
    options: Mapping[str, Array] = field(default_factory=dict)

    def after(self, first: int) -> "Course":
        """Return the course without the steps before ``first``."""
        return Course(self.lr[first:], {name: values[first:] for name, values in self.options.items()})


def several_rates_error() -> JobError:
    """Return the error for a single learning rate as the schedule of an optimizer whose groups have different learning
    rates.
    """
    reason = "is one learning rate, but the groups of the optimizer have different learning rates"
    remedy = "use torch.optim.lr_scheduler.LambdaLR(optimizer, function) with a function that returns a factor"
    return JobError("schedule", reason, remedy)


def other_optimizer_error() -> JobError:
    """Return the error for a scheduler that was created with an optimizer other than the job's."""
    remedy = "give the optimizer with which the scheduler was created, and only one scheduler of it"
    return JobError("schedule", "it is the scheduler of another optimizer", remedy)


def courses(
    spec: JobSpec,
    groups: Sequence[Mapping[str, Any]],
    steps: int,
    rows: int,
    first: int = 0,
    repeat: int = 1,
) -> list[Course]:
    """Return the course of each group; a group without ``lr`` gets the learning rate of the schedule.

    The courses cover the steps ``first`` to ``steps`` - 1. The schedule itself began at step 0. If a step makes
    ``repeat`` updates, they all have the same rate, and a course has one entry per update.

    Raises JobError if the schedule has no value for a step, or depends on something other than the step.
    """
    schedule: object = spec.schedule
    if isinstance(schedule, list | tuple):
        reason, remedy = (
            "is a list, but an optimizer of a job has one schedule",
            "combine the schedulers with torch.optim.lr_scheduler.ChainedScheduler or SequentialLR",
        )
        raise JobError("schedule", reason, remedy)
    if isinstance(schedule, ReduceLROnPlateau):
        reason = (
            "ReduceLROnPlateau depends on the loss, but the learning rates of a job are fixed before it starts, "
            "so that each step can be recomputed alone"
        )
        remedy = "use CosineAnnealingLR, or MultiStepLR with the steps at which the rate falls"
        raise JobError("schedule", reason, remedy)
    if isinstance(schedule, LRScheduler):
        return _of_scheduler(spec, schedule, steps, rows, first, repeat)
    if spec.schedule_every != 1:
        reason = "sets how often a scheduler of torch is stepped, but the schedule is not a scheduler of torch"
        raise JobError("schedule_every", reason, "leave schedule_every= out")
    own = [float(group["lr"]) for group in groups if "lr" in group]
    if schedule is None:
        return [Course(np.array([rate])) for rate in own or [DEFAULT_RATE]]
    if len(set(own)) > 1:
        raise several_rates_error()
    last = steps if callable(schedule) else first + 1
    rates = np.array([spec.learning_rate(step) for step in range(first, last)])
    if (rates != rates[0]).any():
        check_length(len(rates) * repeat)
        rates = np.repeat(rates, repeat)
    return [Course(rates)] * len(groups)


def _of_scheduler(
    spec: JobSpec, scheduler: LRScheduler, steps: int, rows: int, first: int, repeat: int
) -> list[Course]:
    """Return the courses that a torch scheduler yields in all steps, from step 0 on.

    A copy of the scheduler takes these steps.
    """
    owner: object = getattr(scheduler, "optimizer", None)
    optimizer: object = spec.optimizer
    base = optimizer.base if isinstance(optimizer, GradientAt) else optimizer
    if owner is not optimizer and owner is not base:
        raise other_optimizer_error()
    assert isinstance(owner, torch.optim.Optimizer)
    check_length((steps - first) * repeat)
    running = _copy(scheduler, owner)
    groups = running.optimizer.param_groups
    turns = _turns(spec, steps, rows)
    seen = [_Seen(group) for group in groups]
    wanted = first + spec.steps_for(rows)
    with warnings.catch_warnings():
        # torch warns that the optimizer makes no steps.
        warnings.simplefilter("ignore")
        for step in range(steps):
            # Steps that only fill the last round keep the last rate: a scheduler may end there, or begin again.
            if step in turns and step < wanted:
                try:
                    running.step()
                except ValueError as error:
                    reason = f"it ends before step {step} of {wanted}: {error}"
                    remedy = f"create the scheduler for {wanted} steps, such as OneCycleLR(…, total_steps={wanted})"
                    raise JobError("schedule", reason, remedy) from None
            for one, group in zip(seen, groups, strict=True):
                one.record(group)
    kind = type(base).__name__
    return [one.course(kind, repeat).after(first * repeat) for one in seen]


def _copy(scheduler: LRScheduler, optimizer: torch.optim.Optimizer) -> LRScheduler:
    """Return a copy of a scheduler and its optimizer, so that the originals do not change; parameters are shared."""
    shared = [p for group in optimizer.param_groups for p in group["params"]]
    return deepcopy(scheduler, {id(p): p for p in shared})


def _turns(spec: JobSpec, steps: int, rows: int) -> "range | set[int]":
    """Return the numbers of the steps before which the scheduler's ``step()`` is called."""
    if spec.schedule_every != "epoch":
        return range(spec.schedule_every, steps, spec.schedule_every)
    each = spec.batch * spec.slots
    return {step for step in range(1, steps) if step * each // rows > (step - 1) * each // rows}


class _Seen:
    """A record of the options of one group in each step so far."""

    def __init__(self, group: Mapping[str, Any]) -> None:
        self._rates: list[float] = []
        self._momenta: list[float] = []
        self._others = _others(group)
        self._is_beta = "betas" in group

    def record(self, group: Mapping[str, Any]) -> None:
        if _others(group) != self._others:
            reason = "it changes options of the optimizer other than learning rate and momentum"
            raise JobError("schedule", reason, "use a scheduler that changes only these two, such as OneCycleLR")
        self._rates.append(float(group["lr"]))
        self._momenta.append(_momentum(group))

    def course(self, kind: str, repeat: int) -> Course:
        rates, momenta = (np.repeat(seen, repeat) for seen in (self._rates, self._momenta))
        if (momenta == momenta[0]).all():
            return Course(rates)
        if kind not in _CYCLES:
            reason = f"it changes the momentum, which {kind} does not support in a job"
            raise JobError("schedule", reason, "create the scheduler with cycle_momentum=False")
        if not momenta.all():
            reason = "it sets the momentum to 0 in some step"
            raise JobError("schedule", reason, "create the scheduler with a base_momentum above 0, such as 0.85")
        if not self._is_beta:
            return Course(rates, {"momentum": momenta})
        powers = momenta ** np.arange(1, len(momenta) + 1)
        return Course(rates, {"beta1": momenta, "correction1": 1.0 - powers})


def _momentum(group: Mapping[str, Any]) -> float:
    return float(group["betas"][0] if "betas" in group else group.get("momentum", 0.0))


def _others(group: Mapping[str, Any]) -> dict[str, Any]:
    betas = {"betas": group["betas"][1:]} if "betas" in group else {}
    apart = ("params", "lr", "momentum", "max_momentum", "base_momentum")
    return {name: value for name, value in group.items() if name not in apart} | betas
