"""Closed rounds: the next round to verify, the conditions to verify it, and rounds that become void."""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.ledger.gas import PAY_GAS
from chain.state_machine.ledger.order_money import pay_from_deposits
from chain.state_machine.ledger.tables import TALLIES
from chain.state_machine.legs.progress import count_void
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.holds import is_held
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.gas import VALIDATOR_GAS
from chain.state_machine.proof.hooks import ROUND_VOIDED, WEIGH_VOIDED
from chain.state_machine.proof.left import get_stand_end
from chain.state_machine.proof.seats import stop_panel, weigh_panel
from chain.state_machine.proof.tables import PANELS, ROUNDS, TAKING
from chain.state_machine.queue import QueueEntry
from chain.state_machine.staking.tables import count_bonded
from domain.keys import RoundKey
from domain.ledger.records import BondRow
from domain.legs.records import Leg
from domain.moves import Transfer
from domain.proof.events import RoundVoid
from domain.proof.moves import REFUND_BURN
from domain.proof.records import Panel, Round, Ruling
from domain.proof.transitions import ROUND_STEPS, RoundStep
from pol.rules.fees import compute_round_cost


def get_next_round(ctx: Context, leg: Leg) -> Round | None:
    """Return the first closed round of a leg that is not verified; None if there is none."""
    return ROUNDS.get(ctx.store, leg.order_id, leg.number, leg.next_round)


def is_verifiable(ctx: Context, closed: Round) -> bool:
    """Return whether a round may be verified. The function assumes that the round before it is verified.

    The time to challenge it must be over, or all accounts that may challenge must have waived it. It must wait for
    nothing else.
    """
    leg = LEGS.must(ctx.store, closed.order_id, closed.leg)
    is_over = ctx.clock >= closed.challenges_end or closed.round < leg.waived
    return is_over and is_clear(ctx, closed)


def is_clear(ctx: Context, closed: Round) -> bool:
    """Return whether a round waits at most for the end of the time in which it can be challenged.

    It must not be void or held, its window must be over, and all places of its panels must be decided as right. A round
    may have no panel. The shares that its leg takes over must all be there.
    """
    if closed.void or ctx.clock < closed.window_ends or is_held(ctx, closed.key):
        return False
    if TAKING.has(ctx.store, closed.order_id, closed.leg):
        return False
    return all(_confirms(panel) for panel in PANELS.scan(ctx.store, *closed.key))


def _confirms(panel: Panel) -> bool:
    """Return whether a panel allows its round to be verified.

    If the panel of a dispute is over and the round is not void, the dispute found no fault. A provider that stands for
    a share does not hold the round.
    """
    if panel.standing is not None:
        return True
    if panel.dispute:
        return panel.is_settled
    return panel.stage > 0 and all(place.ruling is Ruling.RIGHT for place in panel.places)


def void_round(
    ctx: Context, key: RoundKey, losers: tuple[BondRow, ...], *, undecided: bool, by_validator: bool
) -> None:
    """Mark a round that will never be verified as void.

    The round's panels stop, because the round can never be paid. ``losers`` are the bonds of the parties at fault; they
    pay the seats that answered. If the round is void because a place is ``undecided``, the community pool pays these
    seats. If the consumer took the round's states early, the refund that it gave up is burnt. The parties at fault do
    not compensate the consumer for this burn.

    Panels about shares whose providers stand for them go on. If the round is void by the validator's fault, the
    providers of its shares have some time to stand.
    """
    closed = ROUNDS.must(ctx.store, *key)
    void = closed.enter(ROUND_STEPS.after(RoundStep.VOID, closed.state))
    ROUNDS.put(ctx.store, replace(void, void_at=ctx.clock, by_validator=by_validator))
    leg = count_void(ctx, key)
    for panel in PANELS.scan(ctx.store, *key):
        if panel.standing is None:
            stop_panel(ctx, panel.key, losers, undecided=undecided)
    ctx.emit(RoundVoid(key, void_at=ctx.clock, by_validator=by_validator))
    ROUND_VOIDED(ctx, key)
    if by_validator:
        order = ORDERS.must(ctx.store, key.order_id)
        until = get_stand_end(order, ROUNDS.must(ctx.store, *key))
        TALLIES.update(ctx.store, key.order_id, stands_until=until)
    if leg.is_taken(key.round):
        cost = compute_round_cost(ORDERS.must(ctx.store, key.order_id), leg)
        burn = Transfer(move=REFUND_BURN, source=key.order_id.hex(), target="", amount=cost)
        pay_from_deposits(ctx, key.order_id, (burn,), key.round)


def weigh_void(ctx: Context, entry: QueueEntry) -> int:
    """Return the gas of making one round void.

    It depends on the seats of the round's panels, and on all validators, of which a vote on a slash may follow. It
    includes the end of disputes, and the burn of a refund that the consumer may have given up.
    """
    key = entry.round_key
    validators = 2 * VALIDATOR_GAS * count_bonded(ctx.store)
    panels = sum(map(weigh_panel, PANELS.scan(ctx.store, *key)))
    return PAY_GAS + validators + panels + sum(WEIGH_VOIDED(ctx, key))
