"""Hooks of legs, through which later components act when a leg fails."""

from dataclasses import dataclass

from chain.state_machine.hook import Hook
from domain.keys import RoundKey, ShareRef
from domain.ledger.records import BondRow
from domain.legs.records import Leg
from domain.market.records import Order


@dataclass(frozen=True, slots=True)
class TakenRound:
    """A void round whose shares the next leg takes over, except the shares that were found ``wrong``."""

    round: int
    wrong: frozenset[ShareRef]

    def has(self, row: BondRow) -> bool:
        """Return whether a bond is that of a share that is taken over."""
        return row.round == self.round and ShareRef(row.slot, row.issue) not in self.wrong


ROUND_DROPPED: Hook[[RoundKey], None] = Hook("round dropped")
"""Called when the leg of this open round fails, so that the round will never be closed.

The shares of the round are dropped in steps; the order continues after the last step.
"""

ROUND_LEFT: Hook[[Order], None] = Hook("round left")
"""Called when the order has no open round left. The order's closed rounds then decide how it continues."""

HELD_BACK: Hook[[Leg], bool] = Hook("held back")
"""Called to ask whether a running leg waits for something that is not its validator's matter, so that its progress
deadline does not end it.
"""

LEFT_TO_OTHERS: Hook[[Order], bool] = Hook("left to others")
"""Called to ask whether an order whose leg has failed is left to other orders that train the same, and so ends."""

STATES_ASKED: Hook[[Order, Leg], None] = Hook("states asked")
"""Called when the validator of a matched leg could not fetch the states from which the leg starts. A panel decides
whether they can be fetched; the leg waits for it.
"""

AT_STAKE: Hook[[bytes, BondRow], bool] = Hook("at stake")
"""Called to ask whether the bond of a share of this order can still be lost, so that the end of its leg keeps it."""

COVERED: Hook[[Leg, bool], int] = Hook("covered")
"""Called to ask how much (uassay) of a failed leg's job bond stays locked for right shares of void rounds. The second
argument says whether its validator continues.
"""

TAKEN_ROUND: Hook[[Leg], TakenRound | None] = Hook("taken round")
"""Called to ask which round's shares the next leg takes over if the validator of a failed leg continues."""

CONTINUED: Hook[[Order, Leg, Leg], None] = Hook("continued")
"""Called when the validator of a failed leg has begun the next leg; the arguments are the failed and the new leg."""
