"""Handlers of the proof: traces, shares, deliveries, the close of rounds, seats, early results, and complaints."""

from chain.state_machine.proof.handlers import (
    accept_shares,
    ask_receipt,
    close_round,
    commit_traces,
    complain,
    deliveries,
    include_share,
    never_served,
    seats,
    show_trace,
    take_early,
)

HANDLERS = (
    commit_traces.HANDLER,
    accept_shares.HANDLER,
    close_round.HANDLER,
    *seats.HANDLERS,
    complain.HANDLER,
    never_served.HANDLER,
    take_early.HANDLER,
    *deliveries.HANDLERS,
    include_share.HANDLER,
    *ask_receipt.HANDLERS,
    show_trace.HANDLER,
)
