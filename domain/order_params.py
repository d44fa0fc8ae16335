"""The parameters that an order keeps for its whole life, and the bounds that parameters of several components share."""

from dataclasses import dataclass
from typing import Annotated

from domain.amount import BPS
from domain.bounds import Bps, Duration, Money, Range
from domain.limits import ANSWERS_MAX, CHALLENGE_WAIT_MAX, DURATION_MAX, DUTY_SEGMENTS_MAX, ROUNDS_MAX, SLOTS_MAX

# Every value in a range is safe, although not every value is useful.
Wait = Annotated[int, Range(0, DURATION_MAX)]
"""Seconds; 0 means not to wait."""
ChallengeWait = Annotated[int, Range(0, CHALLENGE_WAIT_MAX)]
"""Seconds; 0 means not to wait."""
AuditRate = Annotated[int, Range(400, BPS)]
"""Basis points. At a lower chance of a panel, the largest bond of a share would not deter its provider."""
Rate = Annotated[int, Range(1, 2**63 - 1)]
"""Bytes/s or FLOP/s."""
Take = Annotated[int, Range(0, BPS // 2)]
"""Basis points, at most one half, so that two such parts together are never more than the whole."""
Legs = Annotated[int, Range(1, 100)]
Rounds = Annotated[int, Range(1, ROUNDS_MAX)]
Auditors = Annotated[int, Range(0, 100)]
AuditPlaces = Annotated[int, Range(1, ANSWERS_MAX)]
AuditSegments = Annotated[int, Range(1, 16)]
RoundsAhead = Annotated[int, Range(1, 256)]
StageBase = Annotated[int, Range(4, DURATION_MAX)]
"""Seconds, enough for a block to include an answer that is ready."""
DutySegments = Annotated[int, Range(1, DUTY_SEGMENTS_MAX)]
NewcomerSlots = Annotated[int, Range(1, SLOTS_MAX)]


@dataclass(frozen=True, slots=True)
class OrderParams:
    """The parameters that were in force when an order was submitted. The order keeps them for its whole life."""

    accept_base: Wait
    accept_rate: Rate
    progress_base: Wait
    round_window: Duration
    max_attempts: Legs
    auditors: Auditors
    audit_places_max: AuditPlaces
    duty_segments: DutySegments
    job_bond_bps: Bps
    decline_fee_bps: Bps
    protocol_bps: Take
    audit_bps: Take
    lot_wait: Wait
    accept_max: Wait
    payload_fee: Money
    audit_segments: AuditSegments
    eligible_bps: Bps
    window_max: Duration
    answer_fee: Money
    rounds_ahead: RoundsAhead
    handover_every: Rounds
    newcomer_slots: NewcomerSlots
    stage_base: StageBase
    audit_price_min: Money
    seat_cut_max_bps: Bps
    decline_stake_bps: Bps
    slash_bps: Bps
    show_wait: Wait
    stand_wait: Duration
    stand_segments: AuditSegments
    appeal_wait: Duration
    include_wait: Duration
    challenge_reward_bps: Bps
    audit_rate_min: AuditRate
    challenge_wait_min: ChallengeWait
    attested_rate_min: AuditRate
