"""Training steps on a GPU in exact arithmetic, compared with exact steps on the processor and eager FP32 on the GPU.

``ASSAY_GPU`` names the device (``cuda`` by default). All boundaries must have the roots that the processor computes.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
from torch import nn

from benchmarks.figures import Figures, Row
from benchmarks.networks import MODELS, loss
from pol.capture.author.spec import JobSpec
from pol.capture.build import build
from pol.errors import ExecutionError
from pol.executor.backend import backend, computing
from pol.executor.interface import Backend
from pol.executor.names import NATIVE, TORCH, Engine
from pol.job.load import LoadedJob, load_job
from pol.work.records import RoundSlot
from pol.work.segments import run_segment, slot_state

NAME = "gpu"
DEFAULT = ("gpt-512", "resnet")
SEGMENTS, STEPS = 4, 5


def run(models: Sequence[str] = DEFAULT) -> Figures:
    """Measure some models. The benchmark fails if there is no GPU, or if it computes other bits."""
    device = os.environ.get("ASSAY_GPU", "cuda")
    try:
        gpu, processor = backend(Engine(TORCH, device)), backend(Engine(NATIVE))
    except ExecutionError as error:
        return Figures(NAME, (), [error.reason], failed=True)
    rows: list[Row] = []
    for name in models:
        with tempfile.TemporaryDirectory() as folder:
            spec = MODELS[name](STEPS)
            build(spec, Path(folder))
            loaded = load_job(Path(folder))
        there, roots = _exact(loaded, gpu)
        here, expected = _exact(loaded, processor)
        if roots != expected:
            return Figures(NAME, rows, [f"{name}: {device} computes other bits than the processor"], failed=True)
        rows.append(Row(f"{name}, exact, processor", here, "ms/step"))
        rows.append(Row(case=f"{name}, exact, {device}", value=there, unit="ms/step", baseline=here))
        plain = _eager(spec, torch.device(device))
        rows.append(Row(f"{name}, eager FP32, {device}", plain, "ms/step"))
        rows.append(Row(case=f"{name}, exact beside eager, {device}", value=there, unit="ms/step", baseline=plain))
    return Figures(
        NAME, rows, [f"processor: {computing(Engine(NATIVE))}; {_described(device)}; torch {torch.__version__}"]
    )


def _described(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def _exact(loaded: LoadedJob, engine: Backend) -> tuple[float, list[bytes]]:
    """Return the milliseconds of a step, with hashing left out, and the roots at the ends of the segments."""
    state = slot_state(loaded, loaded.global_state, loaded.local_state)
    times, roots = [], []
    for index in range(SEGMENTS):
        last = [perf_counter()]

        def stepped(step: int, value: float, reached: object, last: list[float] = last) -> None:
            # Reading the loss, which the callback's caller did, waits for the step.
            times.append(1e3 * (perf_counter() - last[0]))
            last[0] = perf_counter()

        state, boundary = run_segment(loaded, RoundSlot(0, 0), index, state, engine, stepped)
        roots.append(boundary.root)
    # Kernels are compiled in the first segment.
    return median(times[STEPS:]), roots


def _eager(spec: JobSpec, device: torch.device) -> float:
    model = spec.model.train().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    columns = {key: torch.as_tensor(value)[: spec.batch].to(device) for key, value in spec.train.items()}
    times = []
    for _ in range(SEGMENTS * STEPS):
        began = perf_counter()
        optimizer.zero_grad()
        lost = loss(model, columns)
        lost.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        float(lost.detach())
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(1e3 * (perf_counter() - began))
    return median(times[STEPS:])
