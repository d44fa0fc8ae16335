"""How attempts fail: declined, not accepted, without progress, stopped, or out of time (protocol section 3)."""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import cut_bond, get_job_bond, pay_from_deposits
from chain.state_machine.market.orders import close_bid, end_assignment
from chain.state_machine.proof.settlement import advance, reopen_or_end
from chain.state_machine.proof.shares import drop_open_round
from chain.state_machine.tables import BIDS, ESCROWS, ORDERS, VALIDATORS
from domain.reasons import AttemptEnd
from domain.records import Assignment, AssignmentState, Order
from escrow.account import locked
from escrow.bonds import decline_fee, job_bond_cut
from escrow.moves import Move, Transfer


def decline_attempt(ctx: Context, order: Order, assignment: Assignment, reason: AttemptEnd) -> None:
    """End a match that the validator declined: it is excluded, its bid closes, and the fee is taken.

    Nobody can prove whether a payload was delivered, so that reason burns the same fee on both sides.
    """
    ended = end_assignment(ctx, assignment, AssignmentState.FAILED, int(reason))
    order = _exclude(ctx, order, assignment)
    ctx.emit("order.declined", *_names(ended), ("reason", int(reason)))
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
    ctx.emit("order.failed", *_names(ended), ("reason", int(reason)))
    _cut_job_bond(ctx, ended, Move.COMPENSATION, order.consumer, assignment.job_bond)
    _close_bid_of(ctx, assignment, "not accepted")
    reopen_or_end(ctx, order, ended, verified=0)


def fail_attempt(ctx: Context, order: Order, assignment: Assignment, reason: AttemptEnd) -> None:
    """End a running attempt: the job bond pays for what was not done; closed rounds run through their windows."""
    drop_open_round(ctx, order.id, assignment.attempt, assignment.round)
    ended = end_assignment(ctx, assignment, AssignmentState.FAILED, int(reason))
    order = _count_failure(ctx, _exclude(ctx, order, assignment), assignment)
    ctx.emit("order.failed", *_names(ended), ("reason", int(reason)))
    cut = job_bond_cut(assignment.job_bond, order.terms.rounds, assignment.round)
    _cut_job_bond(ctx, ended, Move.COMPENSATION, order.consumer, cut)
    advance(ctx, order.id)


def _exclude(ctx: Context, order: Order, assignment: Assignment) -> Order:
    excluded = tuple(sorted({*order.excluded, assignment.validator}))
    order = replace(order, excluded=excluded)
    ORDERS.put(ctx.store, order)
    return order


def _count_failure(ctx: Context, order: Order, assignment: Assignment) -> Order:
    order = replace(order, failures=order.failures + 1)
    ORDERS.put(ctx.store, order)
    validator = VALIDATORS.must(ctx.store, assignment.validator)
    failed = replace(validator, attempts_failed=validator.attempts_failed + 1)
    VALIDATORS.put(ctx.store, failed)
    return order


def _cut_job_bond(
    ctx: Context, assignment: Assignment, move: Move, target: str, amount: int
) -> None:
    row = get_job_bond(ctx, assignment.order_id, assignment.attempt)
    if row is not None:  # without basis points there is no bond
        source = assignment.order_id.hex()
        cut_bond(ctx, assignment.order_id, row, (Transfer(move, source, target, amount),))


def _close_bid_of(ctx: Context, assignment: Assignment, reason: str) -> None:
    bid = BIDS.get(ctx.store, assignment.bid_id)
    if bid is not None:
        close_bid(ctx, bid, reason)


def _names(assignment: Assignment) -> tuple[tuple[str, str | int | bytes], ...]:
    return (
        ("order", assignment.order_id),
        ("attempt", assignment.attempt),
        ("validator", assignment.validator),
    )
