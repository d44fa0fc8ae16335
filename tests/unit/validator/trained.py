"""A share of the checked-in job, trained honestly, with all its states in files."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pol.executor.backend import backend
from pol.job.load import load_job
from pol.state.arrays import State
from pol.state.canonical import encode_state
from pol.work.records import Boundary, Samples, TrainedShare
from pol.work.train import train_share
from validator.decide.records import ReplayOutcome
from validator.work import numerics
from validator.work.numerics import Claimed

JOB = Path(__file__).parents[2] / "fixtures" / "job_tiny"
PART = Samples(0, 32, 128)
N = 4


@dataclass(frozen=True)
class Trained:
    """An honest share with every boundary's states in files."""

    folder: Path
    share: TrainedShare
    states: list[tuple[State, State]]

    @property
    def boundaries(self) -> tuple[Boundary, ...]:
        return self.share.boundaries

    def paths(self, index: int) -> tuple[Path, Path]:
        return self.folder / f"{index}.global", self.folder / f"{index}.local"

    @property
    def sent(self) -> tuple[Path, Path]:
        return self.folder / "update", self.folder / "local_out"

    def claimed(self, index: int) -> Claimed:
        first, last = self.boundaries[index], self.boundaries[index + 1]
        return Claimed(first.root, last.root, last.metrics)

    def segment(self, index: int, claimed: Claimed | None = None) -> ReplayOutcome:
        return numerics.check_segment(
            JOB, PART, index, self.paths(index), claimed or self.claimed(index), "numpy"
        )

    def update(self, **changes: Any) -> ReplayOutcome:
        claimed = Claimed(
            b"", self.boundaries[N].root, (), self.share.update_root, self.share.local_out_root
        )
        return numerics.check_update(
            JOB, JOB / "global.state", self.paths(N), self.sent, replace(claimed, **changes)
        )


def train(folder: Path) -> Trained:
    """Train a share of the fixture job honestly, and write its states to ``folder``."""
    loaded, states = load_job(JOB), []
    share = train_share(
        loaded,
        PART,
        loaded.global_state,
        loaded.local_state,
        backend=backend("numpy"),
        on_boundary=lambda _boundary, first, second: states.append((first, second)),
    )
    made = Trained(folder, share, states)
    for index, pair in enumerate(states):
        for path, state in zip(made.paths(index), pair, strict=True):
            path.write_bytes(encode_state(state))
    made.sent[0].write_bytes(encode_state(share.update))
    made.sent[1].write_bytes(encode_state(share.local_out))
    return made
