"""Tasks of training that run elsewhere: a segment of a share, a share's update, and a machine's speed.

Daemons give these functions to an :class:`pol.work.executor.Executor` and never run them, so NumPy is imported only in
the functions.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

from pol.executor.names import Engine
from pol.values import TensorSpec, f32_bits
from pol.work.records import Boundary, RoundSlot

if TYPE_CHECKING:
    from pol.executor.interface import Backend
    from pol.job.load import LoadedJob
    from pol.state.arrays import Array
    from pol.work.segments import SlotState

_PIECES = 16
"""Pieces per call when a machine's speed is measured: a call has a fixed cost as large as that of a few pieces."""


@dataclass(frozen=True, slots=True)
class ShareShape:
    """The segments of a share of a job, and the steps of each; or why no machine can train the job."""

    segments: int = 0
    segment_steps: int = 0
    refused: str = ""


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """A request to train a segment. It reads the job and the states at the segment's first boundary, and writes those
    at its last boundary.

    ``roots`` are the roots that the first states must have; None if a task wrote them that reported their roots.
    """

    job: Path
    global_in: Path
    local_in: Path
    roots: tuple[bytes, bytes] | None
    part: RoundSlot
    segment: int
    engine: Engine
    global_out: Path
    local_out: Path


@dataclass(frozen=True, slots=True)
class SegmentEnd:
    """The end of a segment: the boundary before it if it is the share's first one, and the boundary after it.

    ``losses`` has the FP32 bits of the loss of each step. ``stopped`` says why the job stopped itself, in step
    ``stop_step``. ``refused`` says why no machine can train this segment. Both are empty if there is a boundary.
    """

    boundaries: tuple[Boundary, ...] = ()
    losses: tuple[int, ...] = ()
    stopped: str = ""
    stop_step: int = -1
    refused: str = ""


@dataclass(frozen=True, slots=True)
class UpdateTask:
    """A request for the update of a share. It reads the job, the round's global state and the states at the share's
    last boundary, which have the roots ``roots``, and writes the last two paths.
    """

    job: Path
    opening: Path
    opening_root: bytes
    global_end: Path
    local_end: Path
    roots: tuple[bytes, bytes]
    engine: Engine
    update: Path
    local_out: Path


@dataclass(frozen=True, slots=True)
class UpdateEnd:
    """The roots of a share's update, and of the slot's local state after the round; or why there are none.

    ``stopped`` and ``refused`` are as in :class:`SegmentEnd`.
    """

    update_root: bytes = b""
    local_out_root: bytes = b""
    stopped: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class ProcessSpeed:
    """The speed of one process in FLOP/s while others measure theirs, and its back end in words."""

    flops: int
    backend: str


def share_shape(job: Path) -> ShareShape:
    """Load a job, and return the shape of its shares."""
    from pol.errors import JobError

    try:
        document = _loaded(job).job.document
    except JobError as error:
        return ShareShape(refused=f"the job does not load: {error}")
    return ShareShape(document.share_segments, document.segment_steps)


def train_segment(task: SegmentTask) -> SegmentEnd:
    """Train a segment, and write the states at its end."""
    from pol.errors import ExecutionError, JobError, ReplayError, StateError, StepFailed, Stopped
    from pol.state.canonical import state_pieces
    from pol.work.train import opening_boundary, train_segments

    losses: list[int] = []
    boundaries: list[Boundary] = []
    try:
        loaded = _loaded(task.job)
        start = _states(loaded, (task.global_in, task.local_in), task.roots)
        if task.segment == 0:
            boundaries.append(opening_boundary(loaded, task.part, start))
        segments = range(task.segment, task.segment + 1)
        end = train_segments(
            loaded,
            task.part,
            segments,
            start,
            backend=_backend(task.engine),
            on_boundary=lambda boundary, *_: boundaries.append(boundary),
            on_step=lambda _, loss: losses.append(_bits(loss)),
        )
    except Stopped as stop:
        step = stop.step if isinstance(stop, StepFailed) else -1
        return SegmentEnd(tuple(boundaries), tuple(losses), stopped=str(stop), stop_step=step)
    except (JobError, StateError, ExecutionError, ReplayError) as error:
        return SegmentEnd(refused=str(error))
    _write(task.global_out, state_pieces(end.global_state))
    _write(task.local_out, state_pieces(end.local_state))
    return SegmentEnd(tuple(boundaries), tuple(losses))


def compute_update(task: UpdateTask) -> UpdateEnd:
    """Compute the update of a share, and write it and the slot's local state after the round."""
    from pol.errors import ExecutionError, JobError, ReplayError, StateError, Stopped
    from pol.job.updates import kind_of
    from pol.state.canonical import state_pieces, state_tree
    from pol.work.train import share_update

    try:
        loaded = _loaded(task.job)
        document = loaded.job.document
        end = _states(loaded, (task.global_end, task.local_end), task.roots)
        opening = end.global_state
        if kind_of(document).reads_opening:
            opening = _read(task.opening, document.global_tensors)
            _check(state_tree(opening).root == task.opening_root)
        result = share_update(loaded, opening, end, _backend(task.engine))
    except Stopped as stop:
        return UpdateEnd(stopped=str(stop))
    except (JobError, StateError, ExecutionError, ReplayError) as error:
        return UpdateEnd(refused=str(error))
    _write(task.update, state_pieces(result.update))
    _write(task.local_out, state_pieces(result.local_out))
    return UpdateEnd(update_root=result.update_root, local_out_root=result.local_out_root)


def measure_process(engine: Engine, seconds: float) -> ProcessSpeed:
    """Compute pieces of a probe for about ``seconds``, and return the speed of this process."""
    from pol.executor.backend import computing
    from pol.rules.probe import PIECE_WORK
    from pol.work.probe import work_pieces

    executor = _backend(engine)
    # The first call compiles code and starts threads, so it is not timed.
    work_pieces(b"", range(1), executor)
    pieces = 0
    start = time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        work_pieces(b"", range(pieces, pieces + _PIECES), executor)
        pieces += _PIECES
    return ProcessSpeed(int(pieces * PIECE_WORK / passed), computing(engine))


def probe_pieces(engine: Engine, seed: bytes, first: int, end: int) -> tuple[bytes, ...]:
    """Compute the pieces from ``first`` to before ``end`` of a validator's probe; return their digests."""
    from pol.work.probe import work_pieces

    return work_pieces(seed, range(first, end), _backend(engine))


@lru_cache(maxsize=2)
def _loaded(job: Path) -> "LoadedJob":
    from pol.job.load import verify_job

    return verify_job(job).without_initial()


@lru_cache(maxsize=2)
def _backend(engine: Engine) -> "Backend":
    from pol.executor.backend import backend

    return backend(engine)


def _states(loaded: "LoadedJob", paths: tuple[Path, Path], roots: tuple[bytes, bytes] | None) -> "SlotState":
    """Read a global and a local state; StateError if they are not the job's, or do not have ``roots``."""
    from pol.work.segments import SlotState

    document = loaded.job.document
    state = SlotState(_read(paths[0], document.global_tensors), _read(paths[1], document.local_tensors))
    _check(roots is None or state.roots == roots)
    return state


def _check(holds: bool) -> None:
    from pol.errors import StateError

    if not holds:
        raise StateError("states", "they do not have the roots that the chain or an earlier task names")


def _read(path: Path, specs: Sequence[TensorSpec]) -> "dict[str, Array]":
    from pol.state.canonical import read_state

    return read_state(path, specs)


def _bits(loss: float) -> int:
    try:
        return f32_bits(loss)
    except OverflowError:
        return f32_bits(nan)


def _write(to: Path, pieces: "Iterable[bytes | memoryview]") -> None:
    with to.open("xb") as file:
        for piece in pieces:
            file.write(piece)
