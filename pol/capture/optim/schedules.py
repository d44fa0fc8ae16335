"""The values of a schedule in each step: learning rates, and a momentum that cycles, per group of parameters."""

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
"""Optimizers whose momentum, or first beta, may vary by step."""


@dataclass(frozen=True, slots=True)
class Course:
    """Learning rate of each step (or the one of all), and other options of a rule that vary."""

    lr: Array
    options: Mapping[str, Array] = field(default_factory=dict)

    def after(self, first: int) -> "Course":
        """Return the part from a step on."""
        return Course(self.lr[first:], {name: values[first:] for name, values in self.options.items()})


def several_rates() -> JobError:
    """Return the refusal of one learning rate for groups that have several."""
    reason = "is one learning rate, and the groups of the optimizer have several"
    remedy = "give torch.optim.lr_scheduler.LambdaLR(optimizer, …), whose function returns a factor"
    return JobError("schedule", reason, remedy)


def of_another() -> JobError:
    """Return the refusal of a scheduler that is made of another optimizer than the job's."""
    remedy = "give the optimizer that the scheduler was made with, and one scheduler of it"
    return JobError("schedule", "it is the scheduler of another optimizer", remedy)


def courses(
    spec: JobSpec,
    groups: Sequence[Mapping[str, Any]],
    steps: int,
    rows: int,
    first: int = 0,
    repeat: int = 1,
) -> list[Course]:
    """Return the course of each group; a group without ``lr`` has that of the schedule.

    It is that of the steps ``first`` to ``steps`` - 1, of a schedule that began at step 0. With ``repeat`` updates in a
    step, which have the same rate, it goes from update to update.

    Raises JobError when the schedule has no value in some step, or depends on more than the step.
    """
    schedule: object = spec.schedule
    if isinstance(schedule, list | tuple):
        reason, remedy = (
            "a job has one schedule",
            "put them into a ChainedScheduler or SequentialLR",
        )
        raise JobError("schedule", reason, remedy)
    if isinstance(schedule, ReduceLROnPlateau):
        reason = (
            "ReduceLROnPlateau looks at the loss, and a job's learning rates are fixed before it starts, "
            "so that every step can be computed again alone"
        )
        remedy = "give CosineAnnealingLR, or MultiStepLR with the steps at which it shall fall"
        raise JobError("schedule", reason, remedy)
    if isinstance(schedule, LRScheduler):
        return _of_scheduler(spec, schedule, steps, rows, first, repeat)
    if spec.schedule_every != 1:
        reason = "is how often a scheduler of torch is stepped, and the schedule is none"
        raise JobError("schedule_every", reason, "leave it out")
    own = [float(group["lr"]) for group in groups if "lr" in group]
    if schedule is None:
        return [Course(np.array([rate])) for rate in own or [DEFAULT_RATE]]
    if len(set(own)) > 1:
        raise several_rates()
    last = steps if callable(schedule) else first + 1
    rates = np.array([spec.learning_rate(step) for step in range(first, last)])
    if (rates != rates[0]).any():
        check_length(len(rates) * repeat)
        rates = np.repeat(rates, repeat)
    return [Course(rates)] * len(groups)


def _of_scheduler(
    spec: JobSpec, scheduler: LRScheduler, steps: int, rows: int, first: int, repeat: int
) -> list[Course]:
    """Run a copy of a scheduler of torch through all steps of a job, and of those before that it goes on from."""
    owner: object = getattr(scheduler, "optimizer", None)
    optimizer: object = spec.optimizer
    base = optimizer.base if isinstance(optimizer, GradientAt) else optimizer
    if owner is not optimizer and owner is not base:
        raise of_another()
    assert isinstance(owner, torch.optim.Optimizer)
    check_length((steps - first) * repeat)
    running = _copy(scheduler, owner)
    groups = running.optimizer.param_groups
    turns = _turns(spec, steps, rows)
    seen = [_Seen(group) for group in groups]
    wanted = first + spec.steps_for(rows)
    with warnings.catch_warnings():
        # that the optimizer takes no step
        warnings.simplefilter("ignore")
        for step in range(steps):
            # Steps that fill the last round keep the last rate: a scheduler may end there, or begin again.
            if step in turns and step < wanted:
                try:
                    running.step()
                except ValueError as error:
                    reason = f"it ends before step {step} of {wanted}: {error}"
                    raise JobError("schedule", reason, "give it the steps of the job") from None
            for one, group in zip(seen, groups, strict=True):
                one.look(group)
    kind = type(base).__name__
    return [one.course(kind, repeat).after(first * repeat) for one in seen]


def _copy(scheduler: LRScheduler, optimizer: torch.optim.Optimizer) -> LRScheduler:
    """Return a copy that shares the parameters, so that the scheduler and its optimizer stay as they are."""
    shared = [p for group in optimizer.param_groups for p in group["params"]]
    return deepcopy(scheduler, {id(p): p for p in shared})


def _turns(spec: JobSpec, steps: int, rows: int) -> "range | set[int]":
    """Return the steps before which the scheduler takes one."""
    if spec.schedule_every != "epoch":
        return range(spec.schedule_every, steps, spec.schedule_every)
    each = spec.batch * spec.slots
    return {step for step in range(1, steps) if step * each // rows > (step - 1) * each // rows}


class _Seen:
    """The options of one group in each step so far."""

    def __init__(self, group: Mapping[str, Any]) -> None:
        self._rates: list[float] = []
        self._momenta: list[float] = []
        self._others = _others(group)
        self._is_beta = "betas" in group

    def look(self, group: Mapping[str, Any]) -> None:
        if _others(group) != self._others:
            reason = "it changes options of the optimizer other than learning rate and momentum"
            raise JobError("schedule", reason, "give one that changes no others")
        self._rates.append(float(group["lr"]))
        self._momenta.append(_momentum(group))

    def course(self, kind: str, repeat: int) -> Course:
        rates, momenta = (np.repeat(seen, repeat) for seen in (self._rates, self._momenta))
        if (momenta == momenta[0]).all():
            return Course(rates)
        if kind not in _CYCLES:
            reason = f"it lets the momentum cycle, which {kind} has no form for"
            raise JobError("schedule", reason, "make it with cycle_momentum=False")
        if not momenta.all():
            reason = "it lets the momentum become 0"
            raise JobError("schedule", reason, "give a base_momentum above 0")
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
