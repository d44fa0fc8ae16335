"""What a model is worth on the consumer's own test set, which nobody else sees."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pol.errors import JobError
from pol.executor.backend import backend
from pol.executor.interface import Backend, run
from pol.executor.names import DEFAULT
from pol.job.document import Job
from pol.job.load import load_job
from pol.job.write import HOLDOUT
from pol.local.inspect import inspect_job
from pol.names import model_name
from pol.state.arrays import Array, State, dtype_name
from pol.state.tensors import load_safetensors


def load_holdout(directory: Path, job: Job) -> dict[str, Array]:
    """Return the consumer's own test set of a job directory; JobError if it is missing or does not fit."""
    path = directory / HOLDOUT
    if not path.is_file():
        raise JobError(HOLDOUT, "there is none", "only the consumer who built the job has one")
    columns = load_safetensors(path)
    wanted = {spec.name: (spec.dtype, spec.shape) for spec in job.document.columns}
    weights = job.document.sampling.weights
    if weights not in columns:
        # by which only training draws its rows
        wanted.pop(weights, None)
    found = {name: (dtype_name(array, name), array.shape[1:]) for name, array in columns.items()}
    if found != wanted or len({len(array) for array in columns.values()}) != 1:
        raise JobError(HOLDOUT, "its columns are not those of the job", "build the job again")
    return columns


def evaluate(job: Job, state: State, holdout: Mapping[str, Array], runner: Backend | None = None) -> dict[str, float]:
    """Return the job's metrics of a global state on ``holdout``, each the mean over whole batches.

    Where exactly one column holds classes (integers, one a row), ``majority_baseline`` is added: the share of
    the holdout's most frequent class, which is what a model that learned nothing reaches at best.
    """
    document = job.document
    batch = next((spec.shape[0] for spec in document.eval.inputs if spec.name.startswith("batch.")), 1)
    rows = min((len(array) for array in holdout.values()), default=0)
    if rows < batch:
        reason = f"has {rows} rows, fewer than a batch of {batch}"
        raise JobError(HOLDOUT, reason, "build the job again")
    inputs: dict[str, Array] = {f"global.{name}": array for name, array in state.items()}
    sums: dict[str, float] = {}
    starts = range(0, rows - batch + 1, batch)
    executor = runner or backend(DEFAULT)
    for start in starts:
        part = {f"batch.{name}": array[start : start + batch] for name, array in holdout.items()}
        outputs = run(document.eval, {**inputs, **part}, document.seed, executor)
        for name, value in outputs.items():
            key = model_name(name.removeprefix("metric."))
            sums[key] = sums.get(key, 0.0) + float(value)
    metrics = {name: total / len(starts) for name, total in sums.items()}
    labels = {n: a for n, a in holdout.items() if n != document.sampling.weights}
    baseline = majority_baseline(labels)
    return metrics if baseline is None else {**metrics, "majority_baseline": baseline}


def quality_of(directory: Path, state: State) -> dict[str, Any]:
    """Return what a result is worth on the consumer's own test set: its first metric (the loss where there is no
    other) before and after training, beside what a model that learned nothing of its inputs reaches: in a metric the
    majority baseline, in the loss of a text the frequency baseline.
    """
    loaded = load_job(directory)
    holdout = load_holdout(directory, loaded.job)
    before = evaluate(loaded.job, loaded.global_state, holdout)
    after = evaluate(loaded.job, state, holdout)
    metric = next((name for name in after if name not in ("loss", "majority_baseline")), "loss")
    return {
        "parameters": inspect_job(loaded.job).parameters,
        "metric": metric,
        "majority_baseline": after.get("majority_baseline"),
        "frequency_baseline": frequency_baseline(holdout) if metric == "loss" else None,
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


def frequency_baseline(columns: Mapping[str, Array]) -> float | None:
    """Return the cross-entropy, in nats, of guessing each token by how frequent it is; None where there is no text.

    A text is a column of rows of integers; of several the last one, which follows from the others.
    """
    texts = [columns[name] for name in sorted(columns) if columns[name].dtype == np.int64]
    texts = [text for text in texts if text.ndim == 2 and text.shape[1] > 1]
    if not texts:
        return None
    _, counts = np.unique(texts[-1], return_counts=True)
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())
