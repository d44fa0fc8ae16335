"""The place at which a job stops, and the shares of that round (protocol sections 3 and 4.6).

A job stops if it has no result: a step is not finite or uses a row number that does not exist, or an update or an
aggregation is not finite. The places of a round have an order: slot after slot, each with its segments and its update,
then the aggregation. The job stops at the first place in this order that has no result. Slots are trained at the same
time, so several shares may stop. A share that stopped has only the whole segments before its stop, and the completed
steps of the segment in which it stopped. Its provider is paid for these segments and steps.
"""

from collections.abc import Iterable

from domain.market.records import JobTerms
from domain.proof.records import AuditKind, AuditPlace, ShareRoots
from pol.rules.schedule import first_step, segment_work, share_segments

AGGREGATION = AuditPlace(kind=AuditKind.AGGREGATION, slot=0, issue=0, segment=0)
"""The place of the aggregation at the end of a round."""


def check_roots(terms: JobTerms, roots: ShareRoots) -> str:
    """Return the first contradiction in the roots of a share as text; an empty string if there is none.

    A whole share has all segments, an update and a local state. A share that stopped has no update and no local state;
    its trace and its metrics cover only its whole segments.
    """
    segments = share_segments(terms)
    if roots.is_whole != (roots.local_out != b""):
        return "have an update without a local state, or a local state without an update"
    if roots.segments > segments or (roots.is_whole and roots.segments < segments):
        return f"are those of {roots.segments} segments, but a share has {segments}"
    if (roots.trace_root != b"") != (roots.segments > 0):
        return "have a trace without segments, or segments without a trace"
    if roots.metrics and not roots.segments:
        return "have metrics without segments"
    if roots.steps >= terms.segment_steps:
        return f"have {roots.steps} steps before the stop, but a segment has {terms.segment_steps}"
    if roots.steps and roots.segments == segments:
        return "have steps after the last segment"
    return ""


def stop_of(terms: JobTerms, slot: int, issue: int, roots: ShareRoots) -> AuditPlace | None:
    """Return the place at which a share claims to stop: the segment after its whole segments, or its update.

    Return None if the share is whole.
    """
    if roots.is_whole:
        return None
    kind = AuditKind.SEGMENT if roots.segments < share_segments(terms) else AuditKind.UPDATE
    return AuditPlace(kind=kind, slot=slot, issue=issue, segment=roots.segments)


def find_stop(terms: JobTerms, shares: Iterable[tuple[int, int, ShareRoots]]) -> AuditPlace:
    """Return the place at which the job stops. ``shares`` are the shares of the job's last round in slot order.

    Each share is given as (slot, issue, roots). If all shares are whole, the job stops at the aggregation.
    """
    stops = (stop_of(terms, *share) for share in shares)
    return next((stop for stop in stops if stop is not None), AGGREGATION)


def stop_step(terms: JobTerms, round: int, place: AuditPlace, roots: ShareRoots | None) -> int:
    """Return the number of the job's step that has no result, if the job stops at ``place``.

    ``roots`` are the roots of the share that claims the stop. Return 0 if the place is not a segment, because an update
    and an aggregation have no steps.
    """
    if place.kind is not AuditKind.SEGMENT or roots is None:
        return 0
    return first_step(terms, round) + place.segment * terms.segment_steps + roots.steps


def done_work(terms: JobTerms, roots: ShareRoots) -> int:
    """Return the FLOPs that a share completed: its segments, its update, and its steps before the stop."""
    coded = terms.close_work if roots.is_whole else 0
    return roots.segments * segment_work(terms) + coded + roots.steps * terms.step_work
