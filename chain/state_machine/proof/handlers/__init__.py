"""Handlers of the proof: traces, accepted shares, the close of rounds, seats, and complaints about hand-overs."""

from chain.state_machine.proof.handlers import (
    accept_shares,
    close_round,
    commit_traces,
    complain,
    seats,
)

HANDLERS = (
    commit_traces.HANDLER,
    accept_shares.HANDLER,
    close_round.HANDLER,
    *seats.HANDLERS,
    complain.HANDLER,
)
