"""Hooks of legs, through which later components act when a leg fails."""

from chain.state_machine.hook import Hook
from domain.keys import RoundKey
from domain.ledger.records import BondRow
from domain.legs.records import Leg
from domain.market.records import Order

ROUND_DROPPED: Hook[[RoundKey], None] = Hook("round dropped")
"""Called when the leg of this open round fails, so that the round will never be closed.

The shares of the round are dropped in steps; the order continues after the last step.
"""

ROUND_LEFT: Hook[[Order], None] = Hook("round left")
"""Called when the order has no open round left. The order's closed rounds then decide how it continues."""

STATES_ASKED: Hook[[Order, Leg], None] = Hook("states asked")
"""Called when the validator of a matched leg could not fetch the states from which the leg starts. A panel decides
whether they can be fetched; the leg waits for it.
"""

AT_STAKE: Hook[[bytes, BondRow], bool] = Hook("at stake")
"""Called to ask whether the bond of a share of this order can still be lost, so that the end of its leg keeps it."""
