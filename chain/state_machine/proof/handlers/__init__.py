"""Handlers of what runs: its assignment, and one file for each message of the proof."""

from chain.state_machine.proof.handlers import (
    assignments,
    close_round,
    commit_traces,
    seats,
)

HANDLERS = (
    *assignments.HANDLERS,
    commit_traces.HANDLER,
    close_round.HANDLER,
    *seats.HANDLERS,
)
