"""The build of a job on the consumer's machine: a Python file with a function ``job()`` becomes a job directory."""

import re
import runpy
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from pol.capture.author.spec import Average, JobSpec
from pol.capture.check import check_step
from pol.capture.closing import captured_end, carried_between_rounds
from pol.capture.codecs.border import BorderMemory
from pol.capture.constants.known import MOST_ELEMENTS
from pol.capture.data.columns import Columns, Scratch
from pol.capture.data.sources import JobData, read_data
from pol.capture.division import Rounds, divide_rounds, divide_segments, segment_own_work
from pol.capture.functions import (
    JobFunctions,
    batch_norms,
    evaluating,
    measured,
    named,
    parts_in_eval,
)
from pol.capture.graph.capture import capture_program, is_changed
from pol.capture.graph.divisible import divisible
from pol.capture.idioms.habits import Trying
from pol.capture.idioms.remembered import Remembered
from pol.capture.model.plain_model import own_tensors, prepare_model
from pol.capture.model.weights import initial_weights
from pol.capture.optim.optimizers import (
    AVERAGE,
    VELOCITY,
    aggregation,
    averages_initial,
    outer_initial,
)
from pol.capture.optim.taken import describe_state
from pol.capture.reports.notes import noting
from pol.capture.reports.origin import place_of_error
from pol.capture.reports.reasons import NotInAJob, in_words, listed
from pol.capture.resuming import check_data, check_tensors, read_resume
from pol.errors import JobError
from pol.job.checkpoint import Checkpoint, HasTraining
from pol.job.document import BATCH_NUMBER, STEP, Job
from pol.job.program import Program
from pol.job.updates import changed_tensors
from pol.job.write import JobSource, write_job
from pol.names import column_name, job_name, model_name
from pol.replay.consent import add_tolerance
from pol.replay.profile import read_profile
from pol.split.rows import batch_inputs
from pol.state.arrays import Array
from pol.values import MAX_NAME, NAME, TensorSpec

Progress = Callable[[str], None]
EVAL_ROWS = 4096
"""Largest number of rows in a batch of ``eval``."""


def build_job(
    source: "Path | str | JobSpec | Callable[[], JobSpec]",
    out: Path | str,
    on_progress: Progress | None = None,
    resume: Path | str | HasTraining | None = None,
    check: bool = True,
    tolerance: Path | str | None = None,
) -> Job:
    """Capture a job and write the job directory ``out``.

    ``source`` is a JobSpec, a function that returns a JobSpec, or a job file, whose function ``job()`` returns a
    JobSpec. If ``resume`` is given, the job continues that result, as if ``resume`` were a field of the JobSpec.

    The file is the consumer's own Python and runs with all rights of the caller. While the job is built, the file's
    folder is first on the module path, as for a script; modules from that folder are forgotten afterwards.

    One step of the job is compared with one step of plain torch, unless ``check`` is False here or in the JobSpec.

    ``tolerance`` is a profile of this job, which ``assay job calibrate`` has measured on it before. The job then has
    the profile's thresholds, and may be ordered in the tier ``tolerance``.

    Raises JobError, which names the field, in these cases: the file has no ``job()``, ``job()`` returns no JobSpec, the
    job cannot be captured, or its step differs from a step of plain torch. Raises ProfileError if the profile is not of
    this job.

    Example::

        assay.build_job(assay.JobSpec(..., name="mine", model=model), "my-job")
        assay.build_job("examples/digits.py", "digits-job")
    """
    tell = on_progress or (lambda _text: None)
    out = Path(out)
    # The profile is often in the folder of the job, so it is read before anything is written there.
    profile = None if tolerance is None else read_profile(Path(tolerance))

    def build_it(spec: JobSpec) -> Job:
        spec = spec if resume is None else replace(spec, resume=resume)
        job = build(spec, out, tell, check)
        return job if profile is None else add_tolerance(out, profile)

    if isinstance(source, JobSpec):
        return build_it(source)
    if callable(source):
        return build_it(_spec_of(source, getattr(source, "__name__", "job")))
    path: object = source
    if not isinstance(path, str | Path):
        reason = f"a {type(path).__name__} is not a job"
        raise JobError("source", reason, "give a JobSpec, a function that returns one, or a file")
    file = Path(path)
    if not file.is_file():
        raise JobError(str(file), "there is no such file", "give the path of a Python file, such as job.py")
    if b"\0" in file.read_bytes():
        raise JobError(str(file), "is not a Python file", "give the file with the function job(), such as job.py")
    tell(f"running {file.name}")
    with _modules_beside(file):
        maker = runpy.run_path(str(file), run_name="assay_job").get("job")
        if not callable(maker):
            raise JobError(file.name, "defines no function job()", "write def job(): return assay.JobSpec(…)")
        return build_it(_spec_of(maker, file.name))


def _spec_of(maker: Callable[[], object], where: str) -> JobSpec:
    spec = maker()
    if not isinstance(spec, JobSpec):
        raise JobError(where, f"job() returned {type(spec).__name__}", "return an assay.JobSpec(…)")
    return spec


@contextmanager
def _modules_beside(file: Path) -> Iterator[None]:
    """Let a file import modules from its folder within this context, and forget these modules afterwards."""
    folder = str(file.resolve().parent)
    known = set(sys.modules)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        for name in set(sys.modules) - known:
            place = getattr(sys.modules[name], "__file__", None)
            if place and Path(place).resolve().is_relative_to(folder):
                del sys.modules[name]


def build(spec: JobSpec, out: Path, on_progress: Progress | None = None, check: bool = True) -> Job:
    """Capture a job and write its directory; see :func:`build_job`."""
    since = perf_counter()
    tell = on_progress or (lambda _text: None)
    before = read_resume(spec)
    spec = replace(spec, model=prepare_model(spec.model, tell), check=spec.check and check)
    with Scratch(out) as scratch, noting(tell):
        return _build_of(spec, read_data(spec, scratch, tell), before, out, since, tell)


def _build_of(
    spec: JobSpec,
    given: JobData,
    before: Checkpoint | None,
    out: Path,
    since: float,
    tell: Progress,
) -> Job:
    data, holdout, sampling = given.train, given.holdout, given.sampling
    _check_columns(data, holdout, sampling.weights)
    sampling = replace(sampling, weights=column_name(sampling.weights))
    first = 0
    if before is not None:
        check_data(before.position, data, sampling)
        spec, first = _cut_alike(spec, before), before.position.step
        tell(f"continues from step {first:,}: weights, optimizers and the position in the data")
    holdout, eval_batch = _eval_rows(holdout, tell)
    rows = len(next(iter(data.values())))
    rounds = divide_rounds(spec, rows)
    _say_rounds(spec, spec.steps_for(rows), rounds, tell)
    functions = JobFunctions(spec, first + rounds.steps, rows, first)
    _say_rates(functions.course, tell)
    if note_on_states := describe_state([group.taken for group in functions.groups]):
        tell(note_on_states)
    _say_modes(spec.model, tell)
    state = _initial_state(spec, functions)
    _check_precisions(spec)
    local = functions.initial_local(state)
    carried = carried_between_rounds(spec, functions, state, local)
    _check_names(state, {**local, **carried})
    if before is not None:
        check_tensors(before, _arrays(state), _arrays({**local, **carried}))
    is_wide = _try_loss(spec, state, data, holdout, tell)
    tell(f"capturing a step of {spec.batch} rows")
    own = {name: tensor for name, tensor in own_tensors(spec.model).items() if name in state}
    # copies, because torch warns about read-only arrays, such as mapped ones
    example = {name: torch.from_numpy(np.array(column[:1])) for name, column in data.items()}
    shown = {name: row for name, row in example.items() if name in holdout}
    batch = _batch_of(example, spec.batch)
    forward = {**named("global", state), **named("batch", batch), BATCH_NUMBER: torch.tensor(0)}
    initial = state if before is None else _resumed_states(before)[0]
    functions.values = named("global", _values_of_others(spec.model, initial, functions.trained))
    with Remembered(spec.model, spec.losses.values()) as remembered:
        step = capture_program(
            functions.step,
            {
                **named("global", state),
                **named("local", local),
                **named("batch", batch),
                STEP: torch.tensor(first),
                BATCH_NUMBER: torch.tensor(0),
            },
            precisions=spec.precisions,
            own=own,
            values=functions.values,
        )
        values = {n: value for n, value in functions.values.items() if not is_changed(step, n)}
        remembered.check(
            lambda: capture_program(functions.forward, forward, own=own, values=values, kept=True),
            rounds.steps,
        )
        step = _without_unchanged(step, spec.model)
        step = divisible(step, batch_inputs(step))
        updated = _updated(step, state)
        _check_averages(spec, functions.trained, updated)
        tell(f"{len(step.nodes):,} operations in a step")
        close, outer = captured_end(spec, functions, state, carried, updated, tell)
        evaluate = capture_program(
            functions.evaluate,
            {**named("global", state), **named("batch", _batch_of(shown, eval_batch))},
            precisions=spec.precisions,
            own=own,
            values=values,
            kept=True,
        )
    # Weights are drawn after the capture, so that an error about a layer that cannot be captured comes first.
    if before is None:
        initialised = initial_weights(spec.model, spec.seed, functions.trained, spec.weights)
        state.update(initialised.values)
        state.update(averages_initial(spec.ema, state, functions.trained))
        # an update rule of the consumer's own may compute its initial state from the weights
        local = functions.initial_local(state)
        if spec.weights is None:
            tell(str(initialised))
    if spec.check:
        start = (state, local) if before is None else _resumed_states(before)
        start = start[0], {name: start[1][name] for name in local}
        check_step(
            *(spec, functions, step, *start, data),
            first=first,
            since=since,
            is_wide=is_wide,
            again=rounds.steps if remembered.is_changed else 1,
            tell=tell,
        )
    local = {**local, **carried}
    boundary = sum(tensor.nbytes for tensor in (*state.values(), *local.values()))
    own_work = segment_own_work(boundary, rows, sampling.order)
    segment_steps = divide_segments(spec, rounds, step.work.flops, own_work)
    tell(f"writing {out}")
    return write_job(
        out,
        JobSource(
            name=spec.name,
            seed=spec.seed,
            rounds=rounds.count,
            slots=spec.slots,
            round_steps=rounds.steps_each,
            batch=spec.batch,
            segment_steps=segment_steps,
            aggregation=aggregation(spec.outer, close is not None),
            step=step,
            close=close,
            outer=outer,
            eval=evaluate,
            metrics=functions.metrics,
            global_state=_arrays(state) if before is None else before.state,
            local_state=_arrays(local) if before is None else before.locals[0],
            data={column_name(name): column for name, column in data.items()},
            holdout={column_name(name): column for name, column in holdout.items()},
            sampling=sampling,
            first_step=first,
            slot_states=() if before is None else before.locals,
        ),
    )


def _resumed_states(before: Checkpoint) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Return the global state and the first slot's local state of a checkpoint, by the model's own names."""
    state, local = (
        {model_name(name): torch.from_numpy(np.array(array)) for name, array in part.items()}
        for part in (before.state, before.locals[0])
    )
    return state, local


def _cut_alike(spec: JobSpec, before: Checkpoint) -> JobSpec:
    """Return the job with the checkpoint's round length, if the job gives no length itself and the length affects the
    result.

    With one slot and a plain average, the length has no effect.
    """
    alone = spec.slots == 1 and isinstance(spec.outer, Average)
    if alone or spec.round_steps is not None:
        return spec
    return replace(spec, round_steps=before.position.round_steps)


def _say_rounds(spec: JobSpec, asked: int, rounds: Rounds, tell: Progress) -> None:
    slots = "" if spec.slots == 1 else f" for each of {spec.slots} slots"
    text = f"{rounds.steps:,} steps{slots}: {rounds.count:,} rounds of {rounds.steps_each:,}"
    tell(text if rounds.steps == asked else f"{text} (rounded up from {asked:,})")


def _say_rates(course: Sequence[float], tell: Progress) -> None:
    """Report the first, the last and the largest learning rate of the job.

    These numbers show the author whether the schedule and the job count steps in the same way.
    """
    if course:
        first, last, most = course[0], course[-1], max(course)
        tell(f"learning rate: {first:.3g} in the first step, {last:.3g} in the last, {most:.3g} at most")


def _say_modes(model: nn.Module, tell: Progress) -> None:
    """Report the parts of a model that stay in eval mode during training.

    If ``job()`` returned the whole model in eval mode, report instead that all of it trains in training mode.
    """
    if not any(part.training for part in model.modules()):
        tell("the whole model is in eval mode; it trains in training mode, as after model.train()")
        return
    parts = parts_in_eval(model)
    # a part of a reported part is not reported again
    names = {name for name, _ in parts}
    outer = [
        f"{name or 'the model itself'} ({type(part).__name__})"
        for name, part in parts
        if not name or name.rpartition(".")[0] not in names
    ]
    if outer:
        tell(
            f"job() returned these parts in eval mode, and they stay in it while the rest trains: {listed(outer)}; "
            "to put all parts into training mode, call model.train() in job()"
        )


def _check_columns(data: Mapping[str, Array], holdout: Mapping[str, Array], weights: str = "") -> None:
    """Check that ``data`` and ``holdout`` have rows, and the same columns with the same types and row shapes.

    The column that ``weights`` names may be missing from the holdout, because only training needs it.
    """
    if not data:
        raise JobError("train", "has no columns", 'give at least one, such as train={"x": x}')
    for field, columns in (("train", data), ("holdout", holdout)):
        rows = {name: len(column) for name, column in columns.items()}
        if len(set(rows.values())) > 1:
            counts = ", ".join(f"{name} {count:,}" for name, count in rows.items())
            reason = f"its columns do not have the same number of rows: {counts}"
            raise JobError(field, reason, "give each column one row per sample")
        if not any(rows.values()):
            raise JobError(field, "has no rows", "give at least one row")
    kinds = [
        {name: (column.dtype, column.shape[1:]) for name, column in columns.items()} for columns in (data, holdout)
    ]
    if weights not in holdout:
        kinds[0].pop(weights, None)
    if kinds[0] != kinds[1]:
        remedy = "give train and holdout columns of the same names, types and shapes"
        raise JobError("holdout", "its columns differ from those of train", remedy)


def _eval_rows(holdout: dict[str, Array], tell: Progress) -> tuple[dict[str, Array], int]:
    """Return the columns of the holdout, cut to whole batches, and the number of rows per batch.

    All batches have the same size, because the shapes of a program are fixed.
    """
    rows = len(next(iter(holdout.values())))
    batches = -(-rows // EVAL_ROWS)
    batch = rows // batches
    if batches * batch != rows:
        tell(f"the holdout is cut from {rows} to {batches * batch} rows, to make equal batches")
    return {name: column[: batches * batch] for name, column in holdout.items()}, batch


def _batch_of(example: Mapping[str, torch.Tensor], rows: int) -> dict[str, torch.Tensor]:
    return {name: row.expand(rows, *row.shape[1:]).clone() for name, row in example.items()}


def _check_batch_norm(model: nn.Module) -> None:
    """Refuse a batch norm without a momentum.

    Such a batch norm averages over all earlier batches. For this it counts the batches, and a count cannot be averaged
    over slots.
    """
    for name, module in batch_norms(model):
        if module.momentum is None and module.track_running_stats:
            reason = f"{type(module).__name__} averages over all earlier batches, but slots cannot average a count"
            raise JobError(f"model.{name}", reason, "give it a momentum, such as 0.1")


def _check_hooks(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if getattr(parameter, "_post_accumulate_grad_hooks", None):
            reason = "has a hook that runs after its gradient is accumulated, which a step cannot contain"
            remedy = "change the gradient in a register_hook(…) instead, and the weight in the optimizer"
            raise JobError(f"model.{name}", reason, remedy)


def _check_memories(spec: JobSpec) -> None:
    for name, part in spec.model.named_modules():
        if isinstance(part, BorderMemory) and spec.slots > 1:
            reason = f"each update of {spec.slots} slots would contain the activations that model.{name} remembers"
            raise JobError("slots", reason, "give slots=1, or use assay.border, which remembers nothing")


def _initial_state(spec: JobSpec, functions: JobFunctions) -> dict[str, torch.Tensor]:
    """Return the global state with the weights as they are in the model."""
    model = spec.model
    _check_batch_norm(model)
    _check_hooks(model)
    _check_memories(spec)
    parameters = {name: p.detach().clone() for name, p in sorted(model.named_parameters())}
    buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
    trained = {name: parameters[name] for name in functions.trained}
    state = {**parameters, **buffers}
    reserved = (VELOCITY,) if spec.ema is None else (VELOCITY, AVERAGE)
    for name in state:
        if name.startswith(reserved):
            prefix = name.partition(".")[0]
            raise JobError(f"model.{name}", f"names that begin with {prefix} are reserved", "rename the attribute")
    averages = averages_initial(spec.ema, state, functions.trained)
    return {**state, **outer_initial(spec.outer_of_mean, trained), **averages}


def _values_of_others(
    model: nn.Module, state: Mapping[str, torch.Tensor], trained: Sequence[str]
) -> dict[str, torch.Tensor]:
    """Return the initial values of the model's small tensors that no optimizer moves.

    The batch counters of batch norms are left out, because a step does not update them.
    """
    counts = {f"{name}.num_batches_tracked".lstrip(".") for name, _ in batch_norms(model)}
    return {
        name: state[name]
        for name, tensor in own_tensors(model).items()
        if name in state and name not in {*trained, *counts} and tensor.numel() <= MOST_ELEMENTS
    }


def _check_names(state: Mapping[str, torch.Tensor], local: Mapping[str, torch.Tensor]) -> None:
    """Refuse names that no tensor of a job can have, such as some keys of a ModuleDict."""
    for full in (*named("global", state), *named("local", local)):
        name = full.partition(".")[2]
        reason = None
        if not name.isprintable() or not re.fullmatch(str(NAME.pattern), job_name(name)):
            reason = f"its name {name!r} has characters that cannot be printed, or an empty part"
        elif (size := len(job_name(full))) > MAX_NAME:
            reason = (
                f"its name has {size} characters in a job, and at most {MAX_NAME} are allowed (a character that "
                "is not a letter, digit or underscore counts as several)"
            )
        if reason:
            raise JobError(f"model.{name}", reason, "rename the attribute or the key of its module")


def _check_precisions(spec: JobSpec) -> None:
    """Refuse a precision for a module that the model does not have, because the precision would silently have no
    effect.
    """
    known = [name for name, _ in spec.model.named_parameters()]
    for chosen in filter(None, spec.precisions):
        if not any(f"{name}.".startswith(f"{chosen}.") for name in known):
            reason = f"the model has no module with parameters that is called {chosen!r}"
            remedy = "give a name of model.named_modules(); a tied parameter counts under its first name"
            raise JobError("precision", reason, remedy)


def _without_unchanged(step: Program, model: nn.Module) -> Program:
    """Remove from a step the outputs of parameters that the step does not change, such as frozen ones; return the
    step.
    """
    changed = step.changed_outputs()
    names = (name for name, _ in model.named_parameters())
    unchanged = {f"global.{job_name(name)}" for name in names}.difference(changed)
    outputs = {name: number for name, number in step.outputs.items() if name not in unchanged}
    return replace(step, outputs=outputs)


def _check_averages(spec: JobSpec, trained: Sequence[str], updated: Sequence[str]) -> None:
    """Refuse a moving average of a weight that only the forward pass changes, because the average would not follow the
    weight.
    """
    for name in trained if spec.ema is not None else ():
        if name in updated and AVERAGE + name not in updated:
            reason = "changes in the forward pass and has no gradient, so its moving average would not follow it"
            remedy = f"leave it out of the optimizer's groups, or freeze it: model.{name}.requires_grad_(False)"
            raise JobError(f"model.{name}", reason, remedy)


def _updated(step: Program, state: Mapping[str, torch.Tensor]) -> list[str]:
    specs = [
        TensorSpec(job_name(name), "f32" if tensor.is_floating_point() else "i64", tuple(tensor.shape))
        for name, tensor in state.items()
    ]
    updated = changed_tensors(step, specs)
    for spec in updated:
        if spec.dtype != "f32":
            reason = "each step changes this integer buffer, and integers cannot be averaged over slots"
            remedy = "make it a float32 buffer, such as torch.zeros(1)"
            raise JobError(f"model.{model_name(spec.name)}", reason, remedy)
    return [model_name(spec.name) for spec in updated]


def _arrays(tensors: Mapping[str, torch.Tensor]) -> dict[str, Array]:
    return {job_name(name): tensor.detach().cpu().numpy() for name, tensor in tensors.items()}


# --- the trial -----------------------------------------------------------------------------------


def _try_loss(
    spec: JobSpec,
    state: Mapping[str, torch.Tensor],
    data: Columns,
    holdout: Columns,
    tell: Progress,
) -> bool:
    """Compute the loss of a few rows in plain torch, without dropout, before the loss is captured.

    Return whether the loss casts anything to types that are narrower than FP32.

    A captured program reads the data only in training. There, a label outside the classes would give no loss and cause
    no error. So the loss is computed here on the rows with the smallest and the largest integer of each column.

    Raises JobError, with torch's own reason and the line, if torch cannot compute it.
    """
    # copies, because a forward pass may write to the tensors
    weights = {name: tensor.clone() for name, tensor in state.items()}
    narrow, trying = _NarrowTypes(), Trying()
    # torch's warnings concern torch's way of computing, which differs from a job's
    quiet = warnings.catch_warnings(action="ignore")
    with quiet, evaluating(spec.model), narrow, trying:
        for columns, row in [
            *((data, row) for row in _tried(data)),
            *((holdout, row) for row in _tried(holdout, data)),
        ]:
            rows = np.full(spec.batch // spec.parts, row)
            batch = {name: torch.from_numpy(column[rows]) for name, column in columns.items()}
            try:
                for name, measure in spec.losses.items():
                    measured(spec.model, measure, weights, batch, name)
            except JobError:
                raise
            except Exception as error:
                reason, remedy = _of_loss(error, columns)
                if not isinstance(error, NotInAJob):
                    where = f"row {row} of the holdout" if columns is holdout else f"row {row}"
                    reason = f"the loss of a batch with {where} fails: {reason}"
                raise JobError(str(place_of_error(error)), reason, remedy) from error
    if seen := narrow.seen | trying.narrow:
        names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in seen))
        tell(f"the job computes in float32 what the loss computes in {names} (by autocast or a cast)")
    return bool(seen)


def _of_loss(error: Exception, data: Mapping[str, Array]) -> tuple[str, str]:
    if isinstance(error, KeyError) and error.args and error.args[0] not in data:
        return f"the data has no column {error.args[0]!r}", f"use one of its columns: {', '.join(map(repr, data))}"
    return in_words(error, "correct the model, the loss or the data, so that plain torch computes this loss")


class _NarrowTypes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that records the floating types, other than FP32, that a function uses."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Call one operation and record the floating type of its result."""
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            self.seen |= {result.dtype} - {torch.float32}
        return result


def _tried(data: Columns, known: Columns | None = None) -> list[int]:
    """Return the numbers of the rows on which the loss is tried.

    These are the first row and, for each column of integers, the rows with the smallest and the largest integer. If
    ``known`` columns are given, return only rows with an integer outside the range of the known column of the same
    name. In this case, the first row is included only if ``known`` has other column names.
    """
    rows = {0} if known is None or known.keys() != data.keys() else set()
    for name, column in data.items():
        if column.dtype == np.int64 and column.size:
            flat, seen = column.reshape(-1), None if known is None else known[name]
            for place in (int(flat.argmin()), int(flat.argmax())):
                if seen is None or not seen.min() <= flat[place] <= seen.max():
                    rows.add(place * len(column) // column.size)
    return sorted(rows)
