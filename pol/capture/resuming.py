"""Going on from what another job left: what must agree, so that two jobs are one that is cut in two."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler

from pol.capture.author.spec import JobSpec
from pol.capture.optim.gradient_at import GradientAt
from pol.capture.optim.optimizers import AVERAGE, VELOCITY
from pol.capture.optim.taken import steps_of
from pol.capture.optim.update_rules import UpdateRule
from pol.errors import JobError
from pol.job.checkpoint import FIELD, Checkpoint, Position, checked, read_training
from pol.job.sampling import Sampling
from pol.names import column_name, model_name
from pol.state.arrays import Array, State
from pol.state.canonical import state_specs, state_tree

_ANEW = 'or begin anew from its weights: assay.load_result(model, …), weights="keep", and no resume'
_FIRST = "that the first job had"


def read_resume(spec: JobSpec) -> Checkpoint | None:
    """Return what a job goes on from, if it does; JobError where it does not fit the rest of the job.

    Seed, slots and batch must be those of the job before, because they say where the order of the rows stands; and the
    objects that count steps of their own must not have counted any.
    """
    given: Any = spec.resume
    if given is None:
        return None
    found = _read(given)
    _check_counts(spec, found.position)
    if any(_has_steps(optimizer) for optimizer in spec.optimizers):
        reason = "has state of its own, and resume= brings that of the result"
        raise JobError("optimizer", reason, "give one that was just made, or leave out resume")
    for schedule in spec.schedules:
        if not isinstance(schedule, LRScheduler) or getattr(schedule, "last_epoch", 0) <= 0:
            continue
        taken = schedule.last_epoch
        reason = f"the scheduler has counted {taken} steps already"
        remedy = (
            f"make it as for the first job: it is run from step 0, and this job takes its rates from step"
            f" {found.position.step} on"
        )
        raise JobError("schedule", reason, remedy)
    return found


def _has_steps(optimizer: object) -> bool:
    """Tell whether an optimizer has made steps; Adagrad has state from the beginning."""
    if isinstance(optimizer, UpdateRule | GradientAt):
        return optimizer.steps > 0
    return isinstance(optimizer, torch.optim.Optimizer) and any(steps_of(state) for state in optimizer.state.values())


def _read(given: Any) -> Checkpoint:
    if isinstance(given, Path | str):
        return read_training(Path(given))
    if isinstance(getattr(given, "position", None), Position):
        return checked(given)
    reason = f"{type(given).__name__} is nothing that a job can go on from"
    remedy = 'give the path of a result, "model.safetensors", or resume=order.result()'
    raise JobError(FIELD, reason, remedy)


def _check_counts(spec: JobSpec, position: Position) -> None:
    for name, why in (
        ("seed", "the order of the rows and all draws would be others"),
        ("slots", "each of them has an optimizer's state of its own"),
        ("batch", "the place in the data is counted in batches"),
    ):
        here, there = getattr(spec, name), getattr(position, name)
        if here != there:
            reason = f"is {here}, and the result that it goes on from was trained with {there}: {why}"
            raise JobError(name, reason, f"give {name}={there}, {_ANEW}")


def check_data(position: Position, columns: Mapping[str, Array], sampling: Sampling) -> None:
    """Refuse other data than those in whose order the training stands; JobError."""
    if sampling != position.sampling:
        reason = f"takes rows {sampling.words}, and the result that it goes on from {position.sampling.words}"
        raise JobError("sampling", reason, f"give the same order of rows, {_ANEW}")
    rows = len(next(iter(columns.values())))
    same = f"give the same columns and rows, {_ANEW}"
    if rows != position.rows:
        reason = f"has {rows:,} rows, and the result that it goes on from was trained on {position.rows:,}"
        raise JobError("train", reason, same)
    named = {column_name(name): column for name, column in columns.items()}
    if state_tree(named).root != position.data_root:
        reason = "its columns or values are not those that the result was trained on"
        raise JobError("train", reason, same)


def check_tensors(found: Checkpoint, state: State, local: State) -> None:
    """Refuse states with other tensors than those of this job, of which ``state`` and ``local`` are made; JobError."""
    for name, here, there in _differences(state, found.state):
        raise _of_global(name, here, there)
    for slot_local in found.locals:
        for name, here, there in _differences(local, slot_local):
            raise _of_local(name, here, there)


def _differences(here: State, there: State) -> list[tuple[str, str, str]]:
    """Return name and type on both sides ("" where it is missing) of each tensor that differs."""
    ours, theirs = ({s.name: str(s.type) for s in state_specs(state)} for state in (here, there))
    return [
        (model_name(name), ours.get(name, ""), theirs.get(name, ""))
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]


def _of_global(name: str, here: str, there: str) -> JobError:
    if name.startswith(AVERAGE) and not there:
        reason = "is given, and the result that it goes on from has no moving averages"
        return JobError("ema", reason, f"leave it out, {_ANEW}")
    if name.startswith(AVERAGE) and not here:
        reason = "is left out, and the result that it goes on from has moving averages"
        return JobError("ema", reason, f"give the number {_FIRST}, such as ema=0.999")
    if name.startswith(VELOCITY) and not there:
        reason = "is Nesterov, and the result that it goes on from has no outer momentum"
        return JobError("outer", reason, f"leave it out, {_ANEW}")
    if name.startswith(VELOCITY) and not here:
        reason = "is Average, and the result that it goes on from has outer momentum"
        return JobError("outer", reason, f"give the one {_FIRST}, such as outer=assay.Nesterov()")
    what = "the result that it goes on from"
    if not there:
        reason = f"{what} has no {name}"
    elif not here:
        reason = f"{what} has {name}, which the model has not"
    else:
        reason = f"{name} is {there} in {what}, {here} in the model"
    return JobError(FIELD, reason, f"make the model {_FIRST}")


def _of_local(name: str, here: str, there: str) -> JobError:
    what = "the result that it goes on from"
    if not there:
        reason = f"keeps {name}, which {what} has not"
    elif not here:
        reason = f"does not keep {name}, which {what} has"
    else:
        reason = f"keeps {name} as {here}, and {what} has {there}"
    return JobError("optimizer", reason, f"give the optimizer {_FIRST}, with the same groups")
