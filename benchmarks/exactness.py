"""A check that exact arithmetic gives the same SHA-256 in every setting; the benchmark fails if two hashes differ.

The work consists of random programs, large products with hostile values, and steps of small jobs. The work runs on
every executor with every library, number of threads and instruction set of the machine, each in a separate process. A
row has the first digits of the hash and the CPU seconds. Settings that this machine does not support are listed below
the table. Plain FP32 has several hashes in these settings, which shows that the settings really differ.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np

from benchmarks.figures import Figures, Row
from pol.executor.backend import computing
from pol.executor.names import NATIVE, NUMPY, TORCH, Engine
from pol.job.load import load_job
from pol.ops.product import BITS
from pol.replay.replay import replay_segment
from pol.state.arrays import Array
from pol.state.canonical import encode_state
from pol.work.records import RoundSlot
from tests.support.controls import CONTROLS, Control
from tests.support.programs import SPECIAL, observed, shown
from tests.unit.pol.executor import stand_in
from tests.unit.pol.executor.ops import apply, bits, get

NAME = "exactness"
ROOT = Path(__file__).parents[1]
PROGRAMS = 100
PRODUCTS = ((1, 1030, 515), (67, 1030, 65), (3, 131_072, 2))
JOBS = ("digits-alone", "gpt-alone", "lstm-alone")
"""Rows of ``tests.same_bits``, for their jobs."""
SHOWN = 16


@dataclass(frozen=True)
class ControlOutcome:
    """The result of a setting: hashes of exact and of plain FP32 work, and CPU seconds.

    If this machine does not support the setting, ``missing`` has the reason.
    """

    exact: str = ""
    plain: str = ""
    seconds: float = 0.0
    missing: str = ""


def run() -> Figures:
    """Build the jobs, do the work in every setting, and return the figures."""
    with TemporaryDirectory(prefix="assay-exactness-") as name:
        build_jobs(Path(name), JOBS)
        return figures({control: measure(control, Path(name), PROGRAMS) for control in CONTROLS})


def figures(outcomes: Mapping[Control, ControlOutcome]) -> Figures:
    """Return the figures of all settings. They have failed if exact work has more than one hash."""
    done = {control: outcome for control, outcome in outcomes.items() if not outcome.missing}
    rows = [Row(f"{control}: {outcome.exact[:SHOWN]}", outcome.seconds, "s") for control, outcome in done.items()]
    hashes = {outcome.exact for outcome in done.values()}
    rows.append(
        Row(
            case=f"exact arithmetic, {len(done)} settings",
            value=len(hashes),
            unit="hashes",
            baseline=1,
            goal=1,
        )
    )
    for executor in (NUMPY, TORCH):
        plain = {outcome.plain for control, outcome in done.items() if control.executor == executor}
        rows.append(Row(f"plain FP32, {executor}", len(plain), "hashes"))
    notes = [f"{control}: {outcome.missing}" for control, outcome in outcomes.items() if outcome.missing]
    return Figures(NAME, rows, notes, failed=len(hashes) != 1)


def build_jobs(folder: Path, names: Sequence[str]) -> None:
    """Build the jobs of some rows of ``tests.same_bits``, each in its own folder."""
    from pol.capture.build import build
    from tests.same_bits.table import ROWS, spec_of

    for row in ROWS:
        if row.name in names:
            build(spec_of(row), folder / row.name)


def measure(control: Control, folder: Path, programs: int) -> ControlOutcome:
    """Run the work in a separate process with a setting: ``programs`` random programs, and the jobs in ``folder``."""
    if control.missing:
        return ControlOutcome(missing=control.missing)
    command = [sys.executable, "-m", "benchmarks.exactness", control.executor]
    command += [str(folder), str(programs)]
    done = subprocess.run(command, cwd=ROOT, env=control.environment, check=True, stdout=subprocess.PIPE)
    return ControlOutcome(**json.loads(done.stdout))


def pieces(executor: str, folder: Path, programs: int) -> Iterator[bytes]:
    """Do the work on an executor, and yield the bytes of each result."""
    chosen = get(executor)
    for seed in range(programs):
        program, inputs = shown(np.random.default_rng(seed))
        yield repr(observed(chosen, program, inputs)).encode()
    for (rows, summed, columns), hostile in product(PRODUCTS, (0.0, 0.01)):
        random = np.random.default_rng(summed)
        left, right = (_numbers(random, shape, hostile) for shape in ((rows, summed), (summed, columns)))
        for precision in BITS:
            yield bits(apply(executor, "matmul", [left, right], bits=precision))
    yield stand_in.exact(chosen).encode()
    for job in sorted(folder.iterdir()):
        loaded = load_job(job)
        states = (loaded.global_state, loaded.local_state)
        replayed = replay_segment(loaded, RoundSlot(0, 0), 0, *states, chosen)
        yield replayed.boundary.root
        yield encode_state(replayed.global_state) + encode_state(replayed.local_state)


def _numbers(random: np.random.Generator, shape: tuple[int, int], hostile: float) -> Array:
    plain = random.standard_normal(shape, np.float32)
    return np.where(random.random(shape) < hostile, random.choice(SPECIAL, shape), plain)


def _outcome(executor: str, folder: Path, programs: int) -> dict[str, object]:
    """Do the work in this process and return the fields of its outcome."""
    if executor == NATIVE and get(executor).name != NATIVE:
        return {"missing": computing(Engine(NATIVE))}
    start, digest = process_time(), sha256()
    for piece in pieces(executor, folder, programs):
        digest.update(len(piece).to_bytes(8, "big") + piece)
    seconds = process_time() - start
    plain = stand_in.plain_torch() if executor == TORCH else stand_in.plain_numpy()
    return {"exact": digest.hexdigest(), "plain": plain, "seconds": seconds}


if __name__ == "__main__":
    json.dump(_outcome(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])), sys.stdout)
