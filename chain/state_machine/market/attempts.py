"""How attempts fail: declined, not accepted, without progress, stopped, or out of time (protocol section 3)."""

from typing import Any

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import cut_bond, get_job_bond, pay_from_deposits
from chain.state_machine.ledger.tables import ESCROWS
from chain.state_machine.market.bids import close_bid
from chain.state_machine.market.orders import end_assignment, end_order, is_ending
from chain.state_machine.market.tables import ASSIGNMENTS, BIDS, ORDERS
from chain.state_machine.proof.settlement import advance, has_ready_round, reopen_or_end
from chain.state_machine.proof.shares import drop_open_round
from chain.state_machine.queue import Due, Entry, cancel, schedule
from chain.state_machine.registry.tables import VALIDATORS
from domain.amount import ceil_div
from domain.events import AttemptFailed, OrderDeclined
from domain.reasons import AttemptEnd, CloseReason
from domain.records import Assignment, AssignmentState, Order, OrderState
from escrow.account import locked
from escrow.moves import Move, Transfer
from escrow.settle import decline_fee, job_bond_cut
from pol.rules.schedule import round_work

SLACK = 3
"""How often a round may take what it takes at the speed of the bid."""


def decline_attempt(ctx: Context, order: Order, assignment: Assignment, reason: AttemptEnd) -> None:
    """End a match that the validator declined: it is excluded, its bid closes, and the fee is taken.

    Nobody can prove whether a payload was delivered, so that reason burns the same fee on both sides.
    """
    ended = end_assignment(ctx, assignment, AssignmentState.FAILED, int(reason))
    order = _exclude(ctx, order, assignment)
    ctx.emit(OrderDeclined(order.id, ended.attempt, ended.validator, int(reason)))
    fee = decline_fee(assignment.job_bond, order.params.decline_fee_bps)
    undelivered = reason is AttemptEnd.PAYLOAD_NOT_DELIVERED
    _cut_job_bond(ctx, ended, Move.BURN if undelivered else Move.DECLINE_FEE, "", fee)
    if undelivered:
        burnt = min(fee, locked(ESCROWS.must(ctx.store, order.id)))
        pay_from_deposits(ctx, order.id, (Transfer(Move.DEPOSIT_BURN, order.id.hex(), "", burnt),))
    _close_bid_of(ctx, assignment, "declined")
    reopen_or_end(ctx, order, ended, verified=0)


def miss_accept(ctx: Context, order: Order, assignment: Assignment) -> None:
    """End a match that was not accepted in time: the whole job bond goes to the consumer."""
    reason = AttemptEnd.NOT_ACCEPTED
    ended = end_assignment(ctx, assignment, AssignmentState.FAILED, int(reason))
    order = _count_failure(ctx, _exclude(ctx, order, assignment), assignment)
    ctx.emit(AttemptFailed(order.id, ended.attempt, ended.validator, int(reason)))
    _cut_job_bond(ctx, ended, Move.COMPENSATION, order.consumer, assignment.job_bond)
    _close_bid_of(ctx, assignment, "not accepted")
    reopen_or_end(ctx, order, ended, verified=0)


def fail_attempt(ctx: Context, order: Order, assignment: Assignment, reason: AttemptEnd) -> None:
    """End a running attempt: the job bond pays for what was not done; closed rounds run through their windows."""
    drop_open_round(ctx, assignment.open_round)
    ended = end_assignment(ctx, assignment, AssignmentState.FAILED, int(reason))
    order = _count_failure(ctx, _exclude(ctx, order, assignment), assignment)
    ctx.emit(AttemptFailed(order.id, ended.attempt, ended.validator, int(reason)))
    cut = job_bond_cut(assignment.job_bond, order.terms.rounds, assignment.round)
    _cut_job_bond(ctx, ended, Move.COMPENSATION, order.consumer, cut)
    advance(ctx, order.id)


def restart_progress(
    ctx: Context, order: Order, assignment: Assignment, **changes: Any
) -> Assignment:
    """Change a running assignment, which gets a new progress deadline for the open round or for the proof."""
    cancel(ctx, assignment.progress_deadline, Due.PROGRESS, order.id, assignment.attempt)
    expected = ceil_div(SLACK * round_work(order.terms), assignment.speed)
    deadline = ctx.clock + order.params.progress_base + expected
    schedule(ctx, deadline, Due.PROGRESS, order.id, assignment.attempt)
    key = (order.id, assignment.attempt)
    return ASSIGNMENTS.update(ctx.store, *key, progress_deadline=deadline, **changes)


def on_accept(ctx: Context, entry: Entry) -> None:
    """End a match that was not accepted in time."""
    order = ORDERS.must(ctx.store, entry.parts[0])
    assignment = ASSIGNMENTS.must(ctx.store, order.id, entry.number(1))
    if assignment.state is AssignmentState.MATCHED and ctx.clock >= assignment.accept_deadline:
        miss_accept(ctx, order, assignment)


def on_progress(ctx: Context, entry: Entry) -> None:
    """End a running attempt that made no progress."""
    order = ORDERS.must(ctx.store, entry.parts[0])
    assignment = ASSIGNMENTS.must(ctx.store, order.id, entry.number(1))
    if assignment.state is AssignmentState.RUNNING and ctx.clock >= assignment.progress_deadline:
        fail_attempt(ctx, order, assignment, AttemptEnd.NO_PROGRESS)


def on_order(ctx: Context, entry: Entry) -> None:
    """The order's last deadline: nothing new begins, and what is proven but not verified is not paid."""
    order = ORDERS.must(ctx.store, entry.parts[0])
    if order.state is OrderState.CLOSED or is_ending(ctx, order):
        return
    if order.state in (OrderState.OPEN, OrderState.MATCHED):
        end_order(ctx, order, CloseReason.DEADLINE)
        return
    assignment = ASSIGNMENTS.must(ctx.store, order.id, order.attempt)
    if order.state is OrderState.PROVEN and has_ready_round(ctx, order):
        # First what advance left for the next block.
        schedule(ctx, ctx.clock, Due.ORDER, order.id)
    elif order.state is OrderState.PROVEN:
        end_order(ctx, order, CloseReason.UNVERIFIED)
    elif assignment.state is AssignmentState.RUNNING:
        fail_attempt(ctx, order, assignment, AttemptEnd.ORDER_DEADLINE)


def _exclude(ctx: Context, order: Order, assignment: Assignment) -> Order:
    excluded = tuple(sorted({*order.excluded, assignment.validator}))
    return ORDERS.update(ctx.store, order.id, excluded=excluded)


def _count_failure(ctx: Context, order: Order, assignment: Assignment) -> Order:
    failed = VALIDATORS.must(ctx.store, assignment.validator).attempts_failed
    VALIDATORS.update(ctx.store, assignment.validator, attempts_failed=failed + 1)
    return ORDERS.update(ctx.store, order.id, failures=order.failures + 1)


def _cut_job_bond(
    ctx: Context, assignment: Assignment, move: Move, target: str, amount: int
) -> None:
    row = get_job_bond(ctx, assignment.order_id, assignment.attempt)
    # Without basis points there is no bond.
    if row is not None:
        source = assignment.order_id.hex()
        cut_bond(ctx, assignment.order_id, row, (Transfer(move, source, target, amount),))


def _close_bid_of(ctx: Context, assignment: Assignment, reason: str) -> None:
    bid = BIDS.get(ctx.store, assignment.bid_id)
    if bid is not None:
        close_bid(ctx, bid, reason)
