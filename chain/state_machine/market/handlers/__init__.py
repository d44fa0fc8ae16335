"""Handlers of the market, by what they are about."""

from chain.state_machine.market.handlers import bids, orders

HANDLERS = (*bids.HANDLERS, *orders.HANDLERS)
