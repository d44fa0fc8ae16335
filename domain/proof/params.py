"""Parameters of the proof component; durations in seconds on the chain clock."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Bps, Duration, Money, Range
from domain.order_params import (
    Auditors,
    AuditPlaces,
    AuditSegments,
    Rounds,
    SegmentsDrawn,
    StageBase,
    Take,
    Wait,
)
from domain.readable import Readable


@dataclass(frozen=True, slots=True)
class ProofParams(Readable):
    """What the proof component asks of rounds and their checks, with the defaults of a public network.

    Example::

        print(assay.Params().of(assay.ProofParams).window_max)
    """

    # How long a lot waits for strangers' reveals before it takes what there is.
    lot_wait: Wait = 600
    round_window: Duration = 300  # the least time that a closed round stays open to its panel
    window_max: Duration = 86_400  # an order whose rounds would stay open longer is refused
    auditors: Auditors = 3  # seats of a panel's first stage
    audit_places_max: AuditPlaces = 16  # places of a round that a panel recomputes at most
    audit_segments: AuditSegments = 2  # of every round, whatever its fee pays
    segments_drawn: SegmentsDrawn = 4  # of a share, that its validator must replay
    eligible_bps: Bps = 7_500  # of the stake, that the time of an audit is made for
    protocol_bps: Take = 100  # of what is paid: to the community pool
    audit_bps: Take = 300  # of what is paid: to a round's seats
    answer_fee: Money = 1_000  # of a seat, once: what its two messages cost
    # Of the number of eligible validators: how many may be busy with panels at a time, all orders together.
    audit_room_bps: Annotated[int, Range(1, 1_000_000)] = 2_500
    handover_every: Rounds = 10  # rounds: of each such one, and of the last, the state is handed over
    # For the seats of a panel's stage to commit: this, and six times what their places take; then this to reveal.
    stage_base: StageBase = 300


LOCAL = ProofParams(
    lot_wait=4,
    round_window=10,
    window_max=600,
    auditors=2,
    audit_places_max=6,
    segments_drawn=2,
    answer_fee=100,
    audit_room_bps=5_000,
    handover_every=1,
    stage_base=60,
)
"""Those of a local network."""
