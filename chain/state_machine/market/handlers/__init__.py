"""Handlers of the market: those of bids and those of orders."""

from chain.state_machine.market.handlers import bids, orders

HANDLERS = (*bids.HANDLERS, *orders.HANDLERS)
