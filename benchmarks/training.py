"""Whole training steps, with roots at the ends of segments, beside eager FP32 in torch, interleaved.

A job has twenty segments, each with so many steps that it takes some tenths of a second or more. With one thread time
is that of the processor, so that whatever else runs here counts little; with more it is that of the clock. Rows have
the median of segments and the range of ratios. The native kernels are compared with plain training at its best, too:
with a fused optimizer, and with ``torch.compile`` where that finds a compiler. Memory is measured apart, in a process
for each: :mod:`benchmarks.memory`.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import torch
from torch._dynamo.exc import BackendCompilerFailed

from benchmarks import memory
from benchmarks.figures import Figures, Row
from benchmarks.instructions import AVX2, are_held
from benchmarks.networks import MODELS
from benchmarks.steps import EAGER, STEPS, eager, exact
from benchmarks.threads import limited
from pol.capture.author.spec import JobSpec
from pol.capture.build import build
from pol.executor.backend import computing
from pol.executor.names import NATIVE, NUMPY
from pol.job.load import LoadedJob, load_job
from pol.ops.product import DEFAULT_BITS

NAME = "training"
EXECUTORS = (NATIVE, NUMPY)
SEGMENTS = 6
RECURRENT = ("lstm-128", "lstm-128-unrolled")
GOALS = {
    "digits": 0.3,
    "mlp-512": 0.9,
    "gpt-128": 0.95,
    "gpt-512": 0.9,
    **dict.fromkeys(RECURRENT, 1.0),
}
"""Of native to eager with 15 bits, on processors with VNNI."""
GOALS_AVX2 = dict.fromkeys(GOALS, 1.5)
"""The same where native kernels have no instructions for neural networks (``--instructions avx2``)."""
GOALS_8 = {**dict.fromkeys(GOALS, 0.5), "gpt-512": 0.45}
"""The same with products of 8 bits."""
GOALS_BEST = {"gpt-512": 1.0}
"""Of native to torch.compile, and to eager with a fused optimizer."""
GOAL_MEMORY = 1.3
"""Of native to eager."""
FUSED, COMPILED = "eager FP32 with fused AdamW", "torch.compile"


def run(models: Sequence[str] = tuple(MODELS), precision: int = DEFAULT_BITS, threads: int = 1) -> Figures:
    """Measure some models, or all, with products of so many bits, in so many threads."""
    rows: list[Row] = []
    notes: list[str] = []
    for name in models:
        with tempfile.TemporaryDirectory() as folder, limited(threads):
            spec = replace(MODELS[name](STEPS[name]), precision=precision)
            build(spec, Path(folder))
            rows += _rows(name, spec, load_job(Path(folder)), threads, notes)
            if memory.AVAILABLE:
                rows += _memory(name, Path(folder), threads)
    notes.append(f"{computing(NATIVE)}; torch {torch.backends.cpu.get_cpu_capability()}")
    if not memory.AVAILABLE:
        notes.append("memory: this system does not say what a process had at most")
    return Figures(NAME, rows, notes)


def _memory(name: str, folder: Path, threads: int) -> Iterator[Row]:
    plain, native = (memory.growth(name, which, folder, threads) for which in (EAGER, NATIVE))
    yield Row(f"{name}, memory, eager FP32", plain, "MiB")
    yield Row(case=f"{name}, memory, native", value=native, unit="MiB", baseline=plain, goal=GOAL_MEMORY)


def _rows(name: str, spec: JobSpec, loaded: LoadedJob, threads: int, notes: list[str]) -> Iterator[Row]:
    steps = STEPS[name]
    clock = process_time if threads == 1 else perf_counter
    tasks = {EAGER: eager(spec, steps), FUSED: eager(spec, steps, fused=True)}
    if are_held():
        notes.append(f"{name}, {COMPILED}: left out, its code may crash where torch is held to less")
    else:
        try:
            compiled = eager(spec, steps, compiled=True)
            compiled(0)
            tasks[COMPILED] = compiled
        except BackendCompilerFailed as error:
            notes.append(f"{name}, {COMPILED}: {str(error).splitlines()[0]}")
    tasks |= {executor: exact(loaded, executor) for executor in EXECUTORS}
    times: dict[str, list[float]] = {task: [] for task in tasks}
    for number in range(SEGMENTS):
        for task, work in tasks.items():
            start = clock()
            work(number)
            times[task].append(1e3 * (clock() - start) / steps)
    # the first one compiles
    kept = {task: found[1:] for task, found in times.items()}
    of_default = GOALS_AVX2 if computing(NATIVE) == f"{NATIVE} {AVX2}" else GOALS
    goals = {8: GOALS_8, DEFAULT_BITS: of_default}.get(spec.precisions[""].forward, {})
    yield Row(f"{name}, eager FP32", median(kept[EAGER]), "ms/step")
    setting = f"{name}, {spec.precision} bits, {threads} threads"

    def compared(executor: str, plain: str, goal: float | None) -> Row:
        ratios = [ours / other for ours, other in zip(kept[executor], kept[plain], strict=True)]
        beside = "" if plain == EAGER else f" beside {plain}"
        case = f"{setting}, {executor}{beside} ({min(ratios):.2f} to {max(ratios):.2f})"
        return Row(
            case=case,
            value=median(kept[executor]),
            unit="ms/step",
            baseline=median(kept[plain]),
            goal=goal,
        )

    for executor in EXECUTORS:
        yield compared(executor, EAGER, goals.get(name) if executor == NATIVE else None)
    for plain in (FUSED, COMPILED):
        if plain in kept:
            yield compared(NATIVE, plain, GOALS_BEST.get(name))
