"""One file for each message of the proof."""

from chain.state_machine.proof.handlers import (
    answer_audit,
    close_round,
    commit_traces,
)

HANDLERS = (
    commit_traces.HANDLER,
    close_round.HANDLER,
    answer_audit.HANDLER,
)
