"""The check of some honest segments in a process of its own: ``python -m benchmarks.checkers.segments EXECUTOR JOB
SEGMENTS START STOP STEP``. See :mod:`benchmarks.checkers.honest`.
"""

import json
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np

from domain.proof.reasons import ShareReason
from pol.executor.backend import backend
from pol.executor.names import NATIVE, Engine
from pol.rules.tiers.table import default_tier
from pol.state.arrays import State
from pol.state.canonical import read_state
from pol.work.records import RoundSlot
from tests.security import plain
from validator.work.checks.table import checks_of
from validator.work.loaded import job_in
from validator.work.requests import OpenedStates, SegmentCheck, StateFiles

PLAIN_STEPS = 20


def _check(executor: str, directory: Path, cases: Path, share: range) -> dict[str, object]:
    """Check some segments in this process. The list of segments begins again when it ends."""
    if executor == NATIVE and backend(Engine(NATIVE)).name != NATIVE:
        return {}
    listed = json.loads(cases.read_text())
    rejected = 0
    for number in share:
        round, segment, files, metrics, start, end = listed[number % len(listed)]
        asked = SegmentCheck(
            directory=directory,
            part=RoundSlot(round, 0),
            index=segment,
            start=OpenedStates(StateFiles(*map(Path, files)), tuple(metrics), bytes.fromhex(start)),
            end_root=bytes.fromhex(end),
            engine=Engine(executor),
        )
        reason = checks_of(default_tier().name).check_segment(asked).reason
        rejected += reason != ShareReason.NONE
    return {"segments": len(share), "rejected": rejected, "plain": _plain(directory, listed)}


def _plain(directory: Path, listed: list[tuple[int, int, list[str]]]) -> str:
    """Return a hash of the model after a few steps of plain training."""
    loaded = job_in(directory)
    document = loaded.job.document
    first, second = (Path(file) for file in listed[0][2])
    weights: State = read_state(first, document.global_tensors)
    velocity: State = read_state(second, document.local_tensors)
    batch = document.batch
    for step in range(PLAIN_STEPS):
        at = np.arange(step * batch, (step + 1) * batch)
        columns = loaded.data.take(at)
        weights, velocity, _ = plain.step(weights, velocity, columns["x"], columns["y"])
    return sha256(b"".join(np.ascontiguousarray(weights[name]).tobytes() for name in plain.PARAMETERS)).hexdigest()


if __name__ == "__main__":
    json.dump(_check(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), range(*map(int, sys.argv[4:]))), sys.stdout)
