"""Messages that the disputes component handles."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from domain.bounds import Address, Count, Hash, Money, Size
from domain.limits import SALT_BYTES
from domain.messages import LaneHalf, Message
from domain.proof.records import AuditPlace, Finding


@dataclass(frozen=True, slots=True)
class MsgChallenge(Message):
    """Commit to a challenge of one place of a closed round, before the round's window ends.

    The hash hides the place and the claim (:func:`pol.rules.disputes.challenge_commitment`). ``bond`` is locked from
    the challenger's bond account. It must be as large as the place needs, which only the opening shows
    (:func:`pol.rules.disputes.needed_bond`).
    """

    URL: ClassVar[str] = "/assay.disputes.v1.MsgChallenge"
    SIGNER: ClassVar[str] = "challenger"
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
