"""Hooks of the proof, through which later components act on rulings and void rounds."""

from dataclasses import dataclass

from chain.state_machine.hook import Hook
from domain.keys import PanelKey, RoundKey
from domain.legs.records import Leg
from domain.market.records import Order
from domain.proof.records import Panel, Round


@dataclass(frozen=True, slots=True)
class Finder:
    """The party that found a wrong place, and the largest part (bps) of the bonds of the parties at fault that it may
    get.
    """

    address: str
    bps: int


DISPUTE_RULED: Hook[[Panel], None] = Hook("dispute ruled")
"""Called when the panel of a dispute is over, after its seats were paid."""

ROUND_VOIDED: Hook[[RoundKey], None] = Hook("round voided")
"""Called when a round became void, to drop the disputes about it that have not ended."""

WEIGH_VOIDED: Hook[[RoundKey], int] = Hook("weigh voided")
"""Called to get the gas of dropping the disputes about a round that becomes void."""

FINDER: Hook[[PanelKey], Finder | None] = Hook("finder")
"""Called to get the party that is rewarded because the panel of its dispute found a place wrong."""

REWARDED: Hook[[PanelKey, int], None] = Hook("rewarded")
"""Called when the finder of a wrong place got an amount (uassay)."""

ATTESTED: Hook[[Order, Leg, Round], bool] = Hook("attested")
"""Called to ask whether the lower floor of the audit rate applies to a closed round, because of its providers'
credentials.
"""

SHARES_REFUTED: Hook[[tuple[str, ...]], None] = Hook("shares refuted")
"""Called with the providers of shares in which a panel found a wrong segment or update."""
