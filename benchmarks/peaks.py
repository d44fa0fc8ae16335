"""The memory that a step declares, compared with the memory that a process uses for the step.

The declared memory is ``Program.peak_size``, the maximum over all executors. A process per executor reports the size of
the inputs plus its growth during the run. The growth includes blocks of a fixed size; batches are large, so that these
matter little.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from benchmarks.figures import Figures, Row
from benchmarks.memory import AVAILABLE, memory, reset_peak
from pol.executor.backend import backend
from pol.executor.names import NATIVE, NUMPY, Engine
from pol.job.dataset import batch_at
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.load import load_job

NAME = "peaks"
GOAL = 1.3
"""Maximum ratio of declared memory to the memory of the executor that uses more."""
EXECUTORS = (NATIVE, NUMPY)
_ROOT = Path(__file__).parents[1]


def _network(name: str, batch: int, steps: int = 1) -> Callable[[], Any]:
    def made() -> Any:
        from benchmarks.networks import MODELS

        return replace(MODELS[name](steps), batch=batch)

    return made


def _vision() -> Any:
    from examples import vision

    return replace(vision.job(), batch=1024, slots=1)


def _checkpointed() -> Any:
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(nn.Sequential):
        def forward(self, x: Any) -> Any:
            for part in self:
                x = checkpoint(part, x, use_reentrant=False)
            return x

    spec: Any = _network("gpt-128", 8)()
    spec.model.blocks = Checkpointed(*spec.model.blocks)
    return spec


def _accumulated() -> Any:
    return replace(_network("gpt-128", 32)(), accumulate=4)


def _adapted() -> Any:
    from peft import LoraConfig, get_peft_model

    spec = _network("gpt-128", 8)()
    model = get_peft_model(spec.model, LoraConfig(r=8, target_modules=["project", "join"]))
    return replace(spec, model=model, weights="keep")


MODELS: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {
        "digits": _network("digits", 1024),
        "vision": _vision,
        "gpt-128": _network("gpt-128", 8),
        "gpt-128, checkpointed": _checkpointed,
        "gpt-128, accumulated": _accumulated,
        "gpt-128, LoRA": _adapted,
        "gpt-512": _network("gpt-512", 4),
        "lstm-128": _network("lstm-128", 256),
    }
)
"""Functions that make jobs, with convolutions and with repeats: an LSTM, and accumulation over parts of a batch."""


def run(models: Sequence[str] = tuple(MODELS)) -> Figures:
    """Measure some models, or all by default."""
    if not AVAILABLE:
        return Figures(NAME, [], ["this system does not report a process's peak memory"])
    return judged([row for name in models for row in _rows(name)])


def judged(rows: Sequence[Row]) -> Figures:
    """Return the figures. They have failed if a step declares too much or too little memory."""
    outside = [row.case for row in rows if not 1 / GOAL <= (row.ratio or 0) <= GOAL]
    notes = [f"{case}: not within {GOAL:g} of what a process has" for case in outside]
    return Figures(NAME, rows, notes, failed=bool(outside))


def _rows(name: str) -> Iterator[Row]:
    from pol.capture.build import build

    print(f"{NAME}: {name}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        declared = build(MODELS[name](), Path(folder)).document.step.peak_size / 2**20
        columns = {executor: _touched(executor, Path(folder)) for executor in EXECUTORS}
    yield Row(
        case=f"{name}, declared",
        value=declared,
        unit="MiB",
        baseline=max(columns.values()),
        goal=GOAL,
        columns=columns,
    )


def _touched(executor: str, folder: Path) -> float:
    command = [sys.executable, "-m", f"benchmarks.{NAME}", executor, str(folder)]
    done = subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(done.stdout)) / 2**20


def main(executor: str, folder: Path) -> None:
    """Print the memory (bytes) that this process uses for a step: the inputs, plus its growth during two runs."""
    loaded = load_job(folder)
    document = loaded.job.document
    compiled = backend(Engine(executor)).compile(document.step, document.seed)
    inputs = {f"global.{name}": array for name, array in loaded.global_state.items()}
    inputs |= {f"local.{name}": array for name, array in loaded.local_state.items()}
    inputs |= batch_at(loaded.data, loaded.job, 0)
    inputs |= {name: np.array(0, np.int64) for name in (STEP, BATCH_NUMBER)}
    # Copy the inputs, so that they are aligned as in a step; arrays from a file may start at any byte.
    inputs = {name: np.array(array) for name, array in inputs.items()}
    before = memory("VmRSS")
    reset_peak()
    for _ in range(2):
        compiled.canonical(inputs)
    wanted = {spec.name for spec in document.step.inputs}
    input_bytes = sum(array.nbytes for name, array in inputs.items() if name in wanted)
    print(json.dumps(input_bytes + memory("VmHWM") - before))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
