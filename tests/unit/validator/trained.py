"""A share of the checked-in job, trained honestly, with all its states in files."""

from dataclasses import dataclass, replace
from pathlib import Path

from domain.keys import ShareKey
from domain.proof.records import ShareRoots
from link.types import BlobRef, ShareDelivery, TraceBoundary
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.load import load_job
from pol.rules.commitment import compute_trace_root
from pol.state.arrays import State
from pol.state.canonical import encode_state
from pol.work.records import Boundary, RoundSlot, TrainedShare
from pol.work.train import train_share
from tests.support.chain_market import digest
from validator.decide.records import ReplayOutcome
from validator.decide.traces import leaves_of
from validator.work import requests
from validator.work.checks import exact

JOB = Path(__file__).parents[2] / "fixtures" / "job_tiny"
PART = RoundSlot(0, 1)
N = 5
Ends = tuple[bytes, bytes]


def opened_at(paths: tuple[Path, Path], metrics: tuple[int, ...], root: bytes) -> requests.OpenedStates:
    """Return the states of two files as those at a boundary with this root."""
    return requests.OpenedStates(requests.StateFiles(*paths), metrics, root)


def check_segment(index: int, start: requests.OpenedStates, end_root: bytes) -> ReplayOutcome:
    """Replay a segment of the fixture job's share as a validator does."""
    asked = requests.SegmentCheck(
        directory=JOB, part=PART, index=index, start=start, end_root=end_root, engine=Engine("numpy")
    )
    return exact.check_segment(asked)


def check_update(
    closing: requests.OpenedStates,
    sent: tuple[Path, Path],
    roots: tuple[bytes, bytes],
    *,
    job: Path = JOB,
    opening: Path = JOB / "global.state",
) -> ReplayOutcome:
    """Recompute a share's update as a validator does, and compare with what was ``sent`` and its ``roots``."""
    asked = requests.UpdateCheck(
        directory=job,
        round_opening=opening,
        closing=closing,
        update=sent[0],
        local_out=sent[1],
        update_root=roots[0],
        local_root=roots[1],
        engine=Engine("numpy"),
    )
    return exact.check_update(asked)


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

    @property
    def roots(self) -> tuple[bytes, bytes]:
        """The roots of update and local_out."""
        return self.share.update_root, self.share.local_out_root

    def ends(self, index: int) -> Ends:
        """Return the boundary roots that a segment lies between."""
        return self.boundaries[index].root, self.boundaries[index + 1].root

    def segment(self, index: int, ends: Ends | None = None, metrics: tuple[int, ...] | None = None) -> ReplayOutcome:
        opened = self.boundaries[index].metrics if metrics is None else metrics
        start, end = ends or self.ends(index)
        return check_segment(index, opened_at(self.paths(index), opened, start), end)

    def update(self, closing_root: bytes | None = None, roots: tuple[bytes, bytes] | None = None) -> ReplayOutcome:
        root = closing_root or self.boundaries[N].root
        closing = opened_at(self.paths(N), self.boundaries[N].metrics, root)
        return check_update(closing, self.sent, roots or self.roots)


def delivery_of(trained: Trained, update: BlobRef, out: BlobRef, bent: int = -1) -> ShareDelivery:
    """Return what a commitment to the share hides; the root of boundary ``bent`` is wrong."""
    boundaries = tuple(
        TraceBoundary(b.step, digest("bent") if b.index == bent else b.root, b.metrics) for b in trained.boundaries[1:]
    )
    roots = ShareRoots(bytes(32), *trained.roots, boundaries[-1].metrics, len(boundaries))
    key = ShareKey(digest("order"), 1, PART.round, PART.slot, 1)
    packet = ShareDelivery(key, roots, boundaries, update, out)
    root = compute_trace_root(leaves_of(packet))
    return replace(packet, roots=replace(roots, trace_root=root))


def train(folder: Path) -> Trained:
    """Train a share of the fixture job honestly, and write its states to ``folder``."""
    loaded, states = load_job(JOB), []
    share = train_share(
        loaded,
        PART,
        loaded.global_state,
        loaded.local_state,
        backend=backend(Engine("numpy")),
        on_boundary=lambda _boundary, first, second: states.append((first, second)),
    )
    made = Trained(folder, share, states)
    for index, pair in enumerate(states):
        for path, state in zip(made.paths(index), pair, strict=True):
            path.write_bytes(encode_state(state))
    made.sent[0].write_bytes(encode_state(share.update))
    made.sent[1].write_bytes(encode_state(share.local_out))
    return made
