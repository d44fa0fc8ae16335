"""The recomputation of one place of another validator's round: the function of its tier, and the request for it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from domain.proof.records import AnswerKind, AuditKind, AuditPlace, Share
from link.types import AuditOpening
from pol.executor.names import Engine
from pol.rules.commitment import boundary_root
from pol.work.records import RoundSlot
from validator.decide.records import Recomputed
from validator.work.checks.table import checks_of
from validator.work.requests import (
    AggregationAudit,
    Match,
    OpenedStates,
    RootedFile,
    SegmentAudit,
    StateFiles,
    UpdateAudit,
)

KINDS: Mapping[Match, AnswerKind] = MappingProxyType(
    {Match.WITHIN: AnswerKind.WITHIN, Match.OUTSIDE: AnswerKind.OUTSIDE, Match.OTHER: AnswerKind.UNAVAILABLE}
)
"""The answer that follows from comparing the provider's end states with one's own. Other files than those that the
provider committed to are as good as none.
"""


@dataclass(frozen=True, slots=True)
class PlaceFiles:
    """The files of a place: the job's directory, the opened states in their order, and the updates by slot."""

    directory: Path
    states: Sequence[StateFiles]
    updates: Mapping[int, Path]


@dataclass(frozen=True, slots=True)
class Audit:
    """A function of the process pool, with the request that recomputes a place."""

    function: Callable[[Any], Recomputed]
    request: SegmentAudit | UpdateAudit | AggregationAudit


def make_audit(
    tier: str,
    place: AuditPlace,
    shares: Sequence[Share],
    opening: AuditOpening,
    files: PlaceFiles,
    *,
    global_in: bytes,
    seeds: tuple[bytes, ...],
    engine: Engine,
    keep: StateFiles | None = None,
) -> Audit:
    """Return the function and the request that recompute a place.

    ``shares`` has the share of the place or, for an aggregation, all shares of the round in slot order. ``global_in``
    is the root of the global state before the round. ``seeds`` go into the digests of the answer. The end states of a
    segment are written to ``keep``, in a tier that compares them.
    """
    checks = checks_of(tier)
    if place.kind is AuditKind.AGGREGATION:
        updates = tuple(
            RootedFile(files.updates[share.claim.slot], share.roots.update_root)
            for share in shares
            if share.roots is not None
        )
        start = RootedFile(files.states[0].global_state, global_in)
        aggregation = AggregationAudit(
            directory=files.directory, opening=start, updates=updates, seeds=seeds, engine=engine
        )
        return Audit(checks.recompute_aggregation, aggregation)
    (share,) = shares
    if place.kind is AuditKind.UPDATE:
        update = UpdateAudit(
            directory=files.directory,
            round_opening=RootedFile(files.states[0].global_state, global_in),
            closing=OpenedStates(files.states[1], opening.states[1].metrics, opening.leaves[-1].boundary_root),
            seeds=seeds,
            engine=engine,
        )
        return Audit(checks.recompute_update, update)
    segment = SegmentAudit(
        directory=files.directory,
        part=RoundSlot(share.claim.round, share.claim.slot),
        index=place.segment,
        start=opened_start(place, share, opening, files.states[0], global_in),
        seeds=seeds,
        engine=engine,
        keep=keep,
    )
    return Audit(checks.recompute_segment, segment)


def opened_start(
    place: AuditPlace, share: Share, opening: AuditOpening, files: StateFiles, global_in: bytes
) -> OpenedStates:
    """Return the states at the start of a segment, with the root that they should have.

    Segment 0 starts from the share's initial states. Their root is on the chain, so it is not taken from a leaf.
    """
    root = opening.leaves[0].boundary_root if place.segment else boundary_root(global_in, share.local_in)
    return OpenedStates(files, opening.states[0].metrics, root)
