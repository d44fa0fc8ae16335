"""Handlers of the market: handlers of bids, and handlers of orders."""

from chain.state_machine.market.handlers import bids, orders

HANDLERS = (*bids.HANDLERS, *orders.HANDLERS)
