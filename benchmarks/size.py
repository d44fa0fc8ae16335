"""All stages of an order with a model of 124 million parameters: GPT-2 from Hugging Face.

The job has 4 rows of 512 tokens per batch, and ten steps, each a segment, on all cores. Each stage has its own process,
as in the market: the consumer builds the job, a provider trains it and hashes the state after every step, a validator
replays a drawn segment, and an auditor recomputes a segment. A row has the seconds and the peak memory of the process.
The baseline is plain FP32 training.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks import corpora
from benchmarks.figures import Figures, Row
from benchmarks.memory import memory
from benchmarks.together import figures_of
from domain.proof.reasons import ShareReason
from host.files import write_durably
from pol.executor.backend import backend
from pol.executor.names import NATIVE, Engine
from pol.job.load import load_job
from pol.state.canonical import state_pieces
from pol.work.records import Boundary, RoundSlot
from pol.work.segments import SlotState, run_segment, slot_state

NAME = "size"
LENGTH, BATCH, STEPS = 512, 4, 10
GOAL = 8e9
"""Maximum peak memory of a process in bytes."""
PLAIN_STEPS = 3
OPENED = 4
"""Number of the replayed segment."""
_ROOT = Path(__file__).parents[1]
_PART = RoundSlot(0, 0)


def run(machines: int = 1) -> Figures:
    """Run and measure every stage. With several machines, measure a segment on them instead."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        if machines > 1:
            _measured("build", folder)
            return figures_of(NAME, Path(folder) / "job", machines)
        plain = _measured("plain", folder)
        rows.append(Row(f"plain FP32, {PLAIN_STEPS} steps", plain.seconds, "s", columns=plain.columns))
        for stage in list(STAGES)[1:]:
            print(f"{NAME}: {stage}", file=sys.stderr, flush=True)
            measured = _measured(stage, folder)
            # The time of training is scaled to the number of steps of plain training.
            part, baseline = (PLAIN_STEPS / STEPS, plain.seconds) if stage == "train" else (1, None)
            rows.append(
                Row(
                    case=stage,
                    value=part * measured.seconds,
                    unit="s",
                    baseline=baseline,
                    columns=measured.columns,
                )
            )
    over = [row.case for row in rows[1:] if (row.columns["peak GB"] or 0) > GOAL / 1e9]
    return Figures(NAME, rows, [f"{case} took more than {GOAL / 1e9:g} GB" for case in over])


@dataclass(frozen=True)
class _Stage:
    seconds: float
    columns: Mapping[str, float | None]


def _measured(stage: str, folder: str) -> _Stage:
    command = [sys.executable, "-m", f"benchmarks.{NAME}", stage, folder]
    done = subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True)
    seconds, most = json.loads(done.stdout.splitlines()[-1])
    return _Stage(seconds, {"peak GB": most / 1e9})


# --- stages --------------------------------------------------------------------------------------


def _spec() -> Any:
    import torch
    import transformers

    from assay import AdamW, JobSpec

    torch.manual_seed(1)
    library: Any = transformers
    model = library.AutoModelForCausalLM.from_config(library.AutoConfig.for_model("gpt2"))
    x = corpora.text(LENGTH).train["x"].astype(np.int64)
    return JobSpec(
        name="gpt2",
        model=model,
        loss=lambda called, batch: called(batch["x"], labels=batch["x"], use_cache=False).loss,
        train={"x": x},
        holdout={"x": x[:BATCH]},
        batch=BATCH,
        steps=STEPS,
        round_steps=STEPS,
        segment_steps=1,
        optimizer=AdamW(weight_decay=0.1),
        schedule=3e-4,
        clip_norm=1.0,
        seed=1,
        weights="keep",
    )


def _plain(_folder: Path) -> None:
    import torch

    spec = _spec()
    model, rows = spec.model.train(), torch.from_numpy(spec.train["x"][:BATCH])
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4, weight_decay=0.1)
    for _ in range(PLAIN_STEPS):
        optimizer.zero_grad()
        spec.loss(model, {"x": rows}).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def _build(folder: Path) -> None:
    from pol.capture.build import build

    build(_spec(), folder / "job")


def _train(folder: Path) -> None:
    loaded, engine = load_job(folder / "job"), backend(Engine(NATIVE))
    state = slot_state(loaded, loaded.global_state, loaded.local_state)
    loaded = loaded.without_initial()
    boundaries: list[Boundary] = []
    for index in range(STEPS):
        if index == OPENED:
            _write_opened(folder, state, boundaries[-1])
        state, boundary = run_segment(loaded, _PART, index, state, engine, donate=True)
        boundaries.append(boundary)
    roots = [boundary.root.hex() for boundary in boundaries]
    (folder / "roots").write_text(json.dumps(roots))


def _write_opened(folder: Path, state: SlotState, boundary: Boundary) -> None:
    for name, part in (("global", state.global_state), ("local", state.local_state)):
        write_durably(folder / name, state_pieces(part))
    (folder / "metrics").write_text(json.dumps(boundary.metrics))


def _opened(folder: Path) -> tuple[tuple[Path, Path], tuple[int, ...], list[bytes]]:
    roots = [bytes.fromhex(root) for root in json.loads((folder / "roots").read_text())]
    metrics = tuple(json.loads((folder / "metrics").read_text()))
    return (folder / "global", folder / "local"), metrics, roots


def _replay(folder: Path) -> None:
    from validator.work import requests
    from validator.work.checks import exact

    states, metrics, roots = _opened(folder)
    result = exact.check_segment(
        requests.SegmentCheck(
            directory=folder / "job",
            part=_PART,
            index=OPENED,
            start=requests.OpenedStates(requests.StateFiles(*states), metrics, roots[OPENED - 1]),
            end_root=roots[OPENED],
            engine=Engine(NATIVE),
        )
    )
    if result.reason != ShareReason.NONE:
        raise RuntimeError(f"the validator finds {ShareReason(result.reason).name}")


def _audit(folder: Path) -> None:
    from validator.work import requests
    from validator.work.checks import exact

    states, metrics, roots = _opened(folder)
    answer = exact.recompute_segment(
        requests.SegmentAudit(
            directory=folder / "job",
            part=_PART,
            index=OPENED,
            start=requests.OpenedStates(requests.StateFiles(*states), metrics, roots[OPENED - 1]),
            seeds=(bytes(32),),
            engine=Engine(NATIVE),
        )
    )
    if answer.root != roots[OPENED]:
        raise RuntimeError("the auditor gives another answer")


STAGES: Mapping[str, Callable[[Path], None]] = {
    "plain": _plain,
    "build": _build,
    "train": _train,
    "replay": _replay,
    "audit": _audit,
}
"""The stages in order, each run in its own process on the folder with the results of earlier stages."""


def main(arguments: Sequence[str]) -> None:
    """Run one stage, and print its seconds and the peak memory of this process in bytes."""
    stage, folder = arguments
    start = perf_counter()
    STAGES[stage](Path(folder))
    print(json.dumps([perf_counter() - start, memory("VmHWM")]))


if __name__ == "__main__":
    main(sys.argv[1:])
