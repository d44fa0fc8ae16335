"""Verification and payment of closed rounds, in their order (protocol sections 5.3 and 7).

A round is verified when the round before it is verified, its window is over and its audit agrees with the chain. It is
paid at the same moment, and a round that is not verified is never paid. So a round that can still become void has not
been paid. The validator's part is withheld until the order settles. The order settles some time after its last round is
verified, so that the consumer can fetch the result before the order settles.
"""

from chain.state_machine.context import Context
from chain.state_machine.ledger.gas import BOND_GAS, PAY_GAS
from chain.state_machine.ledger.order_money import (
    get_job_bond,
    get_share_bond,
    pay_from_deposits,
    withhold_part,
)
from chain.state_machine.ledger.tables import TALLIES
from chain.state_machine.legs.checks import is_far_ahead
from chain.state_machine.legs.ends import reopen_or_end, settle_leg
from chain.state_machine.legs.money import compensate, lose_part
from chain.state_machine.legs.progress import count_cleared, count_verified, restart_progress
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.book import return_bond
from chain.state_machine.market.holds import is_held
from chain.state_machine.market.orders import BONDS_PER_CALL, weigh_end
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.covers import get_cover
from chain.state_machine.proof.gas import CLOSE_GAS
from chain.state_machine.proof.rejections import compare_rejected, count_rejected
from chain.state_machine.proof.room import move_panel
from chain.state_machine.proof.rounds import get_next_round, is_clear, is_verifiable
from chain.state_machine.proof.seats import settle_panel, weigh_panel
from chain.state_machine.proof.shares import drop_shares, has_live_shares, note_verified
from chain.state_machine.proof.tables import BONDS_DUE, DROP_DUE, PANELS, ROUNDS, SHARES, WINDOW_DUE, WRONG_HANDOVERS
from chain.state_machine.queue import QueueEntry, schedule
from domain.legs.reasons import LegEnd
from domain.legs.records import Leg, LegState
from domain.market.reasons import CloseReason
from domain.market.records import Order, OrderState
from domain.moves import Transfer
from domain.proof.events import OrderVerified, RoundCleared, RoundVerified
from domain.proof.moves import PROTOCOL, PROVIDER
from domain.proof.records import Round, Share
from domain.proof.transitions import ROUND_STEPS, PanelStep, RoundStep
from escrow.settle import Earnings, settle_round
from pol.rules.fees import compute_panel_fee
from pol.rules.orders import handover_seconds
from pol.rules.tiers.table import challenges_of


def advance(ctx: Context, order: Order) -> None:
    """Schedule the entry that continues with the leg at once.

    The entry verifies and pays the next round if it is ready, or ends the order or the leg if no round is open.
    """
    leg = LEGS.must(ctx.store, order.id, order.legs)
    schedule(ctx, ctx.clock, WINDOW_DUE, order.id, leg.number, leg.next_round)


def on_released(ctx: Context, order_id: bytes) -> None:
    """Continue with the settlement of an order that is no longer held, if the order is still running."""
    order = ORDERS.must(ctx.store, order_id)
    if _is_going_on(ctx, order, order.legs):
        advance(ctx, order)


def on_window(ctx: Context, entry: QueueEntry) -> None:
    """Verify the leg's next round if it is ready; then schedule the following round, or end the leg or the order."""
    order = ORDERS.must(ctx.store, entry.parts[0])
    if not _is_going_on(ctx, order, entry.number(1)):
        return
    leg = LEGS.must(ctx.store, order.id, order.legs)
    leg = _clear_next(ctx, order, leg)
    closed = get_next_round(ctx, leg)
    if closed is not None and is_verifiable(ctx, closed):
        # All rejected shares of the round must be compared before the round is verified.
        if compare_rejected(ctx, order, leg, closed) == 0:
            leg = verify_round(ctx, order, leg, closed)
        closed = get_next_round(ctx, leg)
    if closed is not None and is_verifiable(ctx, closed):
        advance(ctx, order)
    else:
        _end_if_decided(ctx, order.id, leg)


def _clear_next(ctx: Context, order: Order, leg: Leg) -> Leg:
    """Clear the first round of a leg that is not cleared, if it waits only for challenges; return the leg."""
    if not challenges_of(order, leg).wait:
        return leg
    number = leg.first_round + max(leg.cleared, leg.verified)
    closed = ROUNDS.get(ctx.store, order.id, leg.number, number)
    if closed is None or not is_clear(ctx, closed):
        return leg
    leg = count_cleared(ctx, order, leg)
    ctx.emit(RoundCleared(closed.key))
    schedule(ctx, closed.challenges_end, WINDOW_DUE, *closed.key)
    # The next round may be clear already.
    advance(ctx, order)
    return leg


def on_drop(ctx: Context, entry: QueueEntry) -> None:
    """Drop the next shares of a round that will never be closed; after the last one, continue with the order."""
    key = entry.round_key
    drop_shares(ctx, key)
    if has_live_shares(ctx, key):
        schedule(ctx, ctx.clock, DROP_DUE, *key)
    else:
        advance(ctx, ORDERS.must(ctx.store, key.order_id))


def weigh_window(ctx: Context, entry: QueueEntry) -> int:
    """Return the gas of a window's entry.

    It depends on the shares of a ready round and on the bonds that an end returns.
    """
    order = ORDERS.must(ctx.store, entry.parts[0])
    if not _is_going_on(ctx, order, entry.number(1)):
        return 0
    leg = LEGS.must(ctx.store, order.id, order.legs)
    closed = get_next_round(ctx, leg)
    is_ready = closed is not None and is_verifiable(ctx, closed)
    shares = len(closed.shares) if closed is not None and is_ready else 0
    rejected = count_rejected(ctx, closed) if closed is not None and is_ready else 0
    may_end = order.state is OrderState.PROVEN or leg.state is LegState.FAILED
    # A rejected share that was right causes up to six moves besides the return of its bond.
    steps = PAY_GAS * shares + (BOND_GAS + 6 * PAY_GAS) * rejected
    panel = PANELS.get(ctx.store, *closed.key.panel()) if closed is not None and is_ready else None
    steps += weigh_panel(panel) if panel is not None else 0
    # The end of an order either pays the withheld part to the validator, or makes two moves that replace what the
    # withheld part paid for right shares.
    # If the next leg takes over shares, the step that returns bonds passes theirs.
    passed = CLOSE_GAS * leg.slots if leg.end_reason == LegEnd.WRONG_SHARE else 0
    return steps + (2 * PAY_GAS + passed + weigh_end(ctx, entry) if may_end else 0)


def _is_going_on(ctx: Context, order: Order, leg: int) -> bool:
    is_current = leg == order.legs and order.state in (OrderState.RUNNING, OrderState.PROVEN)
    return is_current and not TALLIES.must(ctx.store, order.id).ending


def verify_round(ctx: Context, order: Order, leg: Leg, closed: Round) -> Leg:
    """Mark a round as verified, pay it, and return the leg; the queue returns the bonds of its shares in steps."""
    ROUNDS.put(ctx.store, closed.enter(ROUND_STEPS.after(RoundStep.VERIFY, closed.state)))
    was_far_ahead = is_far_ahead(order, leg)
    leg = count_verified(ctx, order, leg, closed.next_root)
    work = ORDERS.must(ctx.store, order.id).work_verified
    ORDERS.update(ctx.store, order.id, work_verified=work + closed.work)
    shares = [SHARES.must(ctx.store, *key) for key in closed.share_keys]
    for share in shares:
        note_verified(ctx, share.claim.provider)
    panel = PANELS.get(ctx.store, *closed.key.panel())
    earnings = compute_earnings(order, leg, closed, shares, audited=panel is not None)
    fee = compute_panel_fee(order, leg, len(panel.wanted)) if panel is not None else 0
    ctx.emit(RoundVerified(round=closed.key, price=earnings.total, withheld=earnings.validator, audit_fee=fee))
    pay_from_deposits(ctx, order.id, _transfers(order.id, earnings), closed.round)
    withhold_part(ctx, order.id, earnings.validator)
    if panel is not None:
        move_panel(ctx, panel, PanelStep.PAY, is_settled=True)
        settle_panel(ctx, order, panel, fee)
    paid = TALLIES.must(ctx.store, order.id).paid
    TALLIES.update(ctx.store, order.id, paid=paid + earnings.total + fee)
    if leg.state is LegState.RUNNING and was_far_ahead:
        # Another round may close now, but could not close before. So the deadline starts again.
        leg = restart_progress(ctx, order, leg)
    schedule(ctx, ctx.clock, BONDS_DUE, *closed.key, 0)
    return leg


def on_bonds(ctx: Context, entry: QueueEntry) -> None:
    """Return the next bonds of a verified round's shares. Bonds that the end of the order has returned are skipped."""
    closed = ROUNDS.must(ctx.store, *entry.round_key)
    done = entry.number(3)
    for key in closed.share_keys[done : done + BONDS_PER_CALL]:
        bond = get_share_bond(ctx, key)
        if bond is not None:
            return_bond(ctx, key.order_id, bond)
    if done + BONDS_PER_CALL < len(closed.shares):
        schedule(ctx, ctx.clock, BONDS_DUE, *closed.key, done + BONDS_PER_CALL)


def weigh_bonds(ctx: Context, entry: QueueEntry) -> int:
    """Return the gas of returning the next bonds of a round's shares."""
    remaining = len(ROUNDS.must(ctx.store, *entry.round_key).shares) - entry.number(3)
    return BOND_GAS * min(remaining, BONDS_PER_CALL)


def compute_earnings(
    order: Order,
    leg: Leg,
    closed: Round,
    shares: list[Share],
    *,
    audited: bool,
) -> Earnings:
    """Return the earnings of a round, without the pay of its seats. A round that is not ``audited`` has no seats."""
    return settle_round(
        closed.work,
        leg.price,
        protocol_bps=order.params.protocol_bps,
        audit_bps=order.params.audit_bps if audited else 0,
        providers_bps=leg.providers_bps,
        shares=[(share.claim.provider, share.work) for share in shares],
    )


def _transfers(order_id: bytes, earnings: Earnings) -> list[Transfer]:
    source = order_id.hex()
    return [
        *(Transfer(move=PROVIDER, source=source, target=name, amount=amount) for name, amount in earnings.providers),
        Transfer(move=PROTOCOL, source=source, target="", amount=earnings.protocol),
    ]


def _end_if_decided(ctx: Context, order_id: bytes, leg: Leg) -> None:
    """End the order if all its rounds are verified; after a failed leg, continue or end the order.

    Do nothing while the order is held, or while shares of the failed leg's open round have to be dropped.
    """
    order = ORDERS.must(ctx.store, order_id)
    if is_held(ctx, order_id):
        return
    if leg.state is LegState.FAILED:
        # Count all rounds, because a panel may find a later round wrong while an earlier one is still open.
        if leg.verified + leg.void == leg.closed and not has_live_shares(ctx, leg.open_round):
            _pay_for_handover(ctx, order, leg)
            reopen_or_end(ctx, order, leg)
    elif order.state is OrderState.PROVEN and leg.verified == leg.closed:
        last = ROUNDS.must(ctx.store, order.id, leg.number, leg.round - 1)
        if not leg.settles_at:
            _await_handover(ctx, order, leg, last)
            return
        if ctx.clock < leg.settles_at:
            return
        reason = CloseReason.SETTLED if last.stopped is None else CloseReason.STOPPED_BY_JOB
        settle_leg(ctx, order, leg, reason)


def _pay_for_handover(ctx: Context, order: Order, leg: Leg) -> None:
    """If a complaint about the leg was proven, pay the consumer's loss from the job bond, and burn the rest.

    The withheld part returns to the deposit.

    The payment waits until all closed rounds are decided, because the consumer's payments for these rounds are part of
    the loss.
    """
    if not WRONG_HANDOVERS.has(ctx.store, order.id, leg.number):
        return
    bond = get_job_bond(ctx, order.id, leg.number)
    if bond is not None:
        compensate(ctx, order, leg, max(0, bond.amount - get_cover(ctx, leg, continues=False)))
    lose_part(ctx, order, leg)


def _await_handover(ctx: Context, order: Order, leg: Leg, last: Round) -> None:
    """Let the order wait for its settlement, so that the consumer can fetch the result.

    Until then the job bond stays locked, and the validator's part stays withheld. The result of a stopped job is the
    state of its newest hand-over round. If the job stopped before its first hand-over round, there is nothing to wait
    for.
    """
    nothing = last.stopped is not None and last.round < order.params.handover_every
    wait = 0 if nothing else handover_seconds(order.terms, order.params, order.window)
    settles_at = ctx.clock + wait
    LEGS.update(ctx.store, order.id, leg.number, settles_at=settles_at)
    schedule(ctx, settles_at, WINDOW_DUE, order.id, leg.number, leg.round)
    ctx.emit(OrderVerified(order.id, leg.number, settles_at))
