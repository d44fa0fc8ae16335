"""The life of an order: how it opens, waits in the book, and closes."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from chain.state_machine import keys
from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import apply_payments, get_job_bond, return_bond
from chain.state_machine.market.book import mark_book_changed
from chain.state_machine.proof.audit_seats import get_auditors, stop_audit
from chain.state_machine.proof.shares import drop_open_round
from chain.state_machine.queue import Due, cancel, schedule
from chain.state_machine.tables import (
    ASSIGNMENTS,
    AUDITS,
    BIDS,
    ESCROWS,
    LOADS,
    ORDERS,
    ROUNDS,
    SHARES,
    TALLIES,
    get_load,
    mark,
)
from domain.amount import WORK_MAX, price_ceil
from domain.reasons import AttemptEnd, CloseReason
from domain.records import (
    Assignment,
    AssignmentState,
    Bid,
    BondKind,
    BondRow,
    Order,
    OrderState,
    ShareState,
)
from escrow.account import locked, refund
from pol.rules.schedule import total_work

BONDS_PER_CALL = 256
"""Bonds that the end of an order or attempt returns at once; the queue carries the rest to the next block."""

LIVE = (AssignmentState.MATCHED, AssignmentState.RUNNING, AssignmentState.PROVEN)
"""States of an assignment that holds capacity."""


def open_order(ctx: Context, order: Order) -> None:
    """Put an order into the book, for the first time or again; its time to live starts here."""
    expires = min(ctx.clock + order.time_to_live, order.deadline)
    order = replace(
        order,
        state=OrderState.OPEN,
        opened_at=ctx.clock,
        opened_height=ctx.height,
        expires_at=expires,
        unmatched=(),
    )
    ORDERS.put(ctx.store, order)
    mark(ctx.store, keys.open_order(ctx.height, order.id))
    mark(ctx.store, keys.dirty_order(ctx.height, order.id))
    schedule(ctx, expires, Due.TIME_TO_LIVE, order.id)
    ctx.emit(
        "order.opened",
        ("order", order.id),
        ("consumer", order.consumer),
        ("work", total_work(order.terms)),
        ("price_limit", order.price_limit),
        ("deposit", locked(ESCROWS.must(ctx.store, order.id))),
        ("attempt", order.attempt),
    )


def leave_book(ctx: Context, order: Order) -> None:
    """Take an order out of the book, because it is matched or ends."""
    ctx.store.delete(keys.open_order(order.opened_height, order.id))
    ctx.store.delete(keys.dirty_order(order.opened_height, order.id))
    cancel(ctx, order.expires_at, Due.TIME_TO_LIVE, order.id)


def close_bid(ctx: Context, bid: Bid, reason: str) -> None:
    """Take a bid out of the book; running assignments go on."""
    BIDS.delete(ctx.store, bid.id)
    ctx.store.delete(keys.bid_of(bid.validator, bid.id))
    cancel(ctx, bid.expires_at, Due.BID, bid.id)
    mark_book_changed(ctx)
    ctx.emit("bid.closed", ("bid", bid.id), ("validator", bid.validator), ("reason", reason))


def take_capacity(ctx: Context, assignment: Assignment) -> None:
    """Reserve what an assignment takes of its bid and its validator."""
    bid = BIDS.must(ctx.store, assignment.bid_id)
    BIDS.put(ctx.store, replace(bid, capacity=bid.capacity - assignment.work))
    _change_load(ctx, assignment, 1)
    mark(ctx.store, _live_key(assignment))


def end_assignment(
    ctx: Context, assignment: Assignment, state: AssignmentState, reason: int
) -> Assignment:
    """End an assignment and release its capacity; one that has ended stays as it is."""
    if assignment.state not in LIVE:
        return assignment
    cancel(ctx, assignment.accept_deadline, Due.ACCEPT, assignment.order_id, assignment.attempt)
    cancel(ctx, assignment.progress_deadline, Due.PROGRESS, assignment.order_id, assignment.attempt)
    ended = replace(assignment, state=state, end_reason=reason)
    ASSIGNMENTS.put(ctx.store, ended)
    ctx.store.delete(_live_key(assignment))
    _change_load(ctx, assignment, -1)
    bid = BIDS.get(ctx.store, assignment.bid_id)
    if bid is not None:  # the bid may have left the book meanwhile
        capacity = min(bid.capacity + assignment.work, WORK_MAX)
        BIDS.put(ctx.store, replace(bid, capacity=capacity))
    mark_book_changed(ctx)
    return ended


def end_order(ctx: Context, order: Order, reason: CloseReason) -> None:
    """Decide how an order ends, and close it unless a report about it is still open.

    All that runs stops here. With open reports the order waits for them, so that no coin is locked for a closed order
    and no reported bond escapes.
    """
    tally = TALLIES.must(ctx.store, order.id)
    if order.state is OrderState.OPEN:
        leave_book(ctx, order)
    cancel(ctx, order.deadline, Due.ORDER, order.id)
    if order.attempt:
        _stop_attempt(ctx, order, reason, tally.verified)
    if tally.open_reports:
        TALLIES.put(ctx.store, replace(tally, ending=int(reason)))
    else:
        close_order(ctx, order.id, reason)


def close_order(ctx: Context, order_id: bytes, reason: CloseReason) -> None:
    """Close an order: the rest of the deposit and all bonds return.

    Of bonds, a bounded number in a block; the queue carries the rest, and the order closes when the last has returned.
    """
    escrow, moves = refund(ESCROWS.must(ctx.store, order_id))
    ESCROWS.put(ctx.store, escrow)
    apply_payments(ctx, order_id, moves)
    rows = ctx.store.scan_records(BondRow, keys.bond_row(order_id))
    if not _return_some(ctx, order_id, (row for _, row in rows)):
        tally = TALLIES.must(ctx.store, order_id)
        TALLIES.put(ctx.store, replace(tally, ending=int(reason)))
        schedule(ctx, ctx.clock, Due.CLOSE, order_id)
        return
    order = ORDERS.must(ctx.store, order_id)
    ORDERS.put(ctx.store, replace(order, state=OrderState.CLOSED, close_reason=int(reason)))
    ctx.emit(
        "order.closed",
        ("order", order_id),
        ("reason", int(reason)),
        ("refunded", sum(row.refunded for row in escrow.depositors)),
        *((name, count) for name, count in order.unmatched),
    )


def _return_some(ctx: Context, order_id: bytes, rows: Iterable[BondRow]) -> bool:
    """Return the first bonds of an order, and tell whether these were all."""
    found = list(islice(rows, BONDS_PER_CALL + 1))
    for row in found[:BONDS_PER_CALL]:
        return_bond(ctx, order_id, row)
    return len(found) <= BONDS_PER_CALL


def is_ending(ctx: Context, order: Order) -> bool:
    """Tell whether the order's end is decided, and only reports and the return of bonds are waited for."""
    return TALLIES.must(ctx.store, order.id).ending != 0


def clear_attempt(ctx: Context, order: Order, assignment: Assignment) -> bool:
    """Return what an attempt left behind before the order opens again; reported bonds stay until their end.

    A bounded number of bonds each time. False where some are left: then it has to be called again.
    """
    bond = get_job_bond(ctx, order.id, assignment.attempt)
    if bond is not None:
        return_bond(ctx, order.id, bond)
    prefix = keys.bond_row(order.id, assignment.attempt, int(BondKind.SHARE))
    rows = (row for _, row in ctx.store.scan_records(BondRow, prefix))
    return _return_some(ctx, order.id, (r for r in rows if not _is_reported(ctx, order.id, r)))


def _is_reported(ctx: Context, order_id: bytes, row: BondRow) -> bool:
    share = SHARES.must(ctx.store, order_id, row.attempt, row.round, row.slot, row.issue)
    return share.state is ShareState.REPORTED


def stop_audits(ctx: Context, order: Order, assignment: Assignment, first: int) -> None:
    """Stop the audits of all closed rounds from ``first`` on; those of void rounds have ended."""
    for number in range(first, assignment.round):
        if ROUNDS.must(ctx.store, order.id, assignment.attempt, number).void:
            return
        audit = AUDITS.get(ctx.store, order.id, assignment.attempt, number)
        stop_audit(ctx, order.id, assignment.attempt, number, right=get_auditors(audit))


def _stop_attempt(ctx: Context, order: Order, reason: CloseReason, verified: int) -> None:
    assignment = ASSIGNMENTS.must(ctx.store, order.id, order.attempt)
    if assignment.state in (AssignmentState.RUNNING, AssignmentState.PROVEN):
        drop_open_round(ctx, order.id, assignment.attempt, assignment.round)
    stop_audits(ctx, order, assignment, verified)
    if reason is CloseReason.SETTLED:
        end_assignment(ctx, assignment, AssignmentState.DONE, 0)
    else:  # what failed by itself has ended with its own reason
        end_assignment(ctx, assignment, AssignmentState.FAILED, int(AttemptEnd.ORDER_DEADLINE))


def _change_load(ctx: Context, assignment: Assignment, sign: int) -> None:
    load = get_load(ctx.store, assignment.validator)
    value = price_ceil(assignment.work, assignment.price)
    LOADS.put(
        ctx.store,
        replace(load, work=load.work + sign * assignment.work, value=load.value + sign * value),
    )


def _live_key(assignment: Assignment) -> bytes:
    return keys.live_assignment(assignment.validator, assignment.order_id, assignment.attempt)
