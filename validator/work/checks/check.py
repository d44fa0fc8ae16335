"""What the numerics of a tier are: one function per request, which a process of the pool calls."""

from collections.abc import Callable
from dataclasses import dataclass

from validator.decide.records import Recomputed, ReplayOutcome
from validator.work.requests import (
    AggregationAudit,
    SegmentAudit,
    SegmentCheck,
    StopCheck,
    UpdateAudit,
    UpdateCheck,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """How the places of a leg are recomputed in a tier.

    ``check_segment``, ``check_update`` and ``check_stop`` are what a validator does with a share of its own providers;
    ``recompute_segment``, ``recompute_update`` and ``recompute_aggregation`` what a seat answers. The functions are
    called by their name in another process, so each is at the top of its module.
    """

    tier: str
    check_segment: Callable[[SegmentCheck], ReplayOutcome]
    check_update: Callable[[UpdateCheck], ReplayOutcome]
    check_stop: Callable[[StopCheck], ReplayOutcome]
    recompute_segment: Callable[[SegmentAudit], Recomputed]
    recompute_update: Callable[[UpdateAudit], Recomputed]
    recompute_aggregation: Callable[[AggregationAudit], Recomputed]
