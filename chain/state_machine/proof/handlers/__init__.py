"""One file for each message of the proof."""

from chain.state_machine.proof.handlers import (
    answer_audit,
    close_round,
    commit_traces,
    object_report,
    prove,
    report_provider,
)

HANDLERS = (
    commit_traces.HANDLER,
    report_provider.HANDLER,
    object_report.HANDLER,
    close_round.HANDLER,
    prove.HANDLER,
    answer_audit.HANDLER,
)
