"""Handlers of the market, by what they are about."""

from chain.state_machine.market.handlers import assignments, bids, orders

HANDLERS = (*bids.HANDLERS, *orders.HANDLERS, *assignments.HANDLERS)
