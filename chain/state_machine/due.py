"""What happens when something is due: the table from entries of the queue to their effects.

An entry may be out of date, because what it was about went on; each effect looks at the record again. None can refuse.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from chain.state_machine.context import Context
from chain.state_machine.ledger import balances
from chain.state_machine.market.attempts import fail_attempt, miss_accept
from chain.state_machine.market.orders import close_bid, close_order, end_order, is_ending
from chain.state_machine.proof.audits import apply_draw_end
from chain.state_machine.proof.draws import apply_lot
from chain.state_machine.proof.lots import get_hashes
from chain.state_machine.proof.reports import decide_report
from chain.state_machine.proof.settlement import advance, has_ready_round
from chain.state_machine.queue import Due, Entry, get_due, remove, schedule
from chain.state_machine.tables import (
    ASSIGNMENTS,
    BIDS,
    BOND_ACCOUNTS,
    LOTS,
    ORDERS,
    REPORTS,
    TALLIES,
    get_bond_account,
)
from domain.reasons import AttemptEnd, CloseReason
from domain.records import AssignmentState, OrderState, ReportState
from escrow.moves import Move, Transfer


def apply_due(ctx: Context) -> None:
    """Apply what is due, at most ``deadlines_per_block`` entries."""
    for entry in get_due(ctx, ctx.block.params.deadlines_per_block):
        if remove(ctx, entry):  # else one before it cancelled it
            EFFECTS[entry.kind](ctx, entry)


def _lot(ctx: Context, entry: Entry) -> None:
    """Its wait is over: draw with the blocks that there are."""
    lot = LOTS.get(ctx.store, entry.text(0), entry.parts[1])
    if lot is not None and get_hashes(lot):
        apply_lot(ctx, lot)


def _audit_draw(ctx: Context, entry: Entry) -> None:
    apply_draw_end(ctx, entry.parts[0], entry.number(1), entry.number(2))


def _window(ctx: Context, entry: Entry) -> None:
    order = ORDERS.must(ctx.store, entry.parts[0])
    if order.attempt == entry.number(1):
        advance(ctx, order.id)


def _report(ctx: Context, entry: Entry) -> None:
    report = REPORTS.must(ctx.store, *entry.share_key)
    if report.state is ReportState.OPEN:
        decide_report(ctx, report, ReportState.CUT)


def _accept(ctx: Context, entry: Entry) -> None:
    order = ORDERS.must(ctx.store, entry.parts[0])
    assignment = ASSIGNMENTS.must(ctx.store, order.id, entry.number(1))
    if assignment.state is AssignmentState.MATCHED and ctx.clock >= assignment.accept_deadline:
        miss_accept(ctx, order, assignment)


def _progress(ctx: Context, entry: Entry) -> None:
    order = ORDERS.must(ctx.store, entry.parts[0])
    assignment = ASSIGNMENTS.must(ctx.store, order.id, entry.number(1))
    if assignment.state is AssignmentState.RUNNING and ctx.clock >= assignment.progress_deadline:
        fail_attempt(ctx, order, assignment, AttemptEnd.NO_PROGRESS)


def _time_to_live(ctx: Context, entry: Entry) -> None:
    order = ORDERS.must(ctx.store, entry.parts[0])
    if order.state is not OrderState.OPEN or ctx.clock < order.expires_at or is_ending(ctx, order):
        return
    late = ctx.clock >= order.deadline
    end_order(ctx, order, CloseReason.DEADLINE if late else CloseReason.EXPIRED)


def _order(ctx: Context, entry: Entry) -> None:
    """The order's last deadline: nothing new begins, and what is proven but not verified is not paid."""
    order = ORDERS.must(ctx.store, entry.parts[0])
    if order.state is OrderState.CLOSED or is_ending(ctx, order):
        return
    if order.state in (OrderState.OPEN, OrderState.MATCHED):
        end_order(ctx, order, CloseReason.DEADLINE)
        return
    assignment = ASSIGNMENTS.must(ctx.store, order.id, order.attempt)
    if order.state is OrderState.PROVEN and has_ready_round(ctx, order):
        schedule(ctx, ctx.clock, Due.ORDER, order.id)  # first what advance left for the next block
    elif order.state is OrderState.PROVEN:
        end_order(ctx, order, CloseReason.UNVERIFIED)
    elif assignment.state is AssignmentState.RUNNING:
        fail_attempt(ctx, order, assignment, AttemptEnd.ORDER_DEADLINE)


def _close(ctx: Context, entry: Entry) -> None:
    """Go on with the return of bonds."""
    order = ORDERS.must(ctx.store, entry.parts[0])
    tally = TALLIES.must(ctx.store, order.id)
    if order.state is not OrderState.CLOSED and tally.ending and not tally.open_reports:
        close_order(ctx, order.id, CloseReason(tally.ending))


def _bid(ctx: Context, entry: Entry) -> None:
    bid = BIDS.get(ctx.store, entry.parts[0])
    if bid is not None and ctx.clock >= bid.expires_at:
        close_bid(ctx, bid, "expired")


def _withdrawal(ctx: Context, entry: Entry) -> None:
    owner = entry.text(0)
    account = get_bond_account(ctx.store, owner)
    ready = sum(w.amount for w in account.withdrawals if w.release_at <= ctx.clock)
    waiting = tuple(w for w in account.withdrawals if w.release_at > ctx.clock)
    if ready == 0:
        return
    freed = replace(account, free=account.free + ready, withdrawals=waiting)
    BOND_ACCOUNTS.put(ctx.store, freed)
    balances.apply_transfer(ctx, Transfer(Move.BOND_RELEASE, owner, owner, ready))
    ctx.emit("bond.released", ("owner", owner), ("amount", ready))


EFFECTS: Mapping[Due, Callable[[Context, Entry], None]] = MappingProxyType(
    {
        Due.LOT: _lot,
        Due.AUDIT_DRAW: _audit_draw,
        Due.WINDOW: _window,
        Due.REPORT: _report,
        Due.ACCEPT: _accept,
        Due.PROGRESS: _progress,
        Due.TIME_TO_LIVE: _time_to_live,
        Due.ORDER: _order,
        Due.CLOSE: _close,
        Due.BID: _bid,
        Due.WITHDRAWAL: _withdrawal,
    }
)
