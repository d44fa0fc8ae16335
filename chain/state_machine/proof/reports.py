"""Reports of providers: what happens when nobody objects, and when the window is over."""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import cut_bond, get_share_bond
from chain.state_machine.market.orders import close_order
from chain.state_machine.queue import Due, cancel
from chain.state_machine.tables import ASSIGNMENTS, ORDERS, REPORTS, SHARES, TALLIES
from domain.reasons import CloseReason
from domain.records import Report, ReportState
from escrow.bonds import wrong_share


def decide_report(ctx: Context, report: Report, state: ReportState) -> None:
    """Decide an open report: cut the bond, or leave it locked because the provider objects.

    With an objection the claim counts as not proven until there are seats to decide it; the bond returns when the
    order closes.
    """
    REPORTS.put(ctx.store, replace(report, state=state))
    cancel(ctx, report.deadline, Due.REPORT, *report.key)
    ctx.emit(
        "report.objected" if state is ReportState.OBJECTED else "report.decided",
        ("order", report.order_id),
        ("attempt", report.attempt),
        ("round", report.round),
        ("slot", report.slot),
        ("issue", report.issue),
        ("provider", report.provider),
        ("segment", report.segment),
    )
    if state is ReportState.CUT:
        _cut(ctx, report)
    tally = TALLIES.must(ctx.store, report.order_id)
    tally = replace(tally, open_reports=tally.open_reports - 1)
    TALLIES.put(ctx.store, tally)
    if tally.ending and tally.open_reports == 0:
        close_order(ctx, report.order_id, CloseReason(tally.ending))


def _cut(ctx: Context, report: Report) -> None:
    order = ORDERS.must(ctx.store, report.order_id)
    assignment = ASSIGNMENTS.must(ctx.store, report.order_id, report.attempt)
    share = SHARES.must(ctx.store, *report.key)
    row = get_share_bond(ctx, report.key)
    if row is not None:
        moves = wrong_share(order.id, order.consumer, row.amount, share.work, assignment.price)
        cut_bond(ctx, order.id, row, moves)
