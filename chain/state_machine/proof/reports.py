"""Reports of providers: what happens when nobody objects, and when the window is over."""

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import cut_bond, get_share_bond
from chain.state_machine.ledger.tables import TALLIES
from chain.state_machine.market.orders import close_order
from chain.state_machine.market.tables import ASSIGNMENTS, ORDERS
from chain.state_machine.proof.tables import REPORTS, SHARES
from chain.state_machine.queue import Due, Entry, cancel
from domain.events import ReportDecided, ReportObjected
from domain.reasons import CloseReason
from domain.records import Report, ReportState
from escrow.settle import wrong_share


def on_report(ctx: Context, entry: Entry) -> None:
    """Cut the bond, because the window is over and nobody objected."""
    report = REPORTS.must(ctx.store, *entry.share_key)
    if report.state is ReportState.OPEN:
        decide_report(ctx, report, ReportState.CUT)


def decide_report(ctx: Context, report: Report, state: ReportState) -> None:
    """Decide an open report: cut the bond, or leave it locked because the provider objects.

    With an objection the claim counts as not proven until there are seats to decide it; the bond returns when the
    order closes.
    """
    REPORTS.update(ctx.store, *report.key, state=state)
    cancel(ctx, report.deadline, Due.REPORT, *report.key)
    told = ReportObjected if state is ReportState.OBJECTED else ReportDecided
    ctx.emit(told(report.key, report.provider, report.segment))
    if state is ReportState.CUT:
        _cut(ctx, report)
    is_open = TALLIES.must(ctx.store, report.order_id).open_reports
    tally = TALLIES.update(ctx.store, report.order_id, open_reports=is_open - 1)
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
