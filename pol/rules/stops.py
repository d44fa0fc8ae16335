"""Where a job stops, and what the shares of that round are (protocol sections 3 and 4.6).

A job stops where it has no result: a step that is not finite or asks for a row that is not there, an update or an
aggregation that is not finite. One machine would do the places of a round in order, slot after slot with its segments
and its update, the aggregation at the end; the first of them that has no result is the place at which the job stops.
Slots are trained at once, so several shares may end where they stop; what each has before that is whole segments.
"""

from collections.abc import Iterable

from domain.market.records import JobTerms
from domain.proof.records import AuditKind, Place, ShareRoots
from pol.rules.schedule import segment_work, share_segments

AGGREGATION = Place(kind=AuditKind.AGGREGATION, slot=0, issue=0, segment=0)
"""The place at the end of a round."""


def check_roots(terms: JobTerms, roots: ShareRoots) -> str:
    """Return what does not fit together in what a share states of its end, or nothing.

    A whole share has all segments, an update and a local state; one that ends where the job stopped has neither of
    these, and a trace and metrics only of whole segments.
    """
    segments = share_segments(terms)
    if roots.is_whole != (roots.local_out != b""):
        return "have an update without a local state, or the other way round"
    if roots.segments > segments or (roots.is_whole and roots.segments < segments):
        return f"are of {roots.segments} segments, and a share has {segments}"
    if (roots.trace_root != b"") != (roots.segments > 0):
        return "have a trace without a segment, or the other way round"
    if roots.metrics and not roots.segments:
        return "have metrics without a segment"
    return ""


def stop_of(terms: JobTerms, slot: int, issue: int, roots: ShareRoots) -> Place | None:
    """Return where a share says that the job stops: the segment behind its last one, or its update; None if whole."""
    if roots.is_whole:
        return None
    kind = AuditKind.SEGMENT if roots.segments < share_segments(terms) else AuditKind.UPDATE
    return Place(kind=kind, slot=slot, issue=issue, segment=roots.segments)


def find_stop(terms: JobTerms, shares: Iterable[tuple[int, int, ShareRoots]]) -> Place:
    """Return the place at which the job stops in a round that has no next state, by its shares in slot order.

    ``shares`` are (slot, issue, roots). Where all of them are whole it is the aggregation.
    """
    stops = (stop_of(terms, *share) for share in shares)
    return next((stop for stop in stops if stop is not None), AGGREGATION)


def done_work(terms: JobTerms, roots: ShareRoots) -> int:
    """Return the FLOPs of what a share has: its whole segments."""
    return roots.segments * segment_work(terms)
