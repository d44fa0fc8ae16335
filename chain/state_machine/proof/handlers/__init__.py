"""Handlers of the proof: traces, the close of rounds, and seats."""

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
