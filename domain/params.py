"""Parameters of the chain, in genesis (protocol section 9); durations in seconds on the chain clock."""

from dataclasses import dataclass
from typing import Annotated

from domain.amount import BPS
from domain.bounds import Bps, Duration, Range
from domain.limits import ANSWERS_MAX, DURATION_MAX, SEGMENTS_MAX

# Every edge is safe, if not sensible.
Wait = Annotated[int, Range(0, DURATION_MAX)]
"""Seconds, or no time at all."""
Rate = Annotated[int, Range(1, 2**63 - 1)]
"""Bytes/s, or FLOP/s."""
Take = Annotated[int, Range(0, BPS // 2)]
"""Basis points of which two are never more than all."""
Portion = Annotated[int, Range(1, 100_000)]
"""How much of something a block does."""
Attempts = Annotated[int, Range(1, 100)]
Auditors = Annotated[int, Range(0, 100)]
AuditPlaces = Annotated[int, Range(1, ANSWERS_MAX)]
SegmentsDrawn = Annotated[int, Range(1, SEGMENTS_MAX)]


@dataclass(frozen=True, slots=True)
class OrderParams:
    """The parameters under which an order was submitted; it keeps them for life."""

    accept_base: Wait
    accept_rate: Rate
    progress_base: Wait
    round_window: Duration
    report_window: Duration
    max_attempts: Attempts
    auditors: Auditors
    audit_places_max: AuditPlaces
    segments_drawn: SegmentsDrawn
    job_bond_bps: Bps
    decline_fee_bps: Bps
    protocol_bps: Take
    audit_bps: Take
    lot_wait: Wait
    reference_speed: Rate

    @property
    def range_work_max(self) -> int:
        """FLOPs that the slowest auditor replays in an eighth of the window: the most that one range may have."""
        return self.reference_speed * self.round_window // 8


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters with the defaults of a public network."""

    clock_step_max: Annotated[int, Range(1, 86_400)] = 60
    lot_wait: Wait = 600
    accept_base: Wait = 600
    accept_rate: Rate = 1_000_000  # bytes/s
    progress_base: Wait = 3_600
    round_window: Duration = 3_600
    report_window: Duration = 3_600
    max_attempts: Attempts = 3
    auditors: Auditors = 2
    audit_places_max: AuditPlaces = 16
    segments_drawn: SegmentsDrawn = 4
    reference_speed: Rate = 1_000_000_000  # FLOP/s of exact work
    job_bond_bps: Bps = 1_000
    decline_fee_bps: Bps = 1_000  # of the job bond
    protocol_bps: Take = 100
    audit_bps: Take = 300
    bond_wait: Wait = 14 * 86_400
    min_gas_price_millionths: Annotated[int, Range(0, 10**12)] = (
        1_000  # consensus minimum, millionths of uassay per gas unit
    )
    matches_per_block: Portion = 256
    deadlines_per_block: Portion = 256

    def for_order(self) -> OrderParams:
        """Return the part that an order keeps for life."""
        return OrderParams(**{name: getattr(self, name) for name in OrderParams.__slots__})


def local_params() -> Params:
    """Return the parameters of a local network."""
    return Params(
        clock_step_max=2,
        lot_wait=20,
        accept_base=20,
        accept_rate=10_000_000,
        progress_base=30,
        round_window=10,
        report_window=10,
        audit_places_max=4,
        segments_drawn=2,
        reference_speed=200_000_000,
        bond_wait=60,
    )
