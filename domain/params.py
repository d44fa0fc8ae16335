"""Parameters of the chain, in genesis (protocol section 9); durations in seconds on the chain clock."""

from dataclasses import dataclass, replace
from typing import Annotated

from domain.amount import BPS
from domain.bounds import Bps, Duration, Money, Range
from domain.limits import (
    ANSWERS_MAX,
    DURATION_MAX,
    GAS_MAX,
    ROUNDS_MAX,
    SHARE_SEGMENTS_MAX,
    SLOTS_MAX,
)

# Every edge is safe, if not sensible.
Wait = Annotated[int, Range(0, DURATION_MAX)]
"""Seconds, or no time at all."""
Rate = Annotated[int, Range(1, 2**63 - 1)]
"""Bytes/s, or FLOP/s."""
Take = Annotated[int, Range(0, BPS // 2)]
"""Basis points of which two are never more than all."""
BlockGas = Annotated[int, Range(GAS_MAX, 10**12)]
"""A block has room for any transaction."""
DueGas = Annotated[int, Range(1, 10**12)]
Blocks = Annotated[int, Range(1, 10**9)]
Legs = Annotated[int, Range(1, 100)]
Rounds = Annotated[int, Range(1, ROUNDS_MAX)]
Auditors = Annotated[int, Range(0, 100)]
AuditPlaces = Annotated[int, Range(1, ANSWERS_MAX)]
AuditSegments = Annotated[int, Range(1, 16)]
RoundsAhead = Annotated[int, Range(1, 256)]
StageBase = Annotated[int, Range(4, DURATION_MAX)]
"""Seconds in which a block takes an answer that is ready."""
SegmentsDrawn = Annotated[int, Range(1, SHARE_SEGMENTS_MAX)]
NewcomerSlots = Annotated[int, Range(1, SLOTS_MAX)]


@dataclass(frozen=True, slots=True)
class OrderParams:
    """The parameters under which an order was submitted; it keeps them for life."""

    accept_base: Wait
    accept_rate: Rate
    progress_base: Wait
    round_window: Duration
    max_attempts: Legs
    auditors: Auditors
    audit_places_max: AuditPlaces
    segments_drawn: SegmentsDrawn
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


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters with the defaults of a public network.

    Example::

        print(network.quote("my-job").params.window_max, assay.Params().window_max)
    """

    # The most by which a block moves the chain clock.
    clock_step_max: Annotated[int, Range(1, 86_400)] = 60
    # How long a lot waits for strangers' reveals before it takes what there is.
    lot_wait: Wait = 600
    # To accept a match: this, and the time that payload and data take at `accept_rate`, at most `accept_max`.
    accept_base: Wait = 600
    accept_rate: Rate = (
        1_000_000  # bytes/s at which a validator is expected to fetch payload and data
    )
    # To close a round: this, and three times what the round takes at the promised speed.
    progress_base: Wait = 3_600
    round_window: Duration = 300  # the least time that a closed round stays open to its panel
    max_attempts: Legs = 3  # failed legs after which an order closes unserved
    auditors: Auditors = 3  # seats of a panel's first stage
    audit_places_max: AuditPlaces = 16  # places of a round that a panel recomputes at most
    segments_drawn: SegmentsDrawn = 4  # of a share, that its validator must replay
    job_bond_bps: Bps = 1_000  # of the work's price: what the winner locks for finishing it
    decline_fee_bps: Bps = 1_000  # of the job bond
    protocol_bps: Take = 100  # of what is paid: to the community pool
    audit_bps: Take = 300  # of what is paid: to a round's seats
    bond_wait: Wait = 14 * 86_400  # from the withdrawal of free bonds until the coins arrive
    # Consensus minimum, millionths of uassay per gas unit.
    min_gas_price_millionths: Annotated[int, Range(0, 10**12)] = 1_000
    block_gas: BlockGas = 100_000_000  # that the transactions of a block declare
    due_gas: DueGas = 50_000_000  # of what happens by itself in a block, apart from that
    # From the block that registers a beacon key to the first one that needs it.
    beacon_delay: Blocks = 1_000
    accept_max: Wait = 86_400  # the longest time to accept a match
    payload_fee: Money = 50_000  # burnt of both sides, where nobody can tell whose fault it was
    order_min: Money = 200_000  # the smallest deposit of an order
    ttl_max: Duration = 7 * 86_400  # the longest time to live of an order without a match
    audit_segments: AuditSegments = 2  # of every round, whatever its fee pays
    eligible_bps: Bps = 7_500  # of the stake, that the time of an audit is made for
    window_max: Duration = 86_400  # an order whose rounds would stay open longer is refused
    answer_fee: Money = 1_000  # of a seat, once: what its two messages cost
    rounds_ahead: RoundsAhead = 16  # rounds that are closed and not verified, at most
    # Of the number of eligible validators: how many may be busy with panels at a time, all orders together.
    audit_room_bps: Annotated[int, Range(1, 1_000_000)] = 2_500
    # From the last halving of a validator's promise until it may raise it.
    promise_wait: Wait = 86_400
    handover_every: Rounds = (
        10  # rounds: of each such one, and of the last, the state is handed over
    )
    # That a provider serves at a time of which no share was accepted yet.
    newcomer_slots: NewcomerSlots = 1
    # For the seats of a panel's stage to commit: this, and six times what their places take; then this to reveal.
    stage_base: StageBase = 300

    def for_founders(self, count: int) -> "Params":
        """Return these with auditors that a chain of so many validators has: nobody audits himself.

        Where there are fewer others than a round needs auditors, all of them audit.
        """
        return replace(self, auditors=min(self.auditors, count - 1))

    def for_order(self) -> OrderParams:
        """Return the part that an order keeps for life."""
        return OrderParams(**{name: getattr(self, name) for name in OrderParams.__slots__})


def local_params() -> Params:
    """Return the parameters of a local network."""
    return Params(
        clock_step_max=2,
        lot_wait=4,
        beacon_delay=10,
        accept_base=60,
        accept_rate=10_000_000,
        progress_base=180,
        round_window=10,
        auditors=2,
        audit_places_max=6,
        segments_drawn=2,
        bond_wait=60,
        accept_max=300,
        payload_fee=500,
        order_min=2_000,
        window_max=600,
        answer_fee=100,
        audit_room_bps=5_000,
        promise_wait=60,
        newcomer_slots=2,
        handover_every=1,
        stage_base=60,
    )
