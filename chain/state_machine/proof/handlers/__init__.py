"""Handlers of the proof: traces, the close of rounds, seats, hand-overs taken early, and complaints about them."""

from chain.state_machine.proof.handlers import (
    close_round,
    commit_traces,
    complain,
    seats,
    take_early,
)

HANDLERS = (
    commit_traces.HANDLER,
    close_round.HANDLER,
    *seats.HANDLERS,
    complain.HANDLER,
    take_early.HANDLER,
)
