"""Whole training steps, with roots at the ends of segments, beside eager FP32 in torch, interleaved.

A job has twenty segments, each with so many steps that it takes some tenths of a second or more. With one thread time
is that of the processor, so that whatever else runs here counts little; with more it is that of the clock. Rows have
the median of segments and the range of ratios.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import torch
from torch import nn

from benchmarks.figures import Figures, Row
from benchmarks.models import MODELS, loss
from benchmarks.threads import limited
from pol.executor.backend import backend
from pol.executor.names import NATIVE, NUMPY
from pol.job.load import LoadedJob, load_job
from pol.ops.product import DEFAULT_BITS
from pol.tracing.build import build, load_into
from pol.tracing.spec import JobSpec
from pol.work.records import RoundSlot
from pol.work.segments import run_segment, slot_state

NAME = "training"
EXECUTORS = (NATIVE, NUMPY)
SEGMENTS = 6
GOALS = {"digits": 0.3, "mlp-512": 0.9, "gpt-128": 0.95, "gpt-512": 0.9, "lstm-128": 1.0}
"""Of native to eager with 15 bits; they are meant for processors with AVX-512 VNNI."""
GOALS_8 = {**dict.fromkeys(GOALS, 0.5), "gpt-512": 0.45}
"""The same with products of 8 bits."""
STEPS = {"digits": 100, "mlp-512": 40, "gpt-128": 4, "gpt-512": 1, "lstm-128": 8}


def run(
    models: Sequence[str] = tuple(MODELS), precision: int = DEFAULT_BITS, threads: int = 1
) -> Figures:
    """Measure some models, or all, with products of so many bits, in so many threads."""
    rows: list[Row] = []
    for name in models:
        with tempfile.TemporaryDirectory() as folder, limited(threads):
            spec = replace(MODELS[name](STEPS[name]), precision=precision)
            build(spec, Path(folder))
            rows += _rows(name, spec, load_job(Path(folder)), threads)
    return Figures(NAME, rows)


def _rows(name: str, spec: JobSpec, loaded: LoadedJob, threads: int) -> list[Row]:
    steps = STEPS[name]
    clock = process_time if threads == 1 else perf_counter
    tasks = {"eager": eager(spec, loaded, steps)}
    tasks |= {executor: _exact(loaded, executor) for executor in EXECUTORS}
    times: dict[str, list[float]] = {task: [] for task in tasks}
    for number in range(SEGMENTS):
        for task, work in tasks.items():
            start = clock()
            work(number)
            times[task].append(1e3 * (clock() - start) / steps)
    # the first one compiles
    kept = {task: found[1:] for task, found in times.items()}
    plain = median(kept["eager"])
    goals = {8: GOALS_8, DEFAULT_BITS: GOALS}.get(spec.product_bits.forward, {})
    rows = [Row(f"{name}, eager FP32", plain, "ms/step")]
    for executor in EXECUTORS:
        ratios = [ours / eager for ours, eager in zip(kept[executor], kept["eager"], strict=True)]
        goal = goals.get(name) if executor == NATIVE else None
        case = f"{name}, {spec.precision} bits, {threads} threads, {executor} ({min(ratios):.2f} to {max(ratios):.2f})"
        rows.append(Row(case, median(kept[executor]), "ms/step", plain, goal))
    return rows


def _exact(loaded: LoadedJob, executor: str) -> Callable[[int], object]:
    engine = backend(executor)
    state = [slot_state(loaded, loaded.global_state, loaded.local_state)]

    def work(number: int) -> None:
        state[0], _ = run_segment(loaded, RoundSlot(0, 0), number, state[0], engine)

    return work


def eager(spec: JobSpec, loaded: LoadedJob, steps: int) -> Callable[[int], object]:
    """Return what takes so many steps of plain training, whichever number it is given."""
    model = spec.model.train()
    load_into(model, loaded.global_state)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    columns = {key: torch.tensor(value[: spec.batch]) for key, value in loaded.data.columns.items()}

    def work(_number: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            loss(model, columns).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return work
