"""A table of models that train: each row of the catalogue becomes a job, trains two steps, and is compared with FP32.

The FP32 step is the job's own, run by torch with the job's random numbers. The first step's loss and the norm of the
weights' change have to agree within ``TOLERANCE``. For plain SGD, the change is the gradient times the learning rate.
The second step's loss has to agree within ``LATER_TOLERANCE``, because the first steps of some networks amplify
differences.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

from benchmarks.catalogue import CATALOGUE
from benchmarks.figures import Figures, Row
from pol.capture.author.spec import JobSpec
from pol.capture.build import build
from pol.capture.draws import dropout
from pol.capture.functions import JobFunctions
from pol.errors import JobError
from pol.executor.backend import backend
from pol.executor.interface import run as run_program
from pol.executor.names import NATIVE, Engine
from pol.job.dataset import batch_at
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.load import LoadedJob, load_job
from pol.names import input_name, model_name
from pol.ops import philox
from pol.state.arrays import Array

NAME = "models"
MODELS = CATALOGUE
STEPS = 2
TOLERANCE, LATER_TOLERANCE = 2e-2, 2e-1
"""Products of a job have 15 bits, and products of FP32 have 24; batch norm on few rows amplifies the difference."""


@dataclass(frozen=True)
class RowOutcome:
    """The result of a row: a step's number of nodes, seconds, the first step's relative difference, and any error."""

    nodes: int
    seconds: float
    difference: float
    error: str = ""


@dataclass(frozen=True)
class _Run:
    """The losses of two steps, and the norms of the weights' changes after the first step and after both."""

    losses: tuple[float, ...]
    change: float
    change_of_both: float


def run(models: Sequence[str] = tuple(CATALOGUE)) -> Figures:
    """Build, train and compare some rows of the catalogue, by default all."""
    rows, notes = [], []
    for number, name in enumerate(models, 1):
        print(f"{number}/{len(models)} {name}", file=sys.stderr, flush=True)
        result = outcome(name)
        ok, nodes = float(not result.error), float(result.nodes)
        columns = {"ok": ok, "nodes": nodes, "difference": result.difference}
        rows.append(Row(name, result.seconds, "s", columns=columns, details={"error": result.error}))
        if result.error:
            notes.append(f"{name}: {result.error}")
    fine = sum(not row.details["error"] for row in rows)
    notes.append(f"{fine} of {len(rows)} OK ({fine / len(rows):.0%})")
    return Figures(NAME, rows, notes)


def outcome(name: str) -> RowOutcome:
    """Build, train and compare one row of the catalogue."""
    start = time.perf_counter()

    def ended(nodes: int, difference: float, error: str = "") -> RowOutcome:
        return RowOutcome(nodes=nodes, seconds=time.perf_counter() - start, difference=difference, error=error)

    try:
        with tempfile.TemporaryDirectory() as folder:
            spec = CATALOGUE[name]()
            build(spec, Path(folder))
            loaded = load_job(Path(folder))
            nodes = len(loaded.job.document.step.nodes)
            eager = _eager(spec, loaded)
            first, later = _differences(_exact(loaded), eager)
    except JobError as error:
        return ended(0, float("nan"), str(error))
    # The table also shows exceptions that no code expects.
    except Exception as error:  # noqa: BLE001
        return ended(0, float("nan"), f"crashes with {type(error).__name__}: {error}")
    if not eager.change_of_both:
        return ended(nodes, first, "two steps of plain torch change nothing, so nothing is compared")
    if not (first <= TOLERANCE and later <= LATER_TOLERANCE):
        return ended(nodes, first, f"differs from eager FP32 by {first:.2g}, then {later:.2g}")
    return ended(nodes, first)


State = Mapping[str, Array]


def _steps(loaded: LoadedJob) -> int:
    document = loaded.job.document
    return document.rounds * document.round_steps


def _opening(loaded: LoadedJob) -> dict[str, Array]:
    return {
        **{f"global.{name}": array for name, array in loaded.global_state.items()},
        **{f"local.{name}": array for name, array in loaded.local_state.items()},
    }


def _inputs(loaded: LoadedJob, step: int) -> dict[str, Array]:
    number = np.array(step)
    return {**batch_at(loaded.data, loaded.job, step), STEP: number, BATCH_NUMBER: number}


def _trained(loaded: LoadedJob, step: Callable[[State], State]) -> _Run:
    opening = state = _opening(loaded)
    losses, changes = [], []
    for number in range(STEPS):
        outputs = step({**state, **_inputs(loaded, number)})
        losses.append(float(outputs["metric.loss"]))
        state = {**state, **{name: outputs[name] for name in outputs if name in state}}
        changes.append(_change(opening, state))
    return _Run(tuple(losses), changes[0], changes[-1])


def _exact(loaded: LoadedJob) -> _Run:
    document, engine = loaded.job.document, backend(Engine(NATIVE))
    return _trained(loaded, lambda inputs: run_program(document.step, inputs, document.seed, engine))


def _eager(spec: JobSpec, loaded: LoadedJob) -> _Run:
    functions = JobFunctions(spec, _steps(loaded))

    def step(inputs: State) -> State:
        with plain_random_numbers(loaded.job.document.seed):
            outputs = functions.step({model_name(k): torch.from_numpy(v.copy()) for k, v in inputs.items()})
        return {input_name(name): tensor.detach().numpy() for name, tensor in outputs.items()}

    return _trained(loaded, step)


def _change(before: State, after: State) -> float:
    moved = [
        np.square(after[name].astype(np.float64) - before[name]).sum() for name in before if name.startswith("global.")
    ]
    return float(np.sqrt(sum(moved)))


def _differences(exact: _Run, eager: _Run) -> tuple[float, float]:
    """Return the relative differences from plain training: the largest of the first step, and the second loss."""

    def apart(ours: float, plain: float) -> float:
        return abs(ours - plain) / max(abs(plain), 1e-6)

    first = apart(exact.losses[0], eager.losses[0]), apart(exact.change, eager.change)
    return max(first), apart(exact.losses[1], eager.losses[1])


@contextmanager
def plain_random_numbers(seed: int) -> Iterator[None]:
    """Let a job's step in torch use the random numbers of a job with ``seed`` while the ``with`` block runs."""

    def drawn(number: torch.Tensor, shape: Sequence[int], site: int) -> torch.Tensor:
        count = int(np.prod(shape))
        return torch.from_numpy(philox.uniform(seed, site, int(number), count).reshape(tuple(shape)))

    with patch.object(dropout, "uniform", drawn):
        yield
