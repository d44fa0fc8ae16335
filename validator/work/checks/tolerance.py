"""The recomputation of places in the tier ``tolerance``: segments in hardware arithmetic, everything else exactly.

Two honest machines reach different states, so the end of a segment is compared with the own end by its distance. A job
without the part ``tolerance`` is computed exactly, and has no tolerance: its ends must be equal.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from domain.proof.reasons import ShareReason
from domain.proof.records import AnswerKind
from pol.errors import ExecutionError, StateError, StepFailed
from pol.executor.interface import Backend
from pol.executor.names import Engine
from pol.executor.segment_backend import segment_backend
from pol.job.document import JobDocument
from pol.job.load import LoadedJob
from pol.replay.distances import SegmentEnd, is_same_work
from pol.replay.replay import replay_from
from pol.rules.commitment import boundary_root
from pol.rules.tolerance import TIER_NAME
from pol.work.records import RoundSlot
from pol.work.segments import SlotState, first_state
from validator.decide.records import Recomputed, ReplayOutcome
from validator.work.checks import exact
from validator.work.checks.check import Checks
from validator.work.loaded import job_in, opened_states
from validator.work.numerics import write_state
from validator.work.requests import (
    Match,
    OpenedStates,
    SegmentAudit,
    SegmentCheck,
    StateFiles,
    StatesComparison,
    StopCheck,
)

# --- checks of a validator's own providers -------------------------------------------------------


def check_segment(asked: SegmentCheck) -> ReplayOutcome:
    """Replay a segment of a share, and compare the end that the share committed to with the own end."""
    job = job_in(asked.directory)
    start = opened_states(job, asked.start)
    if start is None:
        return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"")
    start = _begun(job, asked.part, asked.index, start)
    try:
        own = replay_from(job, asked.part, asked.index, start, _backend(asked.directory, asked.engine), donate=False)
    except StepFailed:
        return ReplayOutcome(ShareReason.NOT_FINITE, b"")
    boundary = own.boundary
    end = _end_of(job.job.document, SlotState(own.global_state, own.local_state), boundary.metrics)
    is_right = (
        asked.end is not None
        and asked.end.root == asked.end_root
        and _match(job, start, (boundary.root, end), asked.end) is Match.WITHIN
    )
    return ReplayOutcome(ShareReason.NONE if is_right else ShareReason.SEGMENT_MISMATCH, boundary.root)


def check_stop(asked: StopCheck) -> ReplayOutcome:
    """Check that the job stops itself where a share ends: anywhere in the next segment, or in the update.

    Machines with other rounding may stop a step earlier or later. A job without a tolerance must stop in the step that
    the share claims.
    """
    job = job_in(asked.directory)
    document = job.job.document
    if document.tolerance is None or asked.index >= document.share_segments:
        return exact.check_stop(asked)
    last = opened_states(job, asked.last)
    if last is None:
        return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"")
    try:
        replay_from(job, asked.part, asked.index, last, _backend(asked.directory, asked.engine))
    except StepFailed:
        return ReplayOutcome(ShareReason.NONE, b"")
    return ReplayOutcome(ShareReason.NOT_STOPPED, b"")


# --- recomputations of seats ---------------------------------------------------------------------


def recompute_segment(asked: SegmentAudit) -> Recomputed:
    """Replay a segment of a share from the states at its first boundary, and keep the end.

    If a step fails, the states before it are kept. A machine that cannot compute in the job's arithmetic leaves the
    place to others.
    """
    job = job_in(asked.directory)
    start = opened_states(job, asked.start)
    if start is None:
        return Recomputed(exact.WRONG_STATES)
    reached, is_stopped = _begun(job, asked.part, asked.index, start), False
    metrics: tuple[int, ...] = ()

    def follow(state: SlotState) -> None:
        nonlocal reached
        reached = state

    try:
        backend = _backend(asked.directory, asked.engine)
    except ExecutionError as error:
        return Recomputed(str(error))
    try:
        # Another run might end elsewhere, so the states are kept as they are reached, and not overwritten.
        own = replay_from(job, asked.part, asked.index, reached, backend, follow, donate=False)
        metrics = own.boundary.metrics
    except StepFailed:
        is_stopped = True
    if asked.keep is not None:
        _keep(asked.keep, reached)
    root = boundary_root(*reached.roots, metrics)
    return Recomputed(fault="", kind=AnswerKind.OUTSIDE, root=b"", digest=root, metrics=metrics, stopped=is_stopped)


# --- comparisons of end states -------------------------------------------------------------------


def compare(asked: StatesComparison) -> tuple[Match, ...]:
    """Return for each of the other end states whether it has its root, and is within the job's thresholds of the own.

    Raises StateError if the start or the own end does not have its root.
    """
    job = job_in(asked.directory)
    if job.job.document.tolerance is None:
        return exact.compare(asked)
    start, own = opened_states(job, asked.start), opened_states(job, asked.own)
    if start is None or own is None:
        raise StateError("start" if start is None else "own", "does not have its root")
    if asked.part is not None:
        start = _begun(job, asked.part, asked.index, start)
    reference = (asked.own.root, _end_of(job.job.document, own, asked.own.metrics))
    return tuple(_match(job, start, reference, other) for other in asked.others)


def _match(job: LoadedJob, start: SlotState, own: tuple[bytes, SegmentEnd | None], other: OpenedStates) -> Match:
    """Return whether the files of another end have its root, and it is within the thresholds of the own end.

    ``own`` is the root and the states of the own end.
    """
    root, reference = own
    document = job.job.document
    # The states are read even if the roots are equal: the claim is worth nothing without its files.
    opened = opened_states(job, other)
    if opened is None:
        return Match.OTHER
    if document.tolerance is None:
        return Match.WITHIN if other.root == root else Match.OUTSIDE
    claimed, before = _end_of(document, opened, other.metrics), _end_of(document, start, ())
    if reference is None or claimed is None or before is None:
        return Match.OUTSIDE
    return Match.WITHIN if is_same_work(document.tolerance, before, reference, claimed) else Match.OUTSIDE


def _end_of(document: JobDocument, states: SlotState, metrics: Sequence[int]) -> SegmentEnd | None:
    """Return states with their named metrics. None if their number is not that of the job's metrics or zero."""
    if metrics and len(metrics) != len(document.metrics):
        return None
    named = dict(zip(document.metrics, metrics, strict=False))
    return SegmentEnd(states.global_state, states.local_state, named)


def _begun(job: LoadedJob, part: RoundSlot, index: int, start: SlotState) -> SlotState:
    """Return the states with which a segment begins: a slot's first segment may have a local state of its own."""
    return first_state(job, part.slot, start) if (part.round, index) == (0, 0) else start


def _keep(files: StateFiles, states: SlotState) -> None:
    write_state(files.global_state, states.global_state)
    write_state(files.local_state, states.local_state)


@lru_cache(maxsize=2)
def _backend(directory: Path, engine: Engine) -> Backend:
    """Return what computes the segments of a job. It is cached, because it keeps the programs that it compiled.

    A process of the pool may start no threads, and torch would end it with an error that names no cause.
    """
    return segment_backend(job_in(directory).job.document, replace(engine, threads=1), hardware=True)


TOLERANCE_CHECKS = Checks(
    tier=TIER_NAME,
    check_segment=check_segment,
    check_update=exact.check_update,
    check_stop=check_stop,
    recompute_segment=recompute_segment,
    recompute_update=exact.recompute_update,
    recompute_aggregation=exact.recompute_aggregation,
    compare=compare,
)
"""The checks of the tier ``tolerance``."""
