"""How legs fail: declined, not accepted, without progress, stopped, void, or out of time (protocol section 3)."""

from collections.abc import Iterable

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import (
    cut_bond,
    get_job_bond,
    get_withheld,
    pay_from_deposits,
)
from chain.state_machine.ledger.tables import ESCROWS, TALLIES
from chain.state_machine.market.book import close_bid
from chain.state_machine.market.holds import stands_still
from chain.state_machine.market.orders import (
    end_leg,
    end_order,
    exclude,
    get_waited,
    is_ending,
    restart_progress,
    weigh_end,
)
from chain.state_machine.market.tables import BIDS, LEGS, ORDER_DUE, ORDERS
from chain.state_machine.proof.fees import compute_round_cost, compute_work_cost
from chain.state_machine.proof.rounds import is_far_ahead
from chain.state_machine.proof.settlement import advance, reopen_or_end
from chain.state_machine.proof.shares import drop_open_round, weigh_open_round
from chain.state_machine.queue import Entry, schedule
from chain.state_machine.registry.tables import VALIDATORS
from domain.ledger.records import BondRow
from domain.legs.events import LegFailed, OrderDeclined
from domain.legs.reasons import LegEnd
from domain.legs.records import Leg, LegState
from domain.market.reasons import CloseReason
from domain.market.records import Order, OrderState
from escrow.moves import Move, Transfer, locked
from escrow.settle import decline_fee, job_bond_cut

BLAMES_JOB = frozenset(
    {
        LegEnd.PAYLOAD_NOT_DELIVERED,
        LegEnd.DECLINED_BAD_JOB,
        LegEnd.DECLINED_WORK_MISMATCH,
        LegEnd.DECLINED_TOO_SLOW,
        LegEnd.DECLINED_NOT_FINITE,
    }
)
"""Reasons to decline that lay it at the consumer's door, which nobody can prove."""


def decline_leg(ctx: Context, order: Order, leg: Leg, reason: LegEnd) -> None:
    """End a match that the validator declined: it is excluded from the order.

    By choice it costs a fee, and its bid stays unless it says that it has no capacity. Where it blames the job, nobody
    can tell who is right: so both sides lose the same and nobody gains, and a number of these ends the order.
    """
    ended = end_leg(ctx, leg, LegState.FAILED, int(reason))
    order = exclude(ctx, order, leg.validator)
    ctx.emit(OrderDeclined(order.id, ended.number, ended.validator, int(reason)))
    source = order.id.hex()
    if reason in BLAMES_JOB:
        order = ORDERS.update(ctx.store, order.id, failures=order.failures + 1)
        fee = order.params.payload_fee
        _cut_job_bond(ctx, ended, Transfer(Move.BURN, source, "", min(fee, ended.job_bond)))
        burnt = min(fee, locked(ESCROWS.must(ctx.store, order.id)))
        pay_from_deposits(ctx, order.id, (Transfer(Move.DEPOSIT_BURN, source, "", burnt),))
    else:
        fee = decline_fee(leg.job_bond, order.params.decline_fee_bps)
        _cut_job_bond(ctx, ended, Transfer(Move.DECLINE_FEE, source, "", fee))
    if reason is LegEnd.DECLINED_NO_CAPACITY:
        _close_bid_of(ctx, leg, "no capacity")
    reopen_or_end(ctx, order, ended)


def miss_accept(ctx: Context, order: Order, leg: Leg) -> None:
    """End a match that was not accepted in time: the whole job bond is cut."""
    reason = LegEnd.NOT_ACCEPTED
    ended = end_leg(ctx, leg, LegState.FAILED, int(reason))
    order = _count_failure(ctx, exclude(ctx, order, leg.validator), leg)
    ctx.emit(LegFailed(order.id, ended.number, ended.validator, int(reason)))
    _compensate(ctx, order, ended, leg.job_bond)
    _close_bid_of(ctx, leg, "not accepted")
    reopen_or_end(ctx, order, ended)


def fail_leg(ctx: Context, order: Order, leg: Leg, reason: LegEnd) -> None:
    """End a running leg: the job bond pays for what was not done; closed rounds run through their windows."""
    drop_open_round(ctx, leg.open_round)
    ended = end_leg(ctx, leg, LegState.FAILED, int(reason))
    order = _count_failure(ctx, exclude(ctx, order, leg.validator), leg)
    ctx.emit(LegFailed(order.id, ended.number, ended.validator, int(reason)))
    cut = job_bond_cut(leg.job_bond, leg.rounds, leg.closed)
    _compensate(ctx, order, ended, cut)
    advance(ctx, order.id)


def void_leg(ctx: Context, order: Order, leg: Leg, reason: LegEnd) -> None:
    """End a leg of which a round is void; what had failed already keeps its reason.

    Where a provider alone was wrong, or nobody can tell, its validator stays welcome.
    """
    if leg.is_live:
        if leg.state is LegState.RUNNING:
            drop_open_round(ctx, leg.open_round)
        ended = end_leg(ctx, leg, LegState.FAILED, int(reason))
        ctx.emit(LegFailed(order.id, ended.number, ended.validator, int(reason)))
        if reason is LegEnd.WRONG_ROUND:
            order = _count_failure(ctx, exclude(ctx, order, leg.validator), leg)
        else:
            order = ORDERS.update(ctx.store, order.id, failures=order.failures + 1)
    advance(ctx, order.id)


def cut_for_consumer(ctx: Context, order: Order, rows: Iterable[BondRow | None]) -> None:
    """Cut all that is left of bonds: to the consumer what the leg has cost it, the rest is burnt."""
    source, loss = order.id.hex(), _get_loss(ctx, order)
    for row in rows:
        if row is not None:
            paid = min(row.amount, loss)
            loss -= paid
            moves = (
                Transfer(Move.COMPENSATION, source, order.consumer, paid),
                Transfer(Move.BURN, source, "", row.amount - paid),
            )
            cut_bond(ctx, order.id, row, moves)
            _make_good(ctx, order.id, paid)


def on_accept(ctx: Context, entry: Entry) -> None:
    """End a match that was not accepted in time."""
    order = ORDERS.must(ctx.store, entry.parts[0])
    leg = LEGS.must(ctx.store, order.id, entry.number(1))
    if stands_still(ctx, order.id):
        return  # the release moves the deadline
    if leg.state is LegState.MATCHED and ctx.clock >= leg.accept_deadline:
        miss_accept(ctx, order, leg)


def on_progress(ctx: Context, entry: Entry) -> None:
    """End a running leg that made no progress."""
    order = ORDERS.must(ctx.store, entry.parts[0])
    leg = LEGS.must(ctx.store, order.id, entry.number(1))
    if leg.state is not LegState.RUNNING or stands_still(ctx, order.id):
        return
    if ctx.clock < leg.progress_deadline:
        return
    if is_far_ahead(order, leg):
        # No round may close before one is verified: the deadline stands still.
        restart_progress(ctx, order, leg)
    else:
        fail_leg(ctx, order, leg, LegEnd.NO_PROGRESS)


def weigh_progress(ctx: Context, entry: Entry) -> int:
    """Return the gas of a failure: the shares that stand in the open round."""
    leg = LEGS.must(ctx.store, entry.parts[0], entry.number(1))
    is_running = leg.state is LegState.RUNNING
    return weigh_open_round(ctx, leg.open_round) if is_running else 0


def on_order(ctx: Context, entry: Entry) -> None:
    """The order's last deadline: nothing new begins. What is proven runs through its windows all the same."""
    order = ORDERS.must(ctx.store, entry.parts[0])
    if order.state in (OrderState.CLOSED, OrderState.PROVEN) or is_ending(ctx, order):
        return
    if stands_still(ctx, order.id):
        return  # the release moves the deadline
    last = order.deadline + get_waited(ctx, order)
    if ctx.clock < last:
        # Panels of it wait for audit room, or did.
        schedule(ctx, last, ORDER_DUE, order.id)
        return
    if order.state is OrderState.OPEN:
        end_order(ctx, order, CloseReason.DEADLINE)
        return
    leg = LEGS.must(ctx.store, order.id, order.legs)
    if leg.state is LegState.MATCHED:
        miss_accept(ctx, order, leg)
    elif leg.state is LegState.RUNNING:
        fail_leg(ctx, order, leg, LegEnd.ORDER_DEADLINE)


def weigh_order(ctx: Context, entry: Entry) -> int:
    """Return the gas of an order's deadline: the shares of its open round, or the bonds that an end returns."""
    order = ORDERS.must(ctx.store, entry.parts[0])
    if order.state is not OrderState.RUNNING:
        return weigh_end(ctx, entry)
    leg = LEGS.must(ctx.store, order.id, order.legs)
    return weigh_open_round(ctx, leg.open_round)


def _count_failure(ctx: Context, order: Order, leg: Leg) -> Order:
    failed = VALIDATORS.must(ctx.store, leg.validator).legs_failed
    VALIDATORS.update(ctx.store, leg.validator, legs_failed=failed + 1)
    return ORDERS.update(ctx.store, order.id, failures=order.failures + 1)


def _compensate(ctx: Context, order: Order, leg: Leg, cut: int) -> None:
    """Cut the job bond: to the consumer what the leg has cost it, its fee and what it paid; the rest is burnt.

    So a job that nobody can finish earns nothing.
    """
    lost = _get_loss(ctx, order)
    # Right shares that were rejected may have been paid out of it before.
    row = get_job_bond(ctx, leg.order_id, leg.number)
    cut = min(cut, row.amount if row else 0)
    source, paid = order.id.hex(), min(cut, lost)
    _make_good(ctx, order.id, paid)
    _cut_job_bond(
        ctx,
        leg,
        Transfer(Move.COMPENSATION, source, order.consumer, paid),
        Transfer(Move.BURN, source, "", cut - paid),
    )


def _get_loss(ctx: Context, order: Order) -> int:
    """Return what the consumer has lost and nobody made good: the fee of ordering, and what it paid in the leg."""
    tally = TALLIES.must(ctx.store, order.id)
    leg = LEGS.must(ctx.store, order.id, order.legs)
    # What is withheld returns to the deposit, what right shares took of it is made good apart: neither is lost.
    part = get_withheld(ctx, order.id) + tally.righted
    cost = compute_round_cost(order, leg)
    without_panel = tally.unaudited * (cost - compute_work_cost(order, leg))
    paid = leg.verified * cost - without_panel - part
    return tally.fee + max(0, paid - tally.made_good)


def _make_good(ctx: Context, order_id: bytes, amount: int) -> None:
    """Count what the consumer was given for its loss, so that nothing is made good twice."""
    tally = TALLIES.must(ctx.store, order_id)
    of_fee = min(amount, tally.fee)
    made_good = tally.made_good + amount - of_fee
    TALLIES.update(ctx.store, order_id, fee=tally.fee - of_fee, made_good=made_good)


def _cut_job_bond(ctx: Context, leg: Leg, *moves: Transfer) -> None:
    row = get_job_bond(ctx, leg.order_id, leg.number)
    # Without basis points and a fee there is no bond.
    if row is not None:
        cut_bond(ctx, leg.order_id, row, moves)


def _close_bid_of(ctx: Context, leg: Leg, reason: str) -> None:
    bid = BIDS.get(ctx.store, leg.bid_id)
    if bid is not None:
        close_bid(ctx, bid, reason)
