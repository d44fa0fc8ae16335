"""One file for each message of the market."""

from chain.state_machine.market.handlers import (
    accept_order,
    cancel_order,
    change_bid,
    decline_order,
    deposit_bond,
    place_bid,
    stop_order,
    submit_order,
    withdraw_bid,
)

HANDLERS = (
    deposit_bond.HANDLER,
    place_bid.HANDLER,
    change_bid.HANDLER,
    withdraw_bid.HANDLER,
    submit_order.HANDLER,
    cancel_order.HANDLER,
    accept_order.HANDLER,
    decline_order.HANDLER,
    stop_order.HANDLER,
)
