"""Hooks of legs, through which later components act when a leg fails."""

from chain.state_machine.hook import Hook
from domain.keys import RoundKey
from domain.market.records import Order

ROUND_DROPPED: Hook[[RoundKey], None] = Hook("round dropped")
"""Called when the leg of this open round fails, so that the round will never be closed."""

WEIGH_ROUND: Hook[[RoundKey], int] = Hook("weigh round")
"""Called for the gas of dropping an open round."""

ROUND_LEFT: Hook[[Order], None] = Hook("round left")
"""Called when no round of the order is open any longer; its closed rounds decide how the order goes on."""
