"""What a validator's daemon remembers of orders and seats; stored as canonical JSON (``domain.codec``).

Everything here can be written down and read back after a kill; what is only under way (a replay, a transaction) is
not, since :mod:`validator.decide` asks for it again as long as its outcome is missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from domain.keys import RoundKey, ShareKey, ShareRef
from domain.proof.queries import PanelDuty
from domain.proof.records import AnswerKind, SeatAnswer, ShownLeaf
from link.types import (
    AuditOpening,
    BlobRef,
    PayloadFile,
    ShareDelivery,
    ShareSubmission,
    StateRef,
)


@dataclass(frozen=True, slots=True, order=True)
class LegKey:
    """Names a leg of an order."""

    order_id: bytes
    leg: int

    def __str__(self) -> str:
        return f"{self.order_id.hex()}/{self.leg}"

    def round(self, round: int) -> RoundKey:
        """Return the key of one of its rounds."""
        return RoundKey(self.order_id, self.leg, round)


@dataclass(frozen=True, slots=True)
class Opening:
    """States at one boundary of a share; ``verified``: they hash to its leaf, so they may be handed on."""

    index: int
    global_state: BlobRef
    local_state: BlobRef
    verified: bool


@dataclass(frozen=True, slots=True)
class CheckedSegment:
    """The outcome of replaying one segment of a share, or the update (``segment`` = n)."""

    segment: int
    reason: int  # ShareReason; NONE where it holds
    replayed_root: bytes


@dataclass(frozen=True, slots=True)
class SlotWork:
    """One issue of a slot's share, from its leg to its verdict."""

    slot: int
    issue: int
    provider: str
    local_in: StateRef
    answer_by: int  # chain clock: the commitment has to be here
    signed: ShareSubmission | None  # the commitment
    deliver_by: int  # chain clock: what it hides has to be here; 0 until it is on chain
    packet: ShareDelivery | None  # what it hides
    open_by: int  # chain clock: the openings have to be here; 0 until they were asked
    picks: tuple[int, ...]  # the validator's own further segments
    # By their boundaries and segments.
    openings: tuple[Opening, ...]
    checked: tuple[CheckedSegment, ...]
    # Boundaries that training does not lead to, found after the round was closed.
    broken: tuple[int, ...]
    verdict: int  # ShareReason that ended it; NONE while it stands
    settled: bool  # the chain knows the verdict, or never knew the share
    # Chain clock since when its provider is not there to train it; 0 while it is.
    missed_at: int = 0
    # Chain clock when it was given out, and when its commitment was seen first; 0 while it was not.
    given_at: int = 0
    handed_at: int = 0


@dataclass(frozen=True, slots=True)
class SealedResult:
    """The encrypted states that a round left: root, chunk points and lengths, and the blob of the ciphertext."""

    ciphertext_root: bytes
    blob: BlobRef
    points: tuple[bytes, ...]
    lengths: tuple[int, ...]
    hashes: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class LocalRound:
    """A round as this daemon ran it. ``works`` holds every issue, in the order of leg."""

    round: int
    global_in: StateRef
    works: tuple[SlotWork, ...]
    next_global: StateRef | None  # aggregated
    # Accepted shares by which the job stops, or whose updates do not aggregate: all of them is replayed.
    suspects: tuple[ShareRef, ...]
    # Chain clock: until then providers are asked for audited states; 0 before the lot.
    audit_by: int
    # For the consumer, where it is a hand-over round: before it is closed.
    sealed: SealedResult | None

    def find(self, slot: int, issue: int) -> SlotWork | None:
        """Return the work of one issue of a slot."""
        return next((w for w in self.works if (w.slot, w.issue) == (slot, issue)), None)

    def put(self, changed: SlotWork) -> "LocalRound":
        """Return the round with one issue of a slot replaced."""
        name = (changed.slot, changed.issue)
        works = tuple(changed if (w.slot, w.issue) == name else w for w in self.works)
        return replace(self, works=works)


@dataclass(frozen=True, slots=True)
class SlotLocal:
    """The local state that a slot starts its next round with."""

    slot: int
    state: StateRef


@dataclass(frozen=True, slots=True)
class PastFailures:
    """How often a provider failed in rounds that are over and not kept any more."""

    provider: str
    count: int


class PayloadStage(IntEnum):
    """Where the payload of an order stands."""

    ABSENT = 0
    OFFERED = 1
    COMPLETE = 2  # all blobs held
    LOADED = 3  # the job loads, agrees with the order, and a trial of it went well
    BAD = 4


@dataclass(frozen=True, slots=True)
class Payload:
    """The files of the job, and how far loading came."""

    stage: PayloadStage
    files: tuple[PayloadFile, ...]
    decline: int  # LegEnd where BAD
    text: str
    initial_global: StateRef | None
    initial_local: StateRef | None


@dataclass(frozen=True, slots=True)
class LocalOrder:
    """One leg of an order that this validator won; rounds that are over leave it (``retention``)."""

    order_id: bytes
    leg: int
    payload: Payload
    rounds: tuple[LocalRound, ...]
    locals: tuple[SlotLocal, ...]
    excluded: tuple[str, ...]  # providers that failed in this order
    failures: tuple[PastFailures, ...]
    # Chain clock when this daemon first saw that the order is closed; 0 before.
    closed_at: int
    # The global state that the leg starts from, if it is of another leg.
    opening: StateRef | None = None

    @property
    def key(self) -> LegKey:
        """The leg."""
        return LegKey(self.order_id, self.leg)

    def find(self, round: int) -> LocalRound | None:
        """Return the record of a round."""
        return next((known for known in self.rounds if known.round == round), None)

    def put(self, changed: LocalRound) -> "LocalOrder":
        """Return the record with one round replaced."""
        rounds = tuple(changed if r.round == changed.round else r for r in self.rounds)
        return replace(self, rounds=rounds)

    def at(self, round: int, slot: int, issue: int) -> "WorkAt | None":
        """Return the work of one issue of a slot, at its place in this record."""
        current = self.find(round)
        work = current.find(slot, issue) if current else None
        return None if current is None or work is None else WorkAt(self, current, work)

    def share(self, key: ShareKey) -> "WorkAt | None":
        """Return the work of a share, at its place in this record; None if it is of another leg."""
        if (key.order_id, key.leg) != (self.order_id, self.leg):
            return None
        return self.at(key.round, key.slot, key.issue)


@dataclass(frozen=True, slots=True)
class WorkAt:
    """The work of one issue of a slot, with its round and the record that it stands in."""

    local: LocalOrder
    current: LocalRound
    work: SlotWork

    @property
    def key(self) -> ShareKey:
        """The name of the share."""
        return share_key(self.local, self.current, self.work)

    def put(self, work: SlotWork) -> LocalOrder:
        """Return the record with the work replaced."""
        return self.local.put(self.current.put(work))


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """What replay found: a ``ShareReason``, and the recomputed root."""

    reason: int
    root: bytes


# Seats in panels about rounds of others


@dataclass(frozen=True, slots=True, order=True)
class SeatKey:
    """Names a seat of this validator: it has at most one in a panel, of one stage."""

    order_id: bytes
    leg: int
    round: int
    stage: int

    def __str__(self) -> str:
        return f"seat/{self.order_id.hex()}/{self.leg}/{self.round}/{self.stage}"

    @property
    def panel(self) -> RoundKey:
        """The round that is recomputed."""
        return RoundKey(self.order_id, self.leg, self.round)


def seat_key(duty: PanelDuty) -> SeatKey:
    """Return the key of the seat that a duty is about."""
    return SeatKey(order_id=duty.order_id, leg=duty.leg, round=duty.round, stage=duty.stage)


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What recomputing a place found: an answer's fields, or why what was served is not what the chain has."""

    fault: str
    kind: AnswerKind = AnswerKind.FINISHED
    root: bytes = b""
    digest: bytes = b""
    step: int = 0


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a job's states and updates: everything else is not one of them."""

    global_state: int
    local_state: int
    update: int


@dataclass(frozen=True, slots=True)
class SeatPlace:
    """One place of somebody else's round, on its way to an answer.

    ``opening`` is what the winner gave for its replay, without the payload once it is ``accepted``: once it agrees
    with what is on chain. ``lacking`` is the blob that is waited for, until all are ``served``, which was noticed at
    the chain clock ``served_at``. ``unavailable`` says why there will be no replay.
    """

    opening: AuditOpening | None = None
    accepted: bool = False
    lacking: bytes = b""
    served: bool = False
    served_at: int = 0
    found: Recomputed | None = None
    unavailable: str = ""

    @property
    def is_open(self) -> bool:
        """Whether there is nothing to answer yet."""
        return self.found is None and not self.unavailable


@dataclass(frozen=True, slots=True)
class SealedAnswers:
    """What a seat says from now on: committed to with the salt, and shown as it is, whatever becomes known later."""

    salt: bytes
    answers: tuple[SeatAnswer, ...]
    leaves: tuple[ShownLeaf, ...]
    commitment: bytes
    agreed: bool  # everything was found as the chain has it


@dataclass(frozen=True, slots=True)
class LocalSeat:
    """A seat of this validator: ``files`` of the job once they are known, its sizes once it loads."""

    duty: PanelDuty  # as it was first seen
    # Chain clock at which this daemon first saw it, and looked at it last before there was something to say.
    begun: int
    looked: int
    places: tuple[SeatPlace, ...]  # as in the duty
    files: tuple[PayloadFile, ...] = ()
    lacking: bytes = b""  # the file of the job that is waited for
    sizes: Sizes | None = None
    away: int = 0  # chain seconds between the looks of one life and those of the next
    sealed: SealedAnswers | None = None


# What a daemon has to see to, whatever its orders are; not stored


@dataclass(frozen=True, slots=True)
class LocalUpkeep:
    """Whether the endpoint was seen on chain, and the chain clock of the next cleaning."""

    published: bool = False
    clean_at: int = 0


# For people


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """What this validator found about one share, for people and scripts.

    ``reason`` is a ShareReason, NONE where the share was accepted; ``segment`` is where it failed: n for the
    update, -1 where none is concerned.
    """

    order_id: bytes
    leg: int
    round: int
    slot: int
    issue: int
    provider: str
    segments: int
    checked: int
    reason: int
    segment: int

    @property
    def key(self) -> ShareKey:
        """The share."""
        return ShareKey(order_id=self.order_id, leg=self.leg, round=self.round, slot=self.slot, issue=self.issue)


EMPTY_PAYLOAD = Payload(
    stage=PayloadStage.ABSENT, files=(), decline=0, text="", initial_global=None, initial_local=None
)


def new_order(order_id: bytes, leg: int) -> LocalOrder:
    """Return the record of a leg that was just matched."""
    return LocalOrder(
        order_id=order_id,
        leg=leg,
        payload=EMPTY_PAYLOAD,
        rounds=(),
        locals=(),
        excluded=(),
        failures=(),
        closed_at=0,
    )


def accepted_works(current: LocalRound) -> tuple[SlotWork, ...]:
    """Return the latest issue of every slot, in slot order."""
    latest = {work.slot: work for work in current.works}
    return tuple(latest[slot] for slot in sorted(latest))


def exclude(local: LocalOrder, *providers: str) -> LocalOrder:
    """Give no further work in this order to these providers."""
    return replace(local, excluded=tuple(sorted({*local.excluded, *providers})))


def share_key(local: LocalOrder, current: LocalRound, work: SlotWork) -> ShareKey:
    """Return the name of a share on the link."""
    return ShareKey(
        order_id=local.order_id,
        leg=local.leg,
        round=current.round,
        slot=work.slot,
        issue=work.issue,
    )


GLOBAL_FILE, LOCAL_FILE, JOB_FILE = "global.state", "local.state", "job.json"


def nests(paths: Sequence[str]) -> bool:
    """Tell whether a path is a folder of another one, so that they cannot lie in one directory."""
    parts = [path.split("/") for path in paths]
    folders = {"/".join(names[:depth]) for names in parts for depth in range(1, len(names))}
    return not folders.isdisjoint(paths)
