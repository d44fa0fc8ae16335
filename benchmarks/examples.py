"""The held-out results of the demo's jobs after training with three seeds, both as jobs and in eager FP32.

The eager steps are the job's own, run by torch in FP32 on the same batches with the same random numbers; slots are
averaged after every round. Rows have the mean, the minimum and the maximum over the seeds.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from runpy import run_path
from statistics import mean

import numpy as np
import torch

from benchmarks.figures import Figures, Row
from benchmarks.models import plain_random_numbers
from localnet.demo import JOBS
from pol.capture.author.spec import JobSpec
from pol.capture.build import build
from pol.capture.functions import JobFunctions
from pol.job.dataset import batch_at
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.load import LoadedJob, load_job
from pol.local.evaluate import quality_of
from pol.local.run import run_locally
from pol.rules.schedule import batch_number
from pol.state.arrays import Array

NAME = "examples"
MODELS = JOBS
SEEDS = (7, 8, 9)


def run(models: Sequence[str] = tuple(JOBS)) -> Figures:
    """Train some examples, or all by default."""
    rows: list[Row] = []
    for name in models:
        spec: JobSpec = run_path(str(JOBS[name]))["job"]()
        rows += _rows(name, spec)
    return Figures(NAME, rows)


def _rows(name: str, spec: JobSpec) -> Iterator[Row]:
    exact, plain, qualities = [], [], []
    for seed in SEEDS:
        print(f"{NAME}: {name}, seed {seed}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder) / "job"
            seeded = replace(spec, seed=seed)
            build(seeded, directory)
            qualities.append(quality_of(directory, run_locally(directory).state))
            exact.append(qualities[-1]["after"])
            plain.append(quality_of(directory, _eager(seeded, load_job(directory)))["after"])
    first = qualities[0]
    trivial = first["frequency_baseline"] if first["majority_baseline"] is None else first["majority_baseline"]
    columns = {"untrained": first["before"], "trivial": trivial}
    metric = first["metric"]
    yield Row(f"{name}, eager FP32", mean(plain), metric, columns={**_ends(plain), **columns})
    yield Row(
        case=f"{name}, job",
        value=mean(exact),
        unit=metric,
        baseline=mean(plain),
        columns={**_ends(exact), **columns},
    )


def _ends(values: Sequence[float]) -> dict[str, float | None]:
    return {"lowest": min(values), "highest": max(values)}


def _eager(spec: JobSpec, loaded: LoadedJob) -> dict[str, Array]:
    """Train a job in FP32, and return its final global state."""
    document = loaded.job.document
    functions = JobFunctions(spec, document.rounds * document.round_steps)
    state = _tensors("global", loaded.global_state)
    slots = [_tensors("local", loaded.local_state)] * document.slots
    for round_number in range(document.rounds):
        ends = []
        for slot, local in enumerate(slots):
            current = {**state, **local}
            first = round_number * document.round_steps
            for step in range(first, first + document.round_steps):
                number = batch_number(document.slots, step, slot)
                batch = {k: torch.from_numpy(v) for k, v in batch_at(loaded.data, loaded.job, number).items()}
                counts = {STEP: torch.tensor(step), BATCH_NUMBER: torch.tensor(number)}
                with plain_random_numbers(document.seed):
                    outputs = functions.step({**current, **batch, **counts})
                current |= {name: part.detach() for name, part in outputs.items() if name in current}
            ends.append(current)
        slots = [{name: end[name] for name in slots[0]} for end in ends]
        state = {name: _mean([end[name] for end in ends]) for name in state}
    return {name.partition(".")[2]: part.numpy() for name, part in state.items()}


def _tensors(prefix: str, state: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    return {f"{prefix}.{name}": torch.from_numpy(np.array(array)) for name, array in state.items()}


def _mean(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    if not parts[0].is_floating_point():
        return parts[0]
    return torch.stack(list(parts)).double().mean(0).float()
