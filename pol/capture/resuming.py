"""Resuming from the result of another job. The checks ensure that the two jobs together equal one longer job."""

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

_ANEW = 'or start a new training from its weights: assay.load_result(model, …), weights="keep", and no resume'
_FIRST = "of the first job"
_RESULT = "the result that the job resumes"


def read_resume(spec: JobSpec) -> Checkpoint | None:
    """Return the checkpoint that a job resumes, if any; JobError if it does not fit the rest of the job.

    Seed, slots and batch must be the same as in the job before, because they decide the position in the order of the
    rows. Optimizers and schedulers must be new: the optimizers' state comes from the checkpoint, and the schedule is
    counted from step 0.
    """
    source: Any = spec.resume
    if source is None:
        return None
    checkpoint = _read(source)
    _check_counts(spec, checkpoint.position)
    if any(_has_steps(optimizer) for optimizer in spec.optimizers):
        reason = "has state of its own, but resume= brings the state from the result"
        raise JobError("optimizer", reason, "give a new optimizer that has taken no step, or leave out resume")
    for schedule in spec.schedules:
        if not isinstance(schedule, LRScheduler) or getattr(schedule, "last_epoch", 0) <= 0:
            continue
        count = schedule.last_epoch
        reason = f"the scheduler has already counted {count} steps"
        remedy = (
            "give a new scheduler, created as for the first job: it runs from step 0, and this job takes its rates from"
            f" step {checkpoint.position.step} on"
        )
        raise JobError("schedule", reason, remedy)
    return checkpoint


def _has_steps(optimizer: object) -> bool:
    """Return whether an optimizer has taken steps.

    The presence of a state is no proof, because Adagrad has a state before its first step.
    """
    if isinstance(optimizer, UpdateRule | GradientAt):
        return optimizer.steps > 0
    return isinstance(optimizer, torch.optim.Optimizer) and any(steps_of(state) for state in optimizer.state.values())


def _read(given: Any) -> Checkpoint:
    if isinstance(given, Path | str):
        return read_training(Path(given))
    if isinstance(getattr(given, "position", None), Position):
        return checked(given)
    reason = f"a {type(given).__name__} is not a result that a job can resume"
    remedy = 'give the path of a result, resume="model.safetensors", or resume=order.result()'
    raise JobError(FIELD, reason, remedy)


def _check_counts(spec: JobSpec, position: Position) -> None:
    for name, why in (
        ("seed", "the order of the rows and all random numbers would differ"),
        ("slots", "each slot has an optimizer state of its own"),
        ("batch", "the position in the data is counted in batches"),
    ):
        here, there = getattr(spec, name), getattr(position, name)
        if here != there:
            reason = f"is {here}, but {_RESULT} was trained with {there}: {why}"
            raise JobError(name, reason, f"give {name}={there}, {_ANEW}")


def check_data(position: Position, columns: Mapping[str, Array], sampling: Sampling) -> None:
    """Raise JobError if the data or the order of the rows differ from those of the checkpoint."""
    if sampling != position.sampling:
        reason = f"takes the rows {sampling.words}, but {_RESULT} took them {position.sampling.words}"
        raise JobError("sampling", reason, f"give the same order of rows, {_ANEW}")
    rows = len(next(iter(columns.values())))
    same = f"give the same columns and rows, {_ANEW}"
    if rows != position.rows:
        reason = f"has {rows:,} rows, but {_RESULT} was trained on {position.rows:,}"
        raise JobError("train", reason, same)
    named = {column_name(name): column for name, column in columns.items()}
    if state_tree(named).root != position.data_root:
        reason = f"its columns or values differ from those that {_RESULT} was trained on"
        raise JobError("train", reason, same)


def check_tensors(checkpoint: Checkpoint, state: State, local: State) -> None:
    """Refuse a checkpoint whose tensors differ in name or type from ``state`` and ``local`` of this job; JobError."""
    for name, here, there in _differences(state, checkpoint.state):
        raise _of_global(name, here, there)
    for slot_local in checkpoint.locals:
        for name, here, there in _differences(local, slot_local):
            raise _of_local(name, here, there)


def _differences(here: State, there: State) -> list[tuple[str, str, str]]:
    """Return the tensors that differ between two states.

    Each entry has the tensor's name and its type in both states; the type is "" if the state lacks the tensor.
    """
    ours, theirs = ({s.name: str(s.type) for s in state_specs(state)} for state in (here, there))
    return [
        (model_name(name), ours.get(name, ""), theirs.get(name, ""))
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]


def _of_global(name: str, here: str, there: str) -> JobError:
    if name.startswith(AVERAGE) and not there:
        reason = f"is given, but {_RESULT} has no moving averages"
        return JobError("ema", reason, f"leave it out, {_ANEW}")
    if name.startswith(AVERAGE) and not here:
        reason = f"is left out, but {_RESULT} has moving averages"
        return JobError("ema", reason, f"give the number {_FIRST}, such as ema=0.999")
    if name.startswith(VELOCITY) and not there:
        reason = f"is Nesterov, but {_RESULT} has no outer momentum"
        return JobError("outer", reason, f"leave it out, {_ANEW}")
    if name.startswith(VELOCITY) and not here:
        reason = f"is Average, but {_RESULT} has outer momentum"
        return JobError("outer", reason, f"give the outer optimizer {_FIRST}, such as outer=assay.Nesterov()")
    if not there:
        reason = f"{_RESULT} has no {name}"
    elif not here:
        reason = f"{_RESULT} has {name}, which the model lacks"
    else:
        reason = f"{name} is {there} in {_RESULT} and {here} in the model"
    return JobError(FIELD, reason, f"give the model {_FIRST}")


def _of_local(name: str, here: str, there: str) -> JobError:
    if not there:
        reason = f"keeps {name}, which {_RESULT} lacks"
    elif not here:
        reason = f"does not keep {name}, which {_RESULT} has"
    else:
        reason = f"keeps {name} as {here}, but {_RESULT} has {there}"
    return JobError("optimizer", reason, f"give the optimizer {_FIRST}, with the same groups")
