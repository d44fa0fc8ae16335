"""Parameters of the proof component; durations in seconds on the chain clock."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Bps, Duration, Money, Range
from domain.order_params import (
    Auditors,
    AuditPlaces,
    AuditRate,
    AuditSegments,
    ChallengeWait,
    DutySegments,
    Rounds,
    StageBase,
    Take,
    Wait,
)
from domain.readable import Readable


@dataclass(frozen=True, slots=True)
class ProofParams(Readable):
    """The proof component's rules for rounds and their audits, with the defaults of a public network.

    Example::

        print(assay.Params().of(assay.ProofParams).window_max)
    """

    # Longest time that a lot waits for blocks whose proposers are not parties to the order.
    lot_wait: Wait = 600
    # Shortest time for which a closed round stays open to its panel.
    round_window: Duration = 300
    # Longest time for which a closed round may stay open to its panel. An order that needs a longer time is refused.
    window_max: Duration = 86_400
    # Number of seats in a panel's first stage.
    auditors: Auditors = 3
    # Largest number of a round's places that a panel recomputes.
    audit_places_max: AuditPlaces = 17
    # Number of segments of each round that are always recomputed, even if the audit fee pays for fewer.
    audit_segments: AuditSegments = 2
    # Average number of a round's segments that lots draw. The leg's validator must replay them.
    duty_segments: DutySegments = 2
    # Part of the total stake (bps). It must belong to validators that can audit a round within its window.
    eligible_bps: Bps = 7_500
    # Part of each payment (bps) that goes to the community pool.
    protocol_bps: Take = 100
    # Part of each payment (bps) that goes to the seats of the round's panel.
    audit_bps: Take = 300
    # Amount (uassay) paid once to each seat, for the cost of its two messages.
    answer_fee: Money = 1_000
    # Largest number of seats at work in all panels, as a part (bps) of the number of validators that can audit an
    # order.
    audit_room_bps: Annotated[int, Range(1, 1_000_000)] = 5_000
    # Number of rounds from one hand-over of the state to the next. The last round is always handed over.
    handover_every: Rounds = 10
    # Fixed part of the time in which the seats of a stage must commit. Six times the order's audit time is added. The
    # seats then have the fixed part once more to reveal.
    stage_base: StageBase = 300
    # Least price (uassay per PFLOP) at which the work of auditors is paid, even if the price of the order is lower.
    audit_price_min: Money = 100_000
    # Largest part of its stake (bps) that a validator can lose as a seat of one panel.
    seat_cut_max_bps: Bps = 10
    # Largest part of its stake (bps) that a validator loses if the last stage of a panel rules that its round is wrong.
    slash_bps: Bps = 100
    # Time for a provider to show the key of a delivery after the validator's receipt.
    show_wait: Wait = 60

    # Shortest time after a round's close, or after it became void, in which a provider may stand for its share.
    stand_wait: Duration = 3_600
    # Number of places of a share that a panel recomputes if the share's provider stands for it.
    stand_segments: AuditSegments = 4
    # Shortest time in which a ruling against the chain can be appealed, if it was not of the last stage. It is at least
    # half of the order's window.
    appeal_wait: Duration = 150
    # Time for the witnesses of a delivery to get it from its provider, if the provider's validator signs no receipt.
    include_wait: Duration = 600
    # Least chance of a panel (bps) for a round in the tier `sampled`.
    audit_rate_min: AuditRate = 2_000
    # Shortest time after a round's window in which a round in the tier `sampled` can be challenged.
    challenge_wait_min: ChallengeWait = 86_400
    # Least chance of a panel (bps) in the tier `sampled` for a round whose providers all have credentials, if the order
    # allows it. Shares then need the bond of this chance.
    attested_rate_min: AuditRate = 500


LOCAL = ProofParams(
    lot_wait=4,
    round_window=10,
    window_max=600,
    auditors=2,
    audit_places_max=7,
    duty_segments=32,
    answer_fee=100,
    audit_room_bps=20_000,
    audit_price_min=1_000,
    handover_every=1,
    stage_base=60,
    show_wait=10,
    stand_wait=60,
    stand_segments=2,
    appeal_wait=60,
    include_wait=60,
    challenge_wait_min=20,
)
"""The values of a local network."""
