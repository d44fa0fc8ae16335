"""Training of a whole job on one machine, with the same trace as on a network."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from domain import codec
from domain.readable import Readable, Shown
from pol.errors import ExecutionError, JobError, Stopped
from pol.executor.backend import backend
from pol.executor.interface import Backend
from pol.executor.names import DEFAULT_ENGINE, Engine
from pol.executor.segment_backend import segment_backend
from pol.job.checkpoint import MODEL_FILE, Position, position_after, write_training
from pol.job.cost import memory_size
from pol.job.load import LoadedJob, load_job, verify_job
from pol.local.evaluate import evaluate, load_holdout
from pol.local.groups import Machines, start_here, start_on, training_together
from pol.local.history import History, make_history, make_losses
from pol.local.shares import Training, TrainRound, aggregating_here, train_here, training_elsewhere
from pol.names import ModelNames
from pol.replay.replay import STATES_FOLDER, StateFolder
from pol.replay.trace_file import VERSION, share_record
from pol.state.arrays import State
from pol.state.canonical import state_pieces
from pol.state.stored import aligned_state
from pol.state.tensors import safetensors_pieces
from pol.values import metric_values
from pol.work.executor import LOCAL
from pol.work.records import Boundary, RoundSlot

TRACE_FILE = "trace.json"


@dataclass(frozen=True)
class RoundReport(Readable):
    """The report on a round of a local run: the mean loss over the round, and the metrics on the holdout at the round's
    end.

    ``losses`` maps the name of each training metric to its mean over the round; ``loss`` is the first of these means.

    Example::

        for report in assay.run_locally("my-job").rounds:
            print(report.round, report.loss, report.metrics)
    """

    round: int
    loss: float
    losses: dict[str, float]
    metrics: dict[str, float]
    state_root: str


@dataclass(frozen=True)
class LocalRun(Shown):
    """The result of training a job on this machine: final state, rounds, metrics before and after, and losses.

    ``losses`` has one row per round and one column per slot, like ``order.losses()`` of the same job on a network.
    ``history`` has the loss at the end of each segment, as an array with the fields ``step``, ``slot`` and ``loss``.

    Another job can continue from the result (``JobSpec(resume=…)``). For that, ``locals`` holds the local states of the
    slots, and ``position`` holds the position of the training.

    Example::

        ran = assay.run_locally("my-job")
        print(ran.before["loss"], ran.after["loss"])
        print(ran.losses.mean(axis=1), ran.history["step"], ran.history["loss"])
    """

    state: State
    locals: tuple[State, ...]
    position: Position
    rounds: tuple[RoundReport, ...]
    before: dict[str, float]
    after: dict[str, float]
    losses: NDArray[np.float64] = field(compare=False)
    history: History = field(compare=False)
    model: Path | None
    training: Path | None
    trace: Path | None


def run_locally(
    directory: Path | str,
    rounds: int | None = None,
    engine: Engine = DEFAULT_ENGINE,
    on_progress: Callable[[int, int, int, float], None] | None = None,
    out: Path | str | None = None,
    keep_states: bool = False,
    executor: str = LOCAL,
    machines: Machines = 1,
    hardware: bool = False,
) -> LocalRun:
    """Train a job on this machine, one slot after another. The result is the same as on a network.

    The job is in ``directory``. ``rounds`` is the number of rounds to train (all, if None), and ``engine`` is what
    computes. ``on_progress`` receives round, slot, step and loss after each step. If ``out`` is given, two files and a
    folder are written there: ``model.safetensors``, ``trace.json``, and the folder ``model.training``, from which
    another job can continue. If ``keep_states`` is true, the states at all boundaries are written as well, so that a
    check can replay single segments. With ``executor="ray://HOST:PORT"``, a cluster of yours trains all slots of a
    round at once, in the sandbox. With ``machines=2``, two processes of this machine train each slot together, as two
    machines would, and so a step needs less memory in each of them. No process has a whole state in memory, this one
    included. ``machines=(2, 4)`` are two stages of the model, in
    each of which four machines divide the rows of a batch. With both ``executor`` and ``machines``, the machines are
    nodes of the cluster.

    If ``hardware`` is true, steps are computed as in a leg of the tier ``tolerance``, if the job consents to it. The
    bits of the result then depend on this machine.

    Raises Stopped if a step, an update or a round has no result; on a network, the job stops at the same place.
    Raises ExecutionError if the job needs more memory than ``engine`` may use.

    Example::

        ran = assay.run_locally("my-job", out="my-job/run")
        print(ran.before["loss"], ran.after["loss"])
    """
    directory, out = Path(directory), Path(out) if out is not None else None
    if keep_states and out is None:
        raise JobError("keep_states", "the states need a folder", 'give it by out=, such as out="my-job/run"')
    is_together = machines not in (1, (1, 1))
    if keep_states and executor != LOCAL and not is_together:
        remedy = "leave out --keep-states (keep_states=), or --executor (executor=)"
        raise JobError("keep_states", "the states stay on the machines of the cluster", remedy)
    # On several machines no process has a whole state: states stay on disk.
    loaded = verify_job(directory) if is_together else load_job(directory)
    job, runner = loaded.job, backend(engine)
    segments = _in_hardware(loaded, engine, is_alone=not is_together and executor == LOCAL) if hardware else None
    needed = memory_size(job.document)
    if engine.memory and needed > engine.memory and not is_together:
        raise ExecutionError("memory", f"the job needs {needed} bytes of memory, but may use only {engine.memory}")
    keep = StateFolder(out / STATES_FOLDER, loaded).keep if out and keep_states else None
    holdout = load_holdout(directory, job)
    state, locals_ = loaded.global_state, [loaded.local_state] * job.document.slots
    if is_together:
        state = aligned_state(state_pieces(state), job.document.global_tensors)
    before = evaluate(job, state, holdout, runner)
    root, local_roots = job.document.global_root, list(job.document.opening_locals)
    reports: list[RoundReport] = []
    losses: list[dict[int, float]] = []
    history: list[tuple[int, int, float]] = []
    trace: list[dict[str, Any]] = []
    values: list[tuple[int, int, tuple[float, ...]]] = []

    def updates(train: TrainRound, round: int, opening: State) -> Iterator[State]:
        for slot, share in enumerate(train(round, opening, tuple(locals_))):
            part = RoundSlot(round, slot)
            locals_[slot], local_roots[slot] = share.local_out, share.local_out_root
            values.extend(_losses(slot, share.boundaries))
            roots = share.update_root, share.local_out_root
            record = share_record(part, share.boundaries, *roots)
            trace.append(codec.to_plain(record))
            yield share.update

    training: AbstractContextManager[Training]
    aggregating = aggregating_here(loaded, runner)
    if is_together:
        start = start_here if executor == LOCAL else start_on(executor)
        training = training_together(machines, directory, loaded, engine, keep, on_progress, start=start)
    elif executor == LOCAL:
        training = nullcontext(Training(train_here(loaded, runner, keep, on_progress, segments), aggregating))
    else:
        training = training_elsewhere(executor, directory, loaded, engine, on_progress, aggregating)
    with training as computing:
        for round in range(job.document.rounds if rounds is None else min(rounds, job.document.rounds)):
            values.clear()
            try:
                state, root = computing.aggregate(state, updates(computing.train, round, state))
            except Stopped as stop:
                raise stop.within(f"the job stops in round {round}") from None
            metrics = evaluate(job, state, holdout, runner)
            history += [(step, slot, each[0]) for step, slot, each in values]
            # The values are in the order of steps, so the last loss of each slot remains.
            losses.append({slot: each[0] for _, slot, each in values})
            means = [float(np.mean(each)) for each in zip(*(each for *_, each in values), strict=True)]
            reports.append(
                RoundReport(
                    round=round,
                    loss=means[0] if means else float("nan"),
                    losses=dict(zip(job.document.metrics, means, strict=True)),
                    metrics=metrics,
                    state_root=root.hex(),
                )
            )
    after = reports[-1].metrics if reports else before
    finished = LocalRun(
        state=state,
        locals=tuple(locals_ if reports else _opening(loaded)),
        position=position_after(job, len(reports), root, local_roots),
        rounds=tuple(reports),
        before=before,
        after=after,
        losses=make_losses(losses, job.document.slots),
        history=make_history(history),
        model=None,
        training=None,
        trace=None,
    )
    return finished if out is None else _saved(finished, loaded, trace, out)


def _in_hardware(loaded: LoadedJob, engine: Engine, *, is_alone: bool) -> Backend:
    """Return what computes steps in hardware arithmetic, if the job consents to it and one machine trains it."""
    if not is_alone:
        remedy = "leave out --hardware (hardware=), or --machines and --executor (machines=, executor=)"
        raise JobError("hardware", "only one machine computes in hardware arithmetic", remedy)
    document = loaded.job.document
    if document.tolerance is None:
        remedy = "build it with a profile (--tolerance, or tolerance=), or leave out --hardware (hardware=)"
        raise JobError("hardware", "the job does not consent to hardware arithmetic", remedy)
    return segment_backend(document, engine, hardware=True)


def _opening(loaded: LoadedJob) -> Iterator[State]:
    """Yield the initial local state of each slot."""
    for slot in range(loaded.job.document.slots):
        own = loaded.slot_local(slot)
        yield loaded.local_state if own is None else own


def _losses(slot: int, boundaries: Sequence[Boundary]) -> list[tuple[int, int, tuple[float, ...]]]:
    """Return the step, the slot and the metrics of each boundary except boundary 0."""
    return [(b.step, slot, metric_values(b.metrics)) for b in boundaries if b.metrics]


def _saved(finished: LocalRun, loaded: LoadedJob, trace: list[dict[str, Any]], out: Path) -> LocalRun:
    out.mkdir(parents=True, exist_ok=True)
    model, path = out / MODEL_FILE, out / TRACE_FILE
    with model.open("wb") as file:
        file.writelines(safetensors_pieces(ModelNames(finished.state)))
    training = write_training(model, finished.locals, finished.position)
    record = {
        "version": VERSION,
        "job": loaded.job.id.hex(),
        "before": finished.before,
        "after": finished.after,
        "rounds": [asdict(report) for report in finished.rounds],
        "shares": trace,
    }
    path.write_text(json.dumps(record, indent=1) + "\n")
    return replace(finished, model=model, training=training, trace=path)
