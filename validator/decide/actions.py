"""What :mod:`validator.decide` may ask for. Every action has a key and a lane, and may be carried out twice."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from domain.keys import RoundKey, ShareKey
from domain.legs.records import Leg
from domain.market.records import JobTerms, Order
from domain.messages import Message
from domain.proof.messages import MsgCommitAnswer, MsgRevealAnswer
from domain.proof.records import Place, Share
from link.types import PayloadFile, StateRef
from validator.decide.probe import ProbeResult
from validator.decide.records import LegKey, SeatKey, SlotLocal, VerdictRow


class Lane(StrEnum):
    """Where an action waits for others, so that it holds up no action of another lane."""

    # Done at once: it waits for nobody.
    HERE = "here"
    # Transactions, in which everything goes together that is due (validator.decide.outgoing).
    TX = "tx"
    # Replays and all else that the pool does.
    WORK = "work"
    # Trials of jobs that nobody has run yet, one after another: each takes what it may.
    TRIAL = "trial"
    # What seats fetch from others, and replay: a winner may be silent.
    AUDIT = "audit"


NEVER = 2**62
"""When what has no deadline has to be in a block."""


@dataclass(frozen=True, slots=True)
class SendTx:
    """Send these messages in one transaction, which has to be in a block before ``by`` on the chain's clock."""

    lane: ClassVar = Lane.TX
    key: str
    messages: tuple[Message, ...]
    by: int


@dataclass(frozen=True, slots=True)
class SendNotice:
    """Send what no duty waits for; it is found at whole looks, and stands from one of them to the next.

    It goes alone: a stranger can make it fail at any moment, and all that would be with it.
    """

    lane: ClassVar = Lane.TX
    key: str
    messages: tuple[Message, ...]
    by: ClassVar = NEVER


# Orders that this validator won


@dataclass(frozen=True, slots=True)
class TryJob:
    """Load the payload in a process of its own, compare it with the order, and try it.

    It has to be over at ``ends`` on the chain's clock.
    """

    lane: ClassVar = Lane.TRIAL
    key: str
    leg: LegKey
    order: Order
    matched: Leg
    ends: int


@dataclass(frozen=True, slots=True)
class TakeOpenings:
    """Hold states of another leg of the order that this one starts from: the global one, and those of slots."""

    lane: ClassVar = Lane.HERE
    key: str
    leg: LegKey
    opening: StateRef | None
    slots: tuple[SlotLocal, ...]


@dataclass(frozen=True, slots=True)
class CheckSegment:
    """Replay a segment of a share in the pool, or the update where ``segment`` is n."""

    lane: ClassVar = Lane.WORK
    key: str
    share: ShareKey
    segment: int
    tier: str  # of the leg


@dataclass(frozen=True, slots=True)
class VerifyOpening:
    """Hash states that a provider brought for a panel, before anybody gets them."""

    lane: ClassVar = Lane.WORK
    key: str
    share: ShareKey
    index: int


@dataclass(frozen=True, slots=True)
class Recompute:
    """Recompute the states at a boundary that a panel needs, because no provider brought them."""

    lane: ClassVar = Lane.WORK
    key: str
    share: ShareKey
    index: int


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Aggregate the accepted updates of a round."""

    lane: ClassVar = Lane.WORK
    key: str
    round: RoundKey


@dataclass(frozen=True, slots=True)
class Seal:
    """Encrypt the states that a hand-over round leaves to the order's key."""

    lane: ClassVar = Lane.WORK
    key: str
    round: RoundKey
    order_key: bytes


@dataclass(frozen=True, slots=True)
class NoteVerdicts:
    """Write down what became of the shares of a leg, for people."""

    lane: ClassVar = Lane.HERE
    key: str
    leg: LegKey
    rows: tuple[VerdictRow, ...]


@dataclass(frozen=True, slots=True)
class Tidy:
    """Release all blobs of a leg but those that it needs."""

    lane: ClassVar = Lane.HERE
    key: str
    leg: LegKey
    needed: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class ForgetLeg:
    """Forget a leg and all its blobs."""

    lane: ClassVar = Lane.HERE
    key: str
    leg: LegKey


# Seats in panels about rounds of others


@dataclass(frozen=True, slots=True)
class AskOpening:
    """Ask the winner of a round what the replay of a place needs, by where it stands among those of the duty."""

    lane: ClassVar = Lane.AUDIT
    key: str
    seat: SeatKey
    index: int
    number: int  # of the place in its panel
    winner: str


@dataclass(frozen=True, slots=True)
class LoadAudited:
    """Fetch the payload of the order from the winner and load it, ``until`` the answer goes out (chain clock)."""

    lane: ClassVar = Lane.AUDIT
    key: str
    seat: SeatKey
    winner: str
    files: tuple[PayloadFile, ...]
    terms: JobTerms
    until: int


@dataclass(frozen=True, slots=True)
class ReplayPlace:
    """Fetch what an accepted opening names, and replay the place, ``until`` the answer goes out (chain clock).

    ``shares`` are the place's share, or all that were aggregated; ``global_in`` is the round's opening root.
    """

    lane: ClassVar = Lane.AUDIT
    key: str
    seat: SeatKey
    index: int
    place: Place
    seed: bytes  # of the stage
    winner: str
    shares: tuple[Share, ...]
    global_in: bytes
    until: int
    tier: str  # of the leg


@dataclass(frozen=True, slots=True)
class SendAnswer:
    """Commit to the answers of a seat, or show them, in a block before ``by`` on the chain's clock.

    ``agreed`` if everything was found as the chain has it.
    """

    lane: ClassVar = Lane.TX
    key: str
    message: MsgCommitAnswer | MsgRevealAnswer
    agreed: bool
    by: int

    @property
    def messages(self) -> tuple[Message, ...]:
        """What the transaction gets."""
        return (self.message,)


@dataclass(frozen=True, slots=True)
class EndSeat:
    """Forget a seat that has shown its answers or whose stage is over, and what was fetched for it."""

    lane: ClassVar = Lane.HERE
    key: str
    seat: SeatKey


# Whatever the orders are


@dataclass(frozen=True, slots=True)
class CheckProbe:
    """Work out the pieces of a probe that were drawn, and compare."""

    lane: ClassVar = Lane.WORK
    key: str
    measured: ProbeResult


@dataclass(frozen=True, slots=True)
class Clean:
    """Delete blobs that nobody claimed, job directories that nobody uses, and what is known of other ``providers``."""

    lane: ClassVar = Lane.HERE
    key: str
    providers: tuple[str, ...]


Action = (
    SendTx
    | SendNotice
    | TryJob
    | TakeOpenings
    | CheckSegment
    | VerifyOpening
    | Recompute
    | Aggregate
    | Seal
    | NoteVerdicts
    | Tidy
    | ForgetLeg
    | AskOpening
    | LoadAudited
    | ReplayPlace
    | SendAnswer
    | EndSeat
    | CheckProbe
    | Clean
)
