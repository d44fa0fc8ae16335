"""Whole training steps with roots at the ends of segments, compared with eager FP32 in torch.

A job has twenty segments. Each segment takes some tenths of a second or more. Segments of the job and of eager FP32
alternate. With one thread, times are processor time, so that other load has little effect; with more threads, they are
wall-clock time. Rows have the median of the segments and the range of the ratios. The native kernels are also compared
with faster plain training: with a fused optimizer, and with ``torch.compile`` if it finds a compiler. Memory is
measured separately, in one process per executor: :mod:`benchmarks.memory`.
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
from pol.executor.names import NATIVE, NUMPY, Engine
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
"""Highest ratio of native to eager time with 15 bits, on processors with VNNI."""
GOALS_AVX2 = dict.fromkeys(GOALS, 1.5)
"""The same without instructions for neural networks (``--instructions avx2``)."""
GOALS_8 = {**dict.fromkeys(GOALS, 0.5), "gpt-512": 0.45}
"""The same with products of 8 bits."""
GOALS_BEST = {"gpt-512": 1.0}
"""Highest ratio of native time to torch.compile, and to eager with a fused optimizer."""
GOAL_MEMORY = 1.3
"""Highest ratio of native to eager memory."""
FUSED, COMPILED = "eager FP32 with fused AdamW", "torch.compile"


def run(models: Sequence[str] = tuple(MODELS), precision: int = DEFAULT_BITS, threads: int = 1) -> Figures:
    """Measure some models, or all by default, with products of ``precision`` bits and ``threads`` threads."""
    rows: list[Row] = []
    notes: list[str] = []
    for name in models:
        with tempfile.TemporaryDirectory() as folder, limited(threads):
            spec = replace(MODELS[name](STEPS[name]), precision=precision)
            build(spec, Path(folder))
            rows += _rows(name, spec, load_job(Path(folder)), threads, notes)
            if memory.AVAILABLE:
                rows += _memory(name, Path(folder), threads)
    notes.append(f"{computing(Engine(NATIVE))}; torch {torch.backends.cpu.get_cpu_capability()}")
    if not memory.AVAILABLE:
        notes.append("memory: this system does not report a process's peak memory")
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
        notes.append(f"{name}, {COMPILED}: left out, because its code may crash with restricted instructions")
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
    # The first segment compiles, so it does not count.
    counted = {task: seconds[1:] for task, seconds in times.items()}
    of_default = GOALS_AVX2 if computing(Engine(NATIVE)) == f"{NATIVE} {AVX2}" else GOALS
    goals = {8: GOALS_8, DEFAULT_BITS: of_default}.get(spec.precisions[""].forward, {})
    yield Row(f"{name}, eager FP32", median(counted[EAGER]), "ms/step")
    setting = f"{name}, {spec.precision} bits, {threads} threads"

    def compared(executor: str, plain: str, goal: float | None) -> Row:
        ratios = [ours / other for ours, other in zip(counted[executor], counted[plain], strict=True)]
        beside = "" if plain == EAGER else f" beside {plain}"
        case = f"{setting}, {executor}{beside} ({min(ratios):.2f} to {max(ratios):.2f})"
        return Row(
            case=case,
            value=median(counted[executor]),
            unit="ms/step",
            baseline=median(counted[plain]),
            goal=goal,
        )

    for executor in EXECUTORS:
        yield compared(executor, EAGER, goals.get(name) if executor == NATIVE else None)
    for plain in (FUSED, COMPILED):
        if plain in counted:
            yield compared(NATIVE, plain, GOALS_BEST.get(name))
