"""The recomputation of a place from its opening, where a state is a hash: as seats and challengers do it."""

from collections.abc import Sequence

from domain.proof.records import AuditKind, AuditPlace, Share
from link.types import AuditOpening
from localnet.simulator.training import METRICS, Job, next_state, update_of
from pol.rules.commitment import boundary_root, update_claim
from validator.decide.records import Recomputed, finished, stopped


def recompute(
    job: Job,
    round: int,
    place: AuditPlace,
    opening: AuditOpening,
    shares: Sequence[Share],
    global_in: bytes,
    made: Sequence[bytes],
) -> Recomputed:
    """Return what recomputing a place gives, with the digests ``made`` of the panel's stages so far."""
    stop: int | None = 0
    if place.kind is not AuditKind.AGGREGATION:
        stop = job.stop(round, place.slot)
    if job.breaks(round) and stop is not None and place.segment >= stop:
        return stopped(made, stop_step_of(job, round, place))
    return finished(_root(job, round, place, opening, shares, global_in), made)


def stop_step_of(job: Job, round: int, place: AuditPlace) -> int:
    """Return the step at which a place stops, if the job stops in it."""
    if place.kind is not AuditKind.SEGMENT:
        return 0
    inside = place.segment == job.stop(round, place.slot)
    return job.step_at(round, place.segment) + (job.stop_step(round, place.slot) if inside else 0)


def _root(
    job: Job, round: int, place: AuditPlace, opening: AuditOpening, shares: Sequence[Share], global_in: bytes
) -> bytes:
    """Return the root that recomputing a place gives."""
    if place.kind is AuditKind.AGGREGATION:
        assert opening.states[0].global_state.sha256 == global_in
        return next_state(global_in, [item.update.root for item in opening.updates])
    (share,) = shares
    pairs = [(state.global_state.sha256, state.local_state.sha256) for state in opening.states]
    # Nothing that does not hash to its leaf ever reaches a seat.
    at = -1 if place.kind is AuditKind.UPDATE else 0
    opened = boundary_root(*pairs[at], opening.states[at].metrics)
    if place.kind is AuditKind.UPDATE or place.segment:
        assert opened == opening.leaves[0].boundary_root
    else:
        assert opened == boundary_root(global_in, share.local_in)
    if place.kind is AuditKind.UPDATE:
        return update_claim(update_of(pairs[0][0], pairs[1][0]), pairs[1][1], opening.states[-1].metrics)
    return boundary_root(*job.train(pairs[0], round, place.slot, place.segment), METRICS)
