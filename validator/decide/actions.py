"""The actions that :mod:`validator.decide` may ask for.

Every action has a key and a lane, and it is safe to carry it out twice.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from domain.attest.records import Attestation
from domain.keys import RoundKey, ShareKey
from domain.legs.records import Leg
from domain.market.records import JobTerms, Order
from domain.messages import Message
from domain.proof.messages import MsgCommitAnswer, MsgRevealAnswer
from domain.proof.queries import PanelResponse
from domain.proof.records import AuditPlace, Share
from link.handover import SealedState
from link.types import PayloadFile, StateRef
from pol.rules.handover import ChunkLayout, HandoverId
from validator.decide.probe import ProbeResult
from validator.decide.records import AttestKey, LegKey, SeatKey, SlotLocal, VerdictRow, WitnessKey
from validator.decide.view import WitnessedDelivery


class Lane(StrEnum):
    """The group of threads that carries out an action. An action waits only for other actions of its lane."""

    # The loop's own thread carries out these actions, because they wait for nothing.
    HERE = "here"
    # Transactions. Everything that is due is sent together (validator.decide.outgoing).
    TX = "tx"
    # Replays and other computations in the pool.
    WORK = "work"
    # Trials of new jobs, one at a time: a trial may use all the time and memory that it is allowed.
    TRIAL = "trial"
    # Downloads and replays for seats. The lane has many threads, because a winner may not answer.
    AUDIT = "audit"
    # Downloads for seats of others (validator.decide.mirrors). They have threads of their own, so that no seat of this
    # validator waits for them.
    MIRROR = "mirror"


NEVER = 2**62
"""Value of a deadline (chain seconds) which means that there is no deadline."""


@dataclass(frozen=True, slots=True)
class SendTx:
    """The action that sends messages in one transaction. It must be in a block before the chain second ``by``."""

    lane: ClassVar = Lane.TX
    key: str
    messages: tuple[Message, ...]
    by: int


@dataclass(frozen=True, slots=True)
class SendNotice:
    """The action that sends messages for which no duty waits.

    Only a whole look asks for such actions; each of them is kept until the next whole look. They are sent in a
    transaction of their own. Anyone can make such a message fail at any moment, and every other message in the same
    transaction would then fail, too.
    """

    lane: ClassVar = Lane.TX
    key: str
    messages: tuple[Message, ...]
    by: ClassVar = NEVER


# Orders that this validator won


@dataclass(frozen=True, slots=True)
class TryJob:
    """The action that loads a payload in a separate process, compares it with the order, and runs a trial of the job.

    The trial must end before ``ends`` on the chain's clock.
    """

    lane: ClassVar = Lane.TRIAL
    key: str
    leg: LegKey
    order: Order
    matched: Leg
    ends: int


@dataclass(frozen=True, slots=True)
class TakeInitialStates:
    """The action that holds the initial states of a leg that are already on this machine, because an earlier leg of the
    order ended with them.

    These are one global state and the slots' local states.
    """

    lane: ClassVar = Lane.HERE
    key: str
    leg: LegKey
    earlier_global: StateRef | None
    slots: tuple[SlotLocal, ...]


@dataclass(frozen=True, slots=True)
class FetchStates:
    """The action that fetches states of an earlier leg from other validators, or takes those that the consumer sent.

    ``sources`` are the validators that may have them, the best first. ``source`` is the number of the leg that left
    the states. ``sizes`` are the sizes (bytes) that a state may have.
    """

    lane: ClassVar = Lane.WORK
    key: str
    leg: LegKey
    source: int
    sources: tuple[str, ...]
    roots: frozenset[bytes]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KeepStates:
    """The action of a mirror that fetches the states of another validator's last verified round."""

    lane: ClassVar = Lane.MIRROR
    key: str
    leg: LegKey
    source: int
    sources: tuple[str, ...]
    roots: frozenset[bytes]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CheckSegment:
    """The action that replays a segment of a share, or its update if ``segment`` is the number of segments."""

    lane: ClassVar = Lane.WORK
    key: str
    share: ShareKey
    segment: int
    tier: str  # of the leg


@dataclass(frozen=True, slots=True)
class VerifyOpening:
    """The action that checks the hashes of states that a provider sent for a panel, before a seat gets these states."""

    lane: ClassVar = Lane.WORK
    key: str
    share: ShareKey
    index: int


@dataclass(frozen=True, slots=True)
class Recompute:
    """The action that recomputes the states at a boundary for a panel, because the provider did not send them."""

    lane: ClassVar = Lane.WORK
    key: str
    share: ShareKey
    index: int


@dataclass(frozen=True, slots=True)
class CheckDelivery:
    """The action that checks that the blob of a delivery is the complete ciphertext of its manifest."""

    lane: ClassVar = Lane.WORK
    key: str
    share: ShareKey
    terms: JobTerms


@dataclass(frozen=True, slots=True)
class OpenDelivery:
    """The action that decrypts a delivery whose key is shown, and compares it with the commitment."""

    lane: ClassVar = Lane.WORK
    key: str
    share: ShareKey
    terms: JobTerms


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The action that aggregates the accepted updates of a round."""

    lane: ClassVar = Lane.WORK
    key: str
    round: RoundKey


@dataclass(frozen=True, slots=True)
class Seal:
    """The action that encrypts the final states of a hand-over round with the order's public key."""

    lane: ClassVar = Lane.WORK
    key: str
    round: RoundKey
    order_key: bytes


@dataclass(frozen=True, slots=True)
class NoteVerdicts:
    """The action that stores the verdicts on the shares of a leg, for the operator."""

    lane: ClassVar = Lane.HERE
    key: str
    leg: LegKey
    rows: tuple[VerdictRow, ...]


@dataclass(frozen=True, slots=True)
class Tidy:
    """The action that releases the blobs of a leg, except those that the leg still needs."""

    lane: ClassVar = Lane.HERE
    key: str
    leg: LegKey
    needed: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class ForgetLeg:
    """The action that deletes the record of a leg and releases its blobs."""

    lane: ClassVar = Lane.HERE
    key: str
    leg: LegKey


# Seats in panels about others' rounds


@dataclass(frozen=True, slots=True)
class AskOpening:
    """The action that asks the winner of a round for the opening of a place.

    ``index`` is the place's position in the duty.
    """

    lane: ClassVar = Lane.AUDIT
    key: str
    seat: SeatKey
    index: int
    number: int  # the place's number in its panel
    winner: str
    helpers: tuple[str, ...] = ()  # mirrors and seats of earlier stages, which are asked if the winner has nothing


@dataclass(frozen=True, slots=True)
class LoadAudited:
    """The action that fetches the order's payload from the winner and loads it.

    ``until`` is the chain second at which the answer is sent.
    """

    lane: ClassVar = Lane.AUDIT
    key: str
    seat: SeatKey
    winner: str
    files: tuple[PayloadFile, ...]
    terms: JobTerms
    until: int
    helpers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplayPlace:
    """The action that fetches the blobs of an accepted opening and recomputes the place.

    ``until`` is the chain second at which the answer is sent. ``shares`` has the place's share. For an aggregation, it
    has all shares of the round. ``global_in`` is the root of the round's initial global state.
    """

    lane: ClassVar = Lane.AUDIT
    key: str
    seat: SeatKey
    index: int
    place: AuditPlace
    seeds: tuple[bytes, ...]  # seeds of the panel's stages; the last is that of the seat's stage
    winner: str
    shares: tuple[Share, ...]
    global_in: bytes
    until: int
    tier: str  # the leg's tier
    helpers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReviewedSeat:
    """A seat of an earlier stage that has to serve its own end state of a segment, which has a ``root``.

    ``number`` is its number among the seats of its stage with this place, counted from 0.
    """

    validator: str
    stage: int
    number: int
    root: bytes


@dataclass(frozen=True, slots=True)
class CompareStates:
    """The action that compares the end states of a segment with the seat's own, once the seat has committed.

    ``claim`` is the root of the provider's end state. It is empty if the job stops in the segment, according to the
    chain. If ``shown``, the provider stands for its share, and has sent this state with the opening. Seats of earlier
    stages may take until ``ask_until`` (chain seconds) to serve their states, and the winner until ``until``.
    """

    lane: ClassVar = Lane.AUDIT
    key: str
    seat: SeatKey
    index: int
    number: int  # the place's number in the panel
    place: AuditPlace
    winner: str
    shares: tuple[Share, ...]
    global_in: bytes
    claim: bytes
    reviewed: tuple[ReviewedSeat, ...]
    ask_until: int
    until: int
    tier: str
    stages: int  # number of stages before the seat's own
    shown: bool = False


@dataclass(frozen=True, slots=True)
class MirrorPlace:
    """The action that fetches the opening and the blobs of a place from the winner, for the seats of its panel.

    ``seat`` is the key of the mirror's record, and ``index`` is the place's position in it.
    """

    lane: ClassVar = Lane.MIRROR
    key: str
    seat: SeatKey
    index: int
    number: int  # the place's number in its panel
    place: AuditPlace
    subject: PanelResponse


@dataclass(frozen=True, slots=True)
class RebuildChunk:
    """The action that encrypts an opened chunk of a hand-over round again, and records the root that follows."""

    lane: ClassVar = Lane.AUDIT
    key: str
    seat: SeatKey
    index: int
    chunk: int
    asked: SealedState
    seeds: tuple[bytes, ...]  # seeds of the panel's stages; the last is that of the seat's stage
    tier: str  # the leg's tier


@dataclass(frozen=True, slots=True)
class FindResult:
    """The action of a seat that fetches the encrypted result of a round, and records a digest over it.

    ``sources`` are the validators that may have the result, the best first. ``root`` is the ciphertext root, and
    ``roots`` are the roots of the states that are encrypted, that of the global state first.
    """

    lane: ClassVar = Lane.AUDIT
    key: str
    seat: SeatKey
    index: int
    sources: tuple[str, ...]
    handover: HandoverId
    layout: ChunkLayout
    root: bytes
    roots: tuple[bytes, ...]
    seeds: tuple[bytes, ...]  # seeds of the panel's stages; the last is that of the seat's stage
    until: int
    tier: str  # the leg's tier

    @property
    def leg(self) -> LegKey:
        """The key of the leg that handed the result over. The result is kept in a record of this leg."""
        return LegKey(self.seat.order_id, self.seat.leg)


@dataclass(frozen=True, slots=True)
class FindStates:
    """The action of a seat that fetches all states that a verified round left, and records a digest over them.

    ``sources`` are the validators that may have the states, the best first. ``roots`` has the roots of the states, that
    of the global state first.
    """

    lane: ClassVar = Lane.AUDIT
    key: str
    seat: SeatKey
    index: int
    sources: tuple[str, ...]
    roots: tuple[bytes, ...]
    sizes: tuple[int, ...]
    seeds: tuple[bytes, ...]  # seeds of the panel's stages; the last is that of the seat's stage
    until: int
    tier: str  # the leg's tier

    @property
    def leg(self) -> LegKey:
        """The key of the leg that left the states. The states are kept for the next leg in a record of this leg."""
        return LegKey(self.seat.order_id, self.seat.leg)

    @property
    def source(self) -> int:
        """The number of the leg that left the states."""
        return self.seat.leg


@dataclass(frozen=True, slots=True)
class SendAnswer:
    """The action that commits to the answers of a seat, or reveals them, in a block before ``by`` on the chain's clock.

    ``agreed`` is True if all results of the seat agree with the chain.
    """

    lane: ClassVar = Lane.TX
    key: str
    message: MsgCommitAnswer | MsgRevealAnswer
    agreed: bool
    by: int

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of the transaction."""
        return (self.message,)


@dataclass(frozen=True, slots=True)
class CheckWitnessed:
    """The action that checks that a delivery to witness is complete, and prepares the message that states it."""

    lane: ClassVar = Lane.MIRROR
    key: str
    witness: WitnessKey
    delivery: WitnessedDelivery


@dataclass(frozen=True, slots=True)
class PassDelivery:
    """The action that sends a witnessed delivery to the validator that signs no receipt for it."""

    lane: ClassVar = Lane.MIRROR
    key: str
    witness: WitnessKey
    validator: str


@dataclass(frozen=True, slots=True)
class EndWitness:
    """The action that deletes the record and the blob of a delivery that needs no witness any longer."""

    lane: ClassVar = Lane.HERE
    key: str
    witness: WitnessKey


@dataclass(frozen=True, slots=True)
class JudgeEvidence:
    """The action of a seat that verifies an account's evidence, and records the answer."""

    lane: ClassVar = Lane.AUDIT
    key: str
    seat: AttestKey
    attestation: Attestation


@dataclass(frozen=True, slots=True)
class EndAttest:
    """The action that deletes the record of a seat whose panel about evidence is over, or that has revealed."""

    lane: ClassVar = Lane.HERE
    key: str
    seat: AttestKey


@dataclass(frozen=True, slots=True)
class EndSeat:
    """The action that deletes the record and blobs of a seat that has revealed its answers or whose stage is over."""

    lane: ClassVar = Lane.HERE
    key: str
    seat: SeatKey


# Duties that do not depend on orders


@dataclass(frozen=True, slots=True)
class CheckProbe:
    """The action that recomputes the drawn pieces of a probe and compares their digests."""

    lane: ClassVar = Lane.WORK
    key: str
    measured: ProbeResult


@dataclass(frozen=True, slots=True)
class Clean:
    """The action that deletes unclaimed blobs, unused job directories, and the data about unlisted providers.

    ``providers`` lists the providers whose data are kept.
    """

    lane: ClassVar = Lane.HERE
    key: str
    providers: tuple[str, ...]


Action = (
    SendTx
    | SendNotice
    | TryJob
    | TakeInitialStates
    | FetchStates
    | KeepStates
    | CheckDelivery
    | OpenDelivery
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
    | CompareStates
    | MirrorPlace
    | RebuildChunk
    | FindResult
    | FindStates
    | SendAnswer
    | EndSeat
    | CheckWitnessed
    | PassDelivery
    | EndWitness
    | JudgeEvidence
    | EndAttest
    | CheckProbe
    | Clean
)
