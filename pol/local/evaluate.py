"""Evaluation of a model on the consumer's own test set, which never leaves the consumer's machine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pol.errors import JobError
from pol.executor.backend import backend
from pol.executor.interface import Backend, run
from pol.executor.names import Engine
from pol.job.document import Job
from pol.job.load import load_job
from pol.job.write import HOLDOUT
from pol.local.inspect import inspect_job
from pol.names import model_name
from pol.state.arrays import Array, State, dtype_name
from pol.state.tensors import load_safetensors


def load_holdout(directory: Path, job: Job) -> dict[str, Array]:
    """Return the consumer's own test set from a job directory.

    Raises JobError if it is missing, or if its columns differ from the job's.
    """
    path = directory / HOLDOUT
    if not path.is_file():
        remedy = "use the directory that assay job build wrote; only the consumer's directory has this file"
        raise JobError(HOLDOUT, "does not exist", remedy)
    columns = load_safetensors(path)
    expected = {spec.name: (spec.dtype, spec.shape) for spec in job.document.columns}
    weights = job.document.sampling.weights
    if weights not in columns:
        # Only training uses the weights, so the test set need not have them.
        expected.pop(weights, None)
    actual = {name: (dtype_name(array, name), array.shape[1:]) for name, array in columns.items()}
    if actual != expected or len({len(array) for array in columns.values()}) != 1:
        raise JobError(HOLDOUT, "its columns differ from the job's", "build the job again with assay job build")
    return columns


def evaluate(job: Job, state: State, holdout: Mapping[str, Array], runner: Backend | None = None) -> dict[str, float]:
    """Return the values of the job's metrics for a global state on ``holdout``.

    Each value is the mean over whole batches. If exactly one column holds classes (one integer per row),
    ``majority_baseline`` is added. It is the share of the most frequent class, which is the best accuracy of a model
    that ignores its inputs.
    """
    document = job.document
    batch = next((spec.shape[0] for spec in document.eval.inputs if spec.name.startswith("batch.")), 1)
    rows = min((len(array) for array in holdout.values()), default=0)
    if rows < batch:
        reason = f"has {rows} rows, fewer than a batch of {batch}"
        raise JobError(HOLDOUT, reason, f"build the job again with a test set of at least {batch} rows")
    inputs: dict[str, Array] = {f"global.{name}": array for name, array in state.items()}
    sums: dict[str, float] = {}
    starts = range(0, rows - batch + 1, batch)
    executor = runner or backend(Engine())
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
    """Return the quality of a model before and after training, measured on the consumer's own test set.

    ``state`` is the trained global state. The quality is the first metric other than the loss, or the loss if there is
    no other. A baseline is the result of a model that ignores its inputs. For a metric it is the majority baseline, and
    for the loss of a text the frequency baseline.
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
    """Return the fraction of rows that have the most frequent class.

    Return None unless exactly one column holds classes.
    """
    labels = [array for array in columns.values() if array.dtype == np.int64 and array.ndim == 1]
    if len(labels) != 1:
        return None
    _, counts = np.unique(labels[0], return_counts=True)
    return float(counts.max() / counts.sum())


def frequency_baseline(columns: Mapping[str, Array]) -> float | None:
    """Return the cross-entropy, in nats, of a model that predicts each token by its frequency.

    Return None if there is no text. A text is a column whose rows are lists of integers. If several columns are texts,
    the last by name is used, since it holds the targets.
    """
    texts = [columns[name] for name in sorted(columns) if columns[name].dtype == np.int64]
    texts = [text for text in texts if text.ndim == 2 and text.shape[1] > 1]
    if not texts:
        return None
    _, counts = np.unique(texts[-1], return_counts=True)
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())
