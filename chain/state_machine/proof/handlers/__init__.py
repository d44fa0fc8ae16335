"""Handlers of the proof: traces, the close of rounds, seats, and complaints about hand-overs."""

from chain.state_machine.proof.handlers import (
    close_round,
    commit_traces,
    complain,
    seats,
)

HANDLERS = (
    commit_traces.HANDLER,
    close_round.HANDLER,
    *seats.HANDLERS,
    complain.HANDLER,
)
