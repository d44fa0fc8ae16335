"""Handlers of what runs: its leg, and one file for each message of the proof."""

from chain.state_machine.proof.handlers import (
    close_round,
    commit_traces,
    legs,
    seats,
)

HANDLERS = (
    *legs.HANDLERS,
    commit_traces.HANDLER,
    close_round.HANDLER,
    *seats.HANDLERS,
)
