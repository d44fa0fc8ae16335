"""What :mod:`validator.decide` may ask for. Every action has a key and a lane, and may be carried out twice."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from domain.messages import Message, MsgAnswerAudit
from domain.queries import AuditDuty
from domain.records import Assignment, JobTerms, Order, RoundKey, Share, ShareKey
from link.types import PayloadFile
from validator.decide.records import AttemptKey, VerdictRow


class Lane(StrEnum):
    """Where an action waits for others, so that it holds up no action of another lane."""

    # Done at once: it waits for nobody.
    HERE = "here"
    # Transactions, one after the other.
    TX = "tx"
    # Replays and all else that the pool does.
    WORK = "work"
    # Trials of jobs that nobody has run yet, one after another: each takes what it may.
    TRIAL = "trial"
    # What auditors fetch from others, and replay: a winner may be silent.
    AUDIT = "audit"
    # Silence in an audit cuts the stake: answers wait for no other audit.
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class SendTx:
    """Send a transaction with these messages."""

    lane: ClassVar = Lane.TX
    key: str
    messages: tuple[Message, ...]


# Orders that this validator won


@dataclass(frozen=True, slots=True)
class TryJob:
    """Load the payload in a process of its own, compare it with the order, and try it.

    It has to be over at ``ends`` on the chain's clock.
    """

    lane: ClassVar = Lane.TRIAL
    key: str
    attempt: AttemptKey
    order: Order
    assignment: Assignment
    ends: int


@dataclass(frozen=True, slots=True)
class CheckSegment:
    """Replay a segment of a share in the pool, or the update where ``segment`` is n."""

    lane: ClassVar = Lane.WORK
    key: str
    share: ShareKey
    segment: int


@dataclass(frozen=True, slots=True)
class VerifyOpening:
    """Hash states that a provider brought for an audit, before anybody gets them."""

    lane: ClassVar = Lane.WORK
    key: str
    share: ShareKey
    index: int


@dataclass(frozen=True, slots=True)
class Recompute:
    """Recompute the states at a boundary that an audit needs, because no provider brought them."""

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
    """Write down what became of the shares of an attempt, for people."""

    lane: ClassVar = Lane.HERE
    key: str
    attempt: AttemptKey
    rows: tuple[VerdictRow, ...]


@dataclass(frozen=True, slots=True)
class Tidy:
    """Release all blobs of an attempt but those that it needs."""

    lane: ClassVar = Lane.HERE
    key: str
    attempt: AttemptKey
    needed: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class Forget:
    """Forget an attempt and all its blobs."""

    lane: ClassVar = Lane.HERE
    key: str
    attempt: AttemptKey


# Audits of others


@dataclass(frozen=True, slots=True)
class AskOpening:
    """Ask the winner of a round what the replay of a place needs, by where it stands among the audit's places."""

    lane: ClassVar = Lane.AUDIT
    key: str
    duty: AuditDuty
    place_index: int
    winner: str


@dataclass(frozen=True, slots=True)
class LoadAudited:
    """Fetch the payload of an audited order from the winner and load it."""

    lane: ClassVar = Lane.AUDIT
    key: str
    duty: AuditDuty
    winner: str
    files: tuple[PayloadFile, ...]
    terms: JobTerms


@dataclass(frozen=True, slots=True)
class ReplayPlace:
    """Fetch what an accepted opening names, and replay the place.

    ``shares`` are the place's share, or all that were aggregated; ``global_in`` is the round's opening root.
    """

    lane: ClassVar = Lane.AUDIT
    key: str
    duty: AuditDuty
    place_index: int
    winner: str
    shares: tuple[Share, ...]
    global_in: bytes


@dataclass(frozen=True, slots=True)
class AnswerAudit:
    """Answer for all places; ``agreed`` if everything was found as the chain has it."""

    lane: ClassVar = Lane.ANSWER
    key: str
    message: MsgAnswerAudit
    agreed: bool


@dataclass(frozen=True, slots=True)
class EndAudit:
    """Forget an audit that is answered or over, and what was fetched for it."""

    lane: ClassVar = Lane.HERE
    key: str
    duty: AuditDuty


# Whatever the orders are


@dataclass(frozen=True, slots=True)
class Clean:
    """Delete blobs that nobody claimed, job directories that nobody uses, and what is known of other ``providers``."""

    lane: ClassVar = Lane.HERE
    key: str
    providers: tuple[str, ...]


Action = (
    SendTx
    | TryJob
    | CheckSegment
    | VerifyOpening
    | Recompute
    | Aggregate
    | Seal
    | NoteVerdicts
    | Tidy
    | Forget
    | AskOpening
    | LoadAudited
    | ReplayPlace
    | AnswerAudit
    | EndAudit
    | Clean
)
