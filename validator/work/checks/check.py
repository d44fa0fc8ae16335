"""The numerics of a tier: one function per kind of request, which a process of the pool calls."""

from collections.abc import Callable
from dataclasses import dataclass

from validator.decide.records import Recomputed, ReplayOutcome
from validator.work.requests import (
    AggregationAudit,
    Match,
    SegmentAudit,
    SegmentCheck,
    StatesComparison,
    StopCheck,
    UpdateAudit,
    UpdateCheck,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """The functions that recompute the places of a leg in a tier.

    ``check_segment``, ``check_update`` and ``check_stop`` check a share of the validator's own providers.
    ``recompute_segment``, ``recompute_update`` and ``recompute_aggregation`` compute the answers of a seat.
    ``compare`` says for each of some end states of a segment whether its files have its root, and whether it agrees
    with the validator's own. Another process calls the functions by their names, so each must be at the top level of
    its module.
    """

    tier: str
    check_segment: Callable[[SegmentCheck], ReplayOutcome]
    check_update: Callable[[UpdateCheck], ReplayOutcome]
    check_stop: Callable[[StopCheck], ReplayOutcome]
    recompute_segment: Callable[[SegmentAudit], Recomputed]
    recompute_update: Callable[[UpdateAudit], Recomputed]
    recompute_aggregation: Callable[[AggregationAudit], Recomputed]
    compare: Callable[[StatesComparison], tuple[Match, ...]]
