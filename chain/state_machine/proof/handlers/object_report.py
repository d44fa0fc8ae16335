"""MsgObjectReport: the provider objects to a report."""

from chain.state_machine.checks import check_before
from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.proof.reports import decide_report
from chain.state_machine.proof.tables import REPORTS
from domain.errors import NOT_YOURS, WRONG_STATE, Refusal
from domain.messages import MsgObjectReport
from domain.records import Report, ReportState


def check_state(ctx: Context, message: MsgObjectReport) -> Report:
    """The report is about the signer, open, and in its window."""
    report = REPORTS.need(ctx.store, *message.key)
    if report.provider != message.provider:
        raise Refusal(NOT_YOURS, "provider", "the report is about somebody else", "leave it")
    if report.state is not ReportState.OPEN:
        reason = f"the report is {report.state.name.lower()}"
        raise Refusal(WRONG_STATE, "ref", reason, "nothing can be done any more")
    check_before(ctx, "report window", report.deadline)
    return report


def apply(ctx: Context, message: MsgObjectReport, report: Report) -> None:
    """Nothing is proven: the bond stays locked and returns when the order closes."""
    decide_report(ctx, report, ReportState.OBJECTED)


HANDLER = Handler(MsgObjectReport, check_state, apply)
