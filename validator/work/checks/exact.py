"""The recomputation of places in the tier ``exact``, in which all correct results have the same bits, and therefore the
same roots.

The digests of an answer cover all bytes of the recomputed state, so they are computed here, in the same process.
"""

from collections.abc import Iterator
from contextlib import suppress

from domain.proof.reasons import ShareReason
from pol.errors import AggregationFailed, StateError, StepFailed, UpdateFailed
from pol.job.load import LoadedJob
from pol.replay.replay import replay_from, replay_segment
from pol.rules.commitment import update_claim
from pol.rules.tiers.exact import EXACT
from pol.state.canonical import read_state, state_tree
from pol.work.places import boundary_step
from pol.work.segments import SlotState
from pol.work.train import aggregate, share_update
from validator.decide.records import Recomputed, ReplayOutcome, finished, stopped
from validator.work.checks.check import Checks
from validator.work.loaded import (
    backend_of,
    job_in,
    open_states,
    opened_states,
    pieces_of,
    read_rooted,
)
from validator.work.numerics import opening_holds
from validator.work.requests import (
    AggregationAudit,
    Match,
    OpenedStates,
    OpeningCheck,
    SegmentAudit,
    SegmentCheck,
    StatesComparison,
    StopCheck,
    UpdateAudit,
    UpdateCheck,
)

WRONG_STATES = "the states that the winner sent do not have the roots on the chain"

# --- checks of a validator's own providers -------------------------------------------------------


def check_segment(asked: SegmentCheck) -> ReplayOutcome:
    """Replay a segment of a share and compare the result with the boundary roots at its start and its end."""
    job = job_in(asked.directory)
    start = opened_states(job, asked.start)
    if start is None:
        return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"")
    try:
        replayed = replay_from(job, asked.part, asked.index, start, backend_of(asked.engine))
    except StepFailed:
        return ReplayOutcome(ShareReason.NOT_FINITE, b"")
    root = replayed.boundary.root
    same = root == asked.end_root
    return ReplayOutcome(ShareReason.NONE if same else ShareReason.SEGMENT_MISMATCH, root)


def check_update(asked: UpdateCheck) -> ReplayOutcome:
    """Recompute a share's update and its final local state from boundaries 0 and n, and check the files that the
    provider sent.
    """
    job = job_in(asked.directory)
    end = opened_states(job, asked.closing)
    if end is None:
        return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"")
    start = read_state(asked.round_opening, job.job.document.global_tensors)
    try:
        result = share_update(job, start, end, backend_of(asked.engine))
    except UpdateFailed:
        return ReplayOutcome(ShareReason.NOT_FINITE, b"")
    root = update_claim(result.update_root, result.local_out_root, asked.closing.metrics)
    if root != update_claim(asked.update_root, asked.local_root, asked.closing.metrics):
        return ReplayOutcome(ShareReason.UPDATE_MISMATCH, root)
    try:
        update = state_tree(read_state(asked.update, job.job.update_tensors)).root
        local = state_tree(read_state(asked.local_out, job.job.document.local_tensors)).root
    except StateError:
        return ReplayOutcome(ShareReason.MALFORMED, root)
    if (update, local) != (asked.update_root, asked.local_root):
        return ReplayOutcome(ShareReason.MALFORMED, root)
    return ReplayOutcome(ShareReason.NONE, root)


def check_stop(asked: StopCheck) -> ReplayOutcome:
    """Check that the job stops itself where a share ends: in the next segment, or in the update after the last one.

    In a segment, it must stop after the number of steps that the share claims.
    """
    job = job_in(asked.directory)
    last = opened_states(job, asked.last)
    if last is None:
        return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"")
    start = read_state(asked.round_opening, job.job.document.global_tensors)
    try:
        if asked.index < job.job.document.share_segments:
            opened = last.global_state, last.local_state
            replay_segment(job, asked.part, asked.index, *opened, backend_of(asked.engine))
        else:
            share_update(job, start, last, backend_of(asked.engine))
    except StepFailed as error:
        stop = boundary_step(job.job.document, asked.part.round, asked.index) + asked.steps
        return ReplayOutcome(ShareReason.NONE if error.step == stop else ShareReason.NOT_STOPPED, b"")
    except UpdateFailed:
        return ReplayOutcome(ShareReason.NONE, b"")
    return ReplayOutcome(ShareReason.NOT_STOPPED, b"")


# --- recomputations of seats ---------------------------------------------------------------------


def recompute_segment(asked: SegmentAudit) -> Recomputed:
    """Replay a segment of a share from the states at its first boundary."""
    job = job_in(asked.directory)
    start = opened_states(job, asked.start)
    if start is None:
        return Recomputed(WRONG_STATES)
    inner: list[bytes] = []

    def follow(state: SlotState) -> None:
        inner.append(state.root)

    try:
        replayed = replay_from(job, asked.part, asked.index, start, backend_of(asked.engine), follow)
    except StepFailed as error:
        # The states before the failed step are no longer in memory, so they are computed again.
        return stopped(EXACT.digests(asked.seeds, inner, _before(job, asked)), error.step)
    states_reached = replayed.global_state, replayed.local_state
    return finished(replayed.boundary.root, EXACT.digests(asked.seeds, inner, pieces_of(*states_reached)))


def _before(job: LoadedJob, asked: SegmentAudit) -> Iterator[bytes | memoryview]:
    """Yield the bytes of the last states that a segment reached before a step failed. If its first step failed, these
    are its initial states.
    """
    opened = open_states(job, asked.start.files)
    assert opened is not None
    reached = opened

    def follow(state: SlotState) -> None:
        nonlocal reached
        reached = state.global_state, state.local_state

    with suppress(StepFailed):
        replay_segment(job, asked.part, asked.index, *opened, backend_of(asked.engine), follow)
    return pieces_of(*reached)


def recompute_update(asked: UpdateAudit) -> Recomputed:
    """Recompute a share's update from the round's initial global state and the states at the last boundary."""
    job = job_in(asked.directory)
    end = opened_states(job, asked.closing)
    if end is None:
        return Recomputed(WRONG_STATES)
    try:
        start = read_rooted(asked.round_opening, job.job.document.global_tensors)
    except StateError:
        return Recomputed(WRONG_STATES)
    try:
        result = share_update(job, start, end, backend_of(asked.engine))
    except UpdateFailed:
        return stopped(EXACT.digests(asked.seeds, (), pieces_of(end.global_state, end.local_state)))
    root = update_claim(result.update_root, result.local_out_root, asked.closing.metrics)
    return finished(root, EXACT.digests(asked.seeds, (), pieces_of(result.update, result.local_out)))


def recompute_aggregation(asked: AggregationAudit) -> Recomputed:
    """Recompute a round's next global state from its initial global state and its updates."""
    job = job_in(asked.directory)
    try:
        start = read_rooted(asked.opening, job.job.document.global_tensors)
        # Read one at a time, because all updates together may not fit in memory.
        read = (read_rooted(update, job.job.update_tensors) for update in asked.updates)
        try:
            result = aggregate(job, start, read, backend_of(asked.engine))
        except AggregationFailed:
            return stopped(EXACT.digests(asked.seeds, (), pieces_of(start)))
    except StateError:
        return Recomputed(WRONG_STATES)
    return finished(result.root, EXACT.digests(asked.seeds, (), pieces_of(result.state)))


# --- comparisons of end states -------------------------------------------------------------------


def compare(asked: StatesComparison) -> tuple[Match, ...]:
    """Return for each of the other states whether it has the root of the own one, and its files have this root."""
    return tuple(_match(asked, other) for other in asked.others)


def _match(asked: StatesComparison, other: OpenedStates) -> Match:
    if not opening_holds(OpeningCheck(asked.directory, other)):
        return Match.OTHER
    return Match.WITHIN if other.root == asked.own.root else Match.OUTSIDE


EXACT_CHECKS = Checks(
    tier=EXACT.name,
    check_segment=check_segment,
    check_update=check_update,
    check_stop=check_stop,
    recompute_segment=recompute_segment,
    recompute_update=recompute_update,
    recompute_aggregation=recompute_aggregation,
    compare=compare,
)
