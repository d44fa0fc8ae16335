"""Handlers of the proof, one file for each message."""

from chain.state_machine.proof.handlers import (
    close_round,
    commit_traces,
    seats,
)

HANDLERS = (
    commit_traces.HANDLER,
    close_round.HANDLER,
    *seats.HANDLERS,
)
