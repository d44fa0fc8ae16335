"""The whole job on one machine, and what a person wants to know of a job or a result."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pol.executor.backend import Backend, backend
from pol.executor.run import run
from pol.job.document import Job
from pol.job.errors import JobError
from pol.job.load import LoadedJob, load_job
from pol.job.program import Program
from pol.job.write import HOLDOUT
from pol.replay.trace_file import VERSION, ShareRecord, share_record
from pol.state.arrays import Array, State
from pol.state.tensors import dump_safetensors, load_safetensors
from pol.work.aggregate import aggregate
from pol.work.records import Boundary, Range, TrainedShare
from pol.work.segments import metric_values
from pol.work.train import train_share

MODEL_FILE = "model.safetensors"
TRACE_FILE = "trace.json"


@dataclass(frozen=True)
class JobSummary:
    """A job in numbers.

    Args:
        parameters: elements of the global tensors that training changes.
        flops_by_operation: work of one step by primitive, largest first.
        nodes: operations of each of the three programs.
        segments_per_round: segments of a round, over all slots together.
    """

    name: str
    id: str
    parameters: int
    rounds: int
    samples_per_round: int
    batch: int
    segment_length: int
    segments_per_round: int
    rows: int
    step_flops: int
    total_flops: int
    flops_by_operation: dict[str, int]
    nodes: dict[str, int]
    payload_bytes: int
    state_bytes: int
    local_state_bytes: int
    global_root: str
    local_root: str
    data_root: str


@dataclass(frozen=True)
class RoundReport:
    """A round of a local run: mean loss, and the metrics on the holdout after it."""

    round: int
    loss: float
    metrics: dict[str, float]
    state_root: str


@dataclass(frozen=True)
class LocalRun:
    """A job trained on this machine: final state, rounds, metrics before and after, loss of every segment."""

    state: State
    rounds: tuple[RoundReport, ...]
    before: dict[str, float]
    after: dict[str, float]
    losses: tuple[tuple[int, float], ...]
    model: Path | None
    trace: Path | None


def inspect_job(job: Job) -> JobSummary:
    """Return what a person wants to know of a job."""
    document = job.document
    return JobSummary(
        name=document.name,
        id=job.id.hex(),
        parameters=sum(spec.type.elements for spec in job.updated),
        rounds=document.rounds,
        samples_per_round=document.samples_per_round,
        batch=document.batch,
        segment_length=document.segment_length,
        segments_per_round=document.samples_per_round // (document.batch * document.segment_length),
        rows=document.rows,
        step_flops=document.step_flops,
        total_flops=job.total_flops,
        flops_by_operation=flops_by_operation(document.step),
        nodes={kind: len(getattr(document, kind).nodes) for kind in ("step", "outer", "eval")},
        payload_bytes=job.payload_size,
        state_bytes=sum(spec.type.size for spec in document.global_tensors),
        local_state_bytes=sum(spec.type.size for spec in document.local_tensors),
        global_root=document.global_root.hex(),
        local_root=document.local_root.hex(),
        data_root=document.data_root.hex(),
    )


def flops_by_operation(program: Program) -> dict[str, int]:
    """Return the work of one run by primitive, largest first (each node's bytes are rounded down on their own)."""
    totals: dict[str, int] = {}
    for node, work in zip(program.nodes, program.works, strict=True):
        totals[node.op] = totals.get(node.op, 0) + work.flops
    return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))


def load_holdout(directory: Path, job: Job) -> dict[str, Array]:
    """Return the consumer's own test set of a job directory; JobError if it is missing or does not fit."""
    path = directory / HOLDOUT
    if not path.is_file():
        raise JobError(HOLDOUT, "There is none.", "Only the consumer who built the job has one.")
    columns = load_safetensors(path)
    wanted = {spec.name: (spec.dtype, spec.shape) for spec in job.document.columns}
    kinds = {"f": "f32", "i": "i64", "b": "bool"}
    found = {name: (kinds[a.dtype.kind], a.shape[1:]) for name, a in columns.items()}
    if found != wanted or len({len(array) for array in columns.values()}) != 1:
        raise JobError(HOLDOUT, "Its columns are not those of the job.", "Build the job again.")
    return columns


def evaluate(
    job: Job, state: State, holdout: Mapping[str, Array], runner: Backend | None = None
) -> dict[str, float]:
    """Return the job's metrics of a global state on ``holdout``, each the mean over whole batches.

    Where exactly one column holds classes (integers, one a row), ``majority_baseline`` is added: the share of
    the holdout's most frequent class, which is what a model that learned nothing reaches at best.
    """
    document = job.document
    batch = next(
        (spec.shape[0] for spec in document.eval.inputs if spec.name.startswith("batch.")), 1
    )
    rows = min((len(array) for array in holdout.values()), default=0)
    if rows < batch:
        raise JobError(
            HOLDOUT, f"It has {rows} rows, fewer than a batch of {batch}.", "Build again."
        )
    inputs: dict[str, Array] = {f"global.{name}": array for name, array in state.items()}
    sums: dict[str, float] = {}
    starts = range(0, rows - batch + 1, batch)
    executor = runner or backend("numpy")
    for start in starts:
        part = {f"batch.{name}": array[start : start + batch] for name, array in holdout.items()}
        outputs = run(document.eval, {**inputs, **part}, document.seed, executor)
        for name, value in outputs.items():
            key = name.removeprefix("metric.")
            sums[key] = sums.get(key, 0.0) + float(value)
    metrics = {name: total / len(starts) for name, total in sums.items()}
    baseline = majority_baseline(holdout)
    return metrics if baseline is None else {**metrics, "majority_baseline": baseline}


def quality_of(directory: Path, state: State) -> dict[str, Any]:
    """Return what a result is worth on the consumer's own test set: its first metric (the loss where there is no
    other) before and after training, beside what a model that learned nothing reaches.
    """
    loaded = load_job(directory)
    holdout = load_holdout(directory, loaded.job)
    before = evaluate(loaded.job, loaded.global_state, holdout)
    after = evaluate(loaded.job, state, holdout)
    baseline = after.get("majority_baseline")
    metric = next((name for name in after if name not in ("loss", "majority_baseline")), "loss")
    return {
        "parameters": inspect_job(loaded.job).parameters,
        "metric": metric,
        "majority_baseline": baseline,
        "before": before[metric],
        "after": after[metric],
    }


def majority_baseline(columns: Mapping[str, Array]) -> float | None:
    """Return the share of the most frequent class, or None where no single column holds classes."""
    labels = [array for array in columns.values() if array.dtype == np.int64 and array.ndim == 1]
    if len(labels) != 1:
        return None
    _, counts = np.unique(labels[0], return_counts=True)
    return float(counts.max() / counts.sum())


def slot_ranges(job: Job, round: int, slots: int) -> tuple[Range, ...]:
    """Divide a round into one range for each slot, as equal as whole segments allow.

    Raises:
        JobError: the round has fewer segments than slots.
    """
    document = job.document
    unit = document.batch * document.segment_length
    segments = document.samples_per_round // unit
    if not 1 <= slots <= segments:
        raise JobError("slots", f"A round has {segments} segments.", f"Use 1 to {segments} slots.")
    edges = [segments * slot // slots * unit for slot in range(slots + 1)]
    return tuple(Range(round, low, high - low) for low, high in pairwise(edges))


def run_locally(
    directory: Path,
    slots: int = 2,
    rounds: int | None = None,
    backend_name: str = "numpy",
    on_progress: Callable[[int, int, int, float], None] | None = None,
    out: Path | None = None,
    on_boundary: Callable[[Boundary, State, State], None] | None = None,
) -> LocalRun:
    """Train a job here as a network would: slots one after another, averaged after every round.

    Args:
        directory: a job directory.
        slots: ranges that each round is divided into.
        rounds: rounds to train (all, if None).
        backend_name: ``numpy`` or ``torch``.
        on_progress: gets round, slot, step and loss after each step.
        out: folder for ``model.safetensors`` and ``trace.json``; nothing is written if None.
        on_boundary: gets every boundary with both its states, for whoever keeps them.
    """
    loaded = load_job(directory)
    job, executor = loaded.job, backend(backend_name)
    holdout = load_holdout(directory, job)
    state, locals_ = loaded.global_state, [loaded.local_state] * slots
    before = evaluate(job, state, holdout, executor)
    reports: list[RoundReport] = []
    losses: list[tuple[int, float]] = []
    trace: list[dict[str, Any]] = []
    for round_ in range(
        job.document.rounds if rounds is None else min(rounds, job.document.rounds)
    ):
        shares: list[tuple[Range, TrainedShare]] = []
        for slot, part in enumerate(slot_ranges(job, round_, slots)):
            observe = _observer(on_progress, round_, slot)
            share = train_share(
                loaded,
                part,
                state,
                locals_[slot],
                backend=executor,
                on_boundary=on_boundary,
                on_step=observe,
            )
            locals_[slot] = share.local_out
            shares.append((part, share))
            losses += _losses(share.boundaries)
            roots = (share.update_root, share.local_out_root, b"")
            trace.append(share_record(job.id, ShareRecord(slot, part, share.boundaries, *roots)))
        result = aggregate(loaded, state, [(p.count, s.update) for p, s in shares], executor)
        state = result.state
        metrics = evaluate(job, state, holdout, executor)
        values = [loss for _, share in shares for _, loss in _losses(share.boundaries)]
        reports.append(RoundReport(round_, float(np.mean(values)), metrics, result.root.hex()))
    after = reports[-1].metrics if reports else before
    finished = LocalRun(state, tuple(reports), before, after, tuple(losses), None, None)
    return finished if out is None else _saved(finished, loaded, slots, trace, out)


def _observer(
    on_progress: Callable[[int, int, int, float], None] | None, round_: int, slot: int
) -> Callable[[int, float], None] | None:
    if on_progress is None:
        return None
    return lambda step, loss: on_progress(round_, slot, step, loss)


def _losses(boundaries: Sequence[Boundary]) -> list[tuple[int, float]]:
    """Return (step, first metric) of every boundary but the opening one."""
    return [(b.step, metric_values(b.metrics)[0]) for b in boundaries if b.metrics]


def _saved(
    finished: LocalRun, loaded: LoadedJob, slots: int, trace: list[dict[str, Any]], out: Path
) -> LocalRun:
    out.mkdir(parents=True, exist_ok=True)
    model, path = out / MODEL_FILE, out / TRACE_FILE
    model.write_bytes(dump_safetensors(finished.state))
    record = {
        "version": VERSION,
        "job": loaded.job.id.hex(),
        "slots": slots,
        "before": finished.before,
        "after": finished.after,
        "rounds": [asdict(report) for report in finished.rounds],
        "shares": trace,
    }
    path.write_text(json.dumps(record, indent=1) + "\n")
    return LocalRun(
        finished.state,
        finished.rounds,
        finished.before,
        finished.after,
        finished.losses,
        model,
        path,
    )
