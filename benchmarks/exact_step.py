"""A training step of the demo's job in exact arithmetic on each executor; the baseline is torch's eager FP32 step."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import torch

from benchmarks.figures import Figures, Row
from examples.digits import job
from pol.capture.author.spec import JobSpec
from pol.capture.build import build
from pol.capture.loading import load_into
from pol.executor.backend import backend
from pol.executor.names import BACKENDS, Engine
from pol.job.load import LoadedJob, load_job
from pol.state.canonical import state_tree
from pol.work.segments import SlotState, advance, slot_state

NAME = "exact_step"
STEPS = 60
WARM_UP = 5


def run() -> Figures:
    """Measure steps on one thread, the hashing of both states, and the building of the job."""
    torch.set_num_threads(1)
    spec = job()
    with tempfile.TemporaryDirectory() as folder:
        started = perf_counter()
        build(spec, Path(folder))
        built = perf_counter() - started
        loaded = load_job(Path(folder))
    native = _milliseconds(_eager_step(spec, loaded))
    flops = loaded.job.document.step_flops
    rows = [Row("eager FP32 (torch)", native, "ms/step")]
    for name in BACKENDS:
        exact = _milliseconds(_exact_step(loaded, name))
        rows.append(Row(case=f"exact, {name}", value=exact, unit="ms/step", baseline=native))
        rows.append(
            Row(
                case=f"exact, {name}",
                value=flops / exact / 1e3,
                unit="MFLOP/s",
                baseline=flops / native / 1e3,
            )
        )
    states = (loaded.global_state, loaded.local_state)
    rows.append(
        Row(
            case="roots of both states",
            value=_milliseconds(lambda: [state_tree(s) for s in states]),
            unit="ms",
            baseline=native,
        )
    )
    rows.append(Row("building the job, once", built * 1e3, "ms"))
    return Figures(NAME, rows)


def _milliseconds(step: Callable[[], object]) -> float:
    times = []
    for _ in range(WARM_UP + STEPS):
        started = perf_counter()
        step()
        times.append(perf_counter() - started)
    return 1e3 * median(times[WARM_UP:])


def _exact_step(loaded: LoadedJob, name: str) -> Callable[[], object]:
    runner = backend(Engine(name))
    state: list[SlotState] = [slot_state(loaded, loaded.global_state, loaded.local_state)]
    done = [0]

    def step() -> None:
        state[0], _ = advance(loaded, state[0], done[0], 0, runner)
        done[0] += 1

    return step


def _eager_step(spec: JobSpec, loaded: LoadedJob) -> Callable[[], object]:
    model = spec.model.train()
    load_into(model, loaded.global_state)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    rows = loaded.data.take(np.arange(spec.batch))
    x, y = (torch.tensor(rows[name]) for name in ("x", "y"))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step
