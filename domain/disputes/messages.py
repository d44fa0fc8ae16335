"""Messages that the disputes component handles."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from domain.bounds import Address, Count, Hash, Money, Size, Slot
from domain.keys import ShareKey
from domain.limits import SALT_BYTES
from domain.messages import LaneHalf, Message
from domain.proof.records import AuditPlace, Finding, ShareRoots


@dataclass(frozen=True, slots=True)
class MsgChallenge(Message):
    """Commit to a challenge of one place of a closed round, before the round's window ends.

    The hash hides the place and the claim (:func:`pol.rules.disputes.challenge_commitment`). ``bond`` is locked from
    the challenger's bond account. It must be as large as the place needs, which only the opening shows
    (:func:`pol.rules.disputes.needed_bond`).
    """

    URL: ClassVar[str] = "/assay.disputes.v1.MsgChallenge"
    SIGNER: ClassVar[str] = "challenger"
    GAS_EXTRA: ClassVar[int] = 4  # it reads the live challenges of the round
    challenger: Address
    order_id: Hash
    leg: Count
    round: Count
    commitment: Hash
    bond: Money


@dataclass(frozen=True, slots=True)
class MsgOpenChallenge(Message):
    """Open a challenge: name its place and the claim. A panel then recomputes the place.

    ``claim`` is the challenger's answer for the place, in the form of a seat's answer without its digest. If it is the
    answer that the panel finds, the challenger gets a reward.
    """

    URL: ClassVar[str] = "/assay.disputes.v1.MsgOpenChallenge"
    SIGNER: ClassVar[str] = "challenger"
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    challenger: Address
    order_id: Hash
    leg: Count
    round: Count
    number: Count
    place: AuditPlace
    claim: Finding
    salt: Annotated[bytes, Size(SALT_BYTES, SALT_BYTES)]


@dataclass(frozen=True, slots=True)
class MsgWaive(Message):
    """State that the sender will not challenge the rounds of a leg up to ``round``, closed or not.

    If all accounts that may challenge have stated it, these rounds wait no longer for challenges.
    """

    URL: ClassVar[str] = "/assay.disputes.v1.MsgWaive"
    SIGNER: ClassVar[str] = "sender"
    sender: Address
    order_id: Hash
    leg: Count
    round: Count


@dataclass(frozen=True, slots=True)
class MsgAppeal(Message):
    """Appeal the ruling of a panel that found a place of a round wrong, before the last stage.

    All eligible validators that are left then decide the wrong places, in the last stage of the panel. The chain locks
    the bond that this needs (:func:`pol.rules.disputes.appeal_bond`). It is lost if they rule against the chain again.
    ``dispute`` is the number of the challenge whose panel gave the ruling, or 0 for the panel that audits the round.
    """

    URL: ClassVar[str] = "/assay.disputes.v1.MsgAppeal"
    SIGNER: ClassVar[str] = "appellant"
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    appellant: Address
    order_id: Hash
    leg: Count
    round: Count
    dispute: Count = 0


@dataclass(frozen=True, slots=True)
class MsgStand(Message):
    """Stand for a share of the signer that was rejected as a mismatch, or that became void by its validator's fault.

    ``roots`` are those that the share's commitment hides. A panel recomputes places of the share. If all of them are
    right, the leg's validator pays the share. Otherwise its provider loses the bond (:mod:`pol.rules.stands`).
    """

    URL: ClassVar[str] = "/assay.disputes.v1.MsgStand"
    SIGNER: ClassVar[str] = "provider"
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    GAS_EXTRA: ClassVar[int] = 4
    provider: Address
    order_id: Hash
    leg: Count
    round: Count
    slot: Slot
    issue: Count
    roots: ShareRoots

    @property
    def share(self) -> ShareKey:
        """The key of the share."""
        return ShareKey(order_id=self.order_id, leg=self.leg, round=self.round, slot=self.slot, issue=self.issue)
