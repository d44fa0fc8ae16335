"""Records that the disputes component keeps: frozen dataclasses of integers, strings, bytes and tuples."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from domain.bounds import Address, Count, Hash, Length, Money, Number
from domain.keys import PanelKey, RoundKey, ShareRef
from domain.limits import DISPUTES_MAX
from domain.proof.records import AuditPlace, Finding


class DisputeState(IntEnum):
    """The state of a dispute.

    Example::

        for event in order.events():
            if isinstance(event, assay.DisputeEnded):
                print(assay.DisputeState(event.state).name)
    """

    COMMITTED = 1  # its commitment is on chain
    OPEN = 2  # a panel recomputes its place
    UPHELD = 3  # the panel ruled against the chain's root, or for the share of a stand
    FAILED = 4  # the panel ruled for the chain's root, or against the share of a stand
    UNDECIDED = 5  # the panel could not decide
    EXPIRED = 6  # it was not opened in time, or its bond was too small
    DROPPED = 7  # another panel decides its place, or its round became void for another reason


@dataclass(frozen=True, slots=True)
class Dispute:
    """A challenge: the claim that the chain has a wrong root at one place of a closed round. Or a stand.

    A provider that stands for its ``share`` claims that the share is right. It has the role of the challenger, and the
    share's commitment is that of the dispute. It is open at once, and names no place.

    ``commitment`` hides the place and the claim until the challenge is opened, so that no one can copy it
    (:func:`pol.rules.disputes.challenge_commitment`). ``claim`` is the challenger's own answer for the place. ``least``
    is the part of the bond that is burnt if the challenge is not opened. ``open_before`` is the number of challenges of
    the round that were already open when this commitment came. Each of them doubles the bond that this challenge needs.
    ``joined`` are the numbers of later openings that name the same place. The same panel decides them.
    """

    order_id: Hash
    leg: Count
    round: Count
    number: Count  # number in the round, from 1; also the number of the panel that decides the challenge
    challenger: Address
    commitment: Hash
    bond: Money
    least: Money
    opens_until: Number  # chain clock
    open_before: Count
    state: DisputeState
    place: AuditPlace | None = None
    claim: Finding | None = None
    again: bool = False  # the round's own panel had decided the place before
    joins: Count = 0  # number of the dispute whose panel decides the place; 0 if the dispute has its own panel
    joined: Annotated[tuple[Count, ...], Length(0, DISPUTES_MAX)] = ()
    reward: Money = 0  # what the challenger got from the bonds of the parties at fault
    burnt: Money = 0  # burnt part of the challenger's bond
    share: ShareRef | None = None  # the share for which its provider stands; None for a challenge

    @property
    def key(self) -> PanelKey:
        """The key of the dispute, which is also the key of its panel."""
        return self.round_key.panel(self.number)

    @property
    def round_key(self) -> RoundKey:
        """The key of the round."""
        return RoundKey(self.order_id, self.leg, self.round)

    @property
    def is_live(self) -> bool:
        """True if the dispute has not ended."""
        return self.state in (DisputeState.COMMITTED, DisputeState.OPEN)
