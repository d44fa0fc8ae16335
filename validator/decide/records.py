"""A validator's records of legs and seats, stored as canonical JSON (``domain.codec``).

All these records can be stored, and read back after the daemon was killed. Actions that are under way (a replay, a
transaction) are not recorded: :mod:`validator.decide` asks for them again as long as their outcomes are missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from domain.attest.records import AttestAnswer
from domain.keys import PanelKey, RoundKey, ShareKey, ShareRef
from domain.proof.messages import MsgWitness
from domain.proof.queries import PanelDuty
from domain.proof.records import AnswerKind, SealedLeaf, SeatAnswer, ShareRoots, ShownLeaf, ShownPiece
from link.types import (
    AuditOpening,
    BlobRef,
    DeliveryOffer,
    OpenedState,
    PayloadFile,
    ShareDelivery,
    ShareSubmission,
    StateRef,
)
from validator.decide.admission import UNCOVERED, Backing


@dataclass(frozen=True, slots=True, order=True)
class LegKey:
    """The key of a leg of an order."""

    order_id: bytes
    leg: int

    def __str__(self) -> str:
        return f"{self.order_id.hex()}/{self.leg}"

    def round(self, round: int) -> RoundKey:
        """Return the key of one of the leg's rounds."""
        return RoundKey(self.order_id, self.leg, round)


@dataclass(frozen=True, slots=True)
class Opening:
    """The states at one boundary of a share. If ``verified``, they hash to the share's leaf, and seats may get them."""

    index: int
    global_state: BlobRef
    local_state: BlobRef
    verified: bool


@dataclass(frozen=True, slots=True)
class CheckedSegment:
    """The outcome of replaying one segment of a share, or its update (``segment`` is the number of segments)."""

    segment: int
    reason: int  # ShareReason; NONE if the segment is correct
    replayed_root: bytes


@dataclass(frozen=True, slots=True)
class WrongPieces:
    """A wrong piece of a delivery, and the piece that has its hash, unless a root of the commitment has it."""

    piece: ShownPiece
    parent: ShownPiece | None


@dataclass(frozen=True, slots=True)
class SlotWork:
    """One issue of a slot's share, from its assignment to its verdict."""

    slot: int
    issue: int
    provider: str
    local_in: StateRef
    answer_by: int  # deadline of the task (chain seconds)
    signed: ShareSubmission | None  # the commitment
    deliver_by: int  # deadline of the results (chain seconds); 0 until the commitment is on the chain
    packet: ShareDelivery | None  # the results that the commitment hides
    open_by: int  # deadline of the openings (chain seconds); 0 until they are asked for
    picks: tuple[int, ...]  # the segments that the validator chose itself
    # Sorted by boundary.
    openings: tuple[Opening, ...]
    # Sorted by segment.
    checked: tuple[CheckedSegment, ...]
    # Boundaries whose leaves a recomputation contradicted after the round was closed.
    broken: tuple[int, ...]
    verdict: int  # the ShareReason that ended the issue; NONE if the issue has not ended
    settled: bool  # True if the verdict is on the chain, or if the share never got there
    # Chain second to which the deadline is moved at most, as long as its provider is there.
    wait_until: int = 0
    # Chain seconds when the issue was assigned.
    given_at: int = 0
    # Chain seconds when its commitment was first seen; 0 before.
    handed_at: int = 0
    # Boundaries whose states the delivery has, besides those at the last boundary. Sorted.
    anchors: tuple[int, ...] = ()
    # The encrypted delivery that the provider sent.
    offer: DeliveryOffer | None = None
    # True once the blob is here and is the complete ciphertext of the offer's manifest.
    offer_holds: bool = False
    # Chain second of the last receipt that was signed for the ciphertext; 0 before.
    receipt_at: int = 0
    # The key of the delivery and the roots that the commitment hides, once the provider has shown them.
    secret: bytes = b""
    roots: ShareRoots | None = None
    # A piece of the delivery that is not what the commitment promises, with its parent.
    wrong: WrongPieces | None = None
    # Boundaries whose states the provider did not send, or sent wrongly: this validator recomputes them. Sorted.
    alone: tuple[int, ...] = ()
    # The numbers in the task about the bonds behind the share.
    backing: Backing = UNCOVERED
    # Number of shares that its provider trains at once.
    at_once: int = 1
    # The ShareReason for which the chain skipped the commitment, although its provider may still include it.
    skipped: int = 0
    # Seconds that its provider needs for it by its certified speed.
    expected: int = 0
    # The segments that the validator also replays if there is an alarm.
    spare: tuple[int, ...] = ()
    # The names of the signs that the share may be made up.
    alarms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SealedResult:
    """A round's encrypted final states: the ciphertext's root and blob, and two leaves for each chunk.

    ``leaves`` are the leaves of the encrypted chunks. ``state_leaves`` are the leaves that the same chunks have in the
    trees of their states.
    """

    ciphertext_root: bytes
    blob: BlobRef
    leaves: tuple[SealedLeaf, ...]
    state_leaves: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class FoundResult:
    """The encrypted result of another validator's ``round``, which this validator fetched as a seat."""

    round: int
    sealed: SealedResult


@dataclass(frozen=True, slots=True)
class LocalRound:
    """A round as this daemon ran it. ``works`` has every issue, in the order in which the issues were assigned."""

    round: int
    global_in: StateRef
    works: tuple[SlotWork, ...]
    next_global: StateRef | None  # None until the round is aggregated
    # Accepted shares in which the job stops, or whose updates do not aggregate. All their places are replayed.
    suspects: tuple[ShareRef, ...]
    # Chain second until which this validator waits for audited states from providers; 0 before places are drawn.
    audit_by: int
    # The encrypted result of a hand-over round; None before it is sealed, and for other rounds.
    sealed: SealedResult | None

    def find(self, slot: int, issue: int) -> SlotWork | None:
        """Return the work of one issue of a slot; None if there is none."""
        return next((w for w in self.works if (w.slot, w.issue) == (slot, issue)), None)

    def put(self, changed: SlotWork) -> "LocalRound":
        """Return the round with one issue of a slot replaced."""
        name = (changed.slot, changed.issue)
        works = tuple(changed if (w.slot, w.issue) == name else w for w in self.works)
        return replace(self, works=works)


@dataclass(frozen=True, slots=True)
class SlotLocal:
    """The local state from which a slot starts its next round."""

    slot: int
    state: StateRef


@dataclass(frozen=True, slots=True)
class PastFailures:
    """The number of a provider's failures in rounds that are over and no longer in the record."""

    provider: str
    count: int


class PayloadStage(IntEnum):
    """The stages of an order's payload."""

    ABSENT = 0
    OFFERED = 1  # the consumer named the files
    COMPLETE = 2  # all files have arrived
    LOADED = 3  # the job loads and agrees with the order, and its trial succeeded
    BAD = 4  # the order is declined


@dataclass(frozen=True, slots=True)
class Payload:
    """The files of a job, and the result of loading them."""

    stage: PayloadStage
    files: tuple[PayloadFile, ...]
    decline: int  # the LegEnd of the decline if BAD, otherwise 0
    text: str  # the reason in words if BAD
    initial_global: StateRef | None
    initial_local: StateRef | None


@dataclass(frozen=True, slots=True)
class LocalOrder:
    """The record of one leg that this validator won. Rounds that are over are dropped from it (``retention``)."""

    order_id: bytes
    leg: int
    payload: Payload
    rounds: tuple[LocalRound, ...]
    locals: tuple[SlotLocal, ...]
    excluded: tuple[str, ...]  # providers that get no more work in this order
    failures: tuple[PastFailures, ...]
    # Chain seconds when this daemon first saw that the order is closed; 0 before.
    closed_at: int
    # The leg's initial global state, if it comes from an earlier leg.
    earlier_global: StateRef | None = None
    # States of an earlier leg that arrived here for this leg and have their roots.
    fetched: tuple[StateRef, ...] = ()
    # States of an earlier leg that the consumer offered; they may not have arrived, or not have their roots.
    offered: tuple[StateRef, ...] = ()
    # Rounds of the earlier leg, some of whose shares this leg may take over in its first round.
    left: tuple[LocalRound, ...] = ()
    # Results of the leg, which is another validator's. This validator fetched them as a seat, and serves them.
    results: tuple[FoundResult, ...] = ()

    @property
    def key(self) -> LegKey:
        """The key of the leg."""
        return LegKey(self.order_id, self.leg)

    def find(self, round: int) -> LocalRound | None:
        """Return the record of a round; None if there is none."""
        return next((known for known in self.rounds if known.round == round), None)

    def put(self, changed: LocalRound) -> "LocalOrder":
        """Return the record with one round replaced."""
        rounds = tuple(changed if r.round == changed.round else r for r in self.rounds)
        return replace(self, rounds=rounds)

    def at(self, round: int, slot: int, issue: int) -> "WorkAt | None":
        """Return the work of one issue of a slot with its round and this record; None if there is none."""
        current = self.find(round)
        work = current.find(slot, issue) if current else None
        return None if current is None or work is None else WorkAt(self, current, work)

    def share(self, key: ShareKey) -> "WorkAt | None":
        """Return the work of a share with its round and this record; None if this record has no such share."""
        if (key.order_id, key.leg) != (self.order_id, self.leg):
            return None
        return self.at(key.round, key.slot, key.issue)


@dataclass(frozen=True, slots=True)
class WorkAt:
    """The work of one issue of a slot, with its round and its record."""

    local: LocalOrder
    current: LocalRound
    work: SlotWork

    @property
    def key(self) -> ShareKey:
        """The key of the share."""
        return share_key(self.local, self.current, self.work)

    @property
    def opening(self) -> tuple[bytes, bytes]:
        """The roots of the global and the local state from which the share starts."""
        return self.current.global_in.root, self.work.local_in.root

    def put(self, work: SlotWork) -> LocalOrder:
        """Return the record with the work replaced."""
        return self.local.put(self.current.put(work))


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """The result of a replay: a ``ShareReason`` (NONE if it agrees), and the recomputed root."""

    reason: int
    root: bytes


# Seats in panels about others' rounds


@dataclass(frozen=True, slots=True, order=True)
class SeatKey:
    """The key of a seat of this validator, which has at most one seat in a stage of a panel. Stage 0 is a mirror."""

    order_id: bytes
    leg: int
    round: int
    dispute: int
    stage: int

    def __str__(self) -> str:
        return f"seat/{self.order_id.hex()}/{self.leg}/{self.round}/{self.dispute}/{self.stage}"

    @property
    def panel(self) -> PanelKey:
        """The key of the seat's panel."""
        return RoundKey(self.order_id, self.leg, self.round).panel(self.dispute)


def seat_key(duty: PanelDuty) -> SeatKey:
    """Return the key of a duty's seat."""
    return SeatKey(order_id=duty.order_id, leg=duty.leg, round=duty.round, dispute=duty.dispute, stage=duty.stage)


@dataclass(frozen=True, slots=True)
class Recomputed:
    """The result of recomputing a place: the fields of an answer, or a ``fault`` in the winner's data."""

    fault: str
    kind: AnswerKind = AnswerKind.FINISHED
    root: bytes = b""
    digest: bytes = b""
    step: int = 0
    earlier: tuple[bytes, ...] = ()
    # In a tier that compares states: the metrics at the seat's own end state, and whether a step before it failed.
    metrics: tuple[int, ...] = ()
    stopped: bool = False


def finished(root: bytes, digests: Sequence[bytes]) -> Recomputed:
    """Return the result of a place with a root. The last of the ``digests`` is of the seat's stage."""
    return Recomputed(fault="", kind=AnswerKind.FINISHED, root=root, digest=digests[-1], earlier=tuple(digests[:-1]))


def stopped(digests: Sequence[bytes], step: int = 0) -> Recomputed:
    """Return the result of a place at which the job stopped. The last of the ``digests`` is of the seat's stage."""
    kind = AnswerKind.STOPPED
    return Recomputed(fault="", kind=kind, root=b"", digest=digests[-1], step=step, earlier=tuple(digests[:-1]))


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of comparing the end states of a segment with the seat's own, in a tier that does so.

    ``kind`` is WITHIN or OUTSIDE, or UNAVAILABLE if the provider's state was not served. ``remarks`` are about the
    seats of each earlier stage (:mod:`pol.rules.tiers.remarks`).
    """

    kind: AnswerKind
    remarks: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes in bytes of a job's states and updates. A blob of another size is neither a state nor an update."""

    global_state: int
    local_state: int
    update: int


@dataclass(frozen=True, slots=True)
class SeatPlace:
    """One place of another validator's round, from its opening to its answer.

    ``opening`` comes from the winner, or from ``helper``, a mirror or a seat of an earlier stage. ``accepted`` is True
    once the opening was found to agree with the chain. From then on, it is stored without its payload. ``lacking`` is
    the digest of a blob that has not arrived. ``served`` is True once all blobs have arrived, and ``served_at`` is the
    chain second at which the daemon noticed that. ``unavailable`` is the reason why the place will not be recomputed.
    In a tier that compares states, ``kept`` are the end states that this validator computed, and ``compared`` is what
    followed from them.
    """

    opening: AuditOpening | None = None
    accepted: bool = False
    lacking: bytes = b""
    served: bool = False
    served_at: int = 0
    found: Recomputed | None = None
    unavailable: str = ""
    helper: str = ""
    kept: OpenedState | None = None
    compared: Compared | None = None

    @property
    def is_open(self) -> bool:
        """True as long as the place has no result and no reason why it is unavailable."""
        return self.found is None and not self.unavailable


@dataclass(frozen=True, slots=True)
class SealedAnswers:
    """The answers of a seat, with the salt of their commitment. Nothing that arrives later changes them.

    In a tier that compares states, they are not final before the states are compared, which the commitment allows.
    """

    salt: bytes
    answers: tuple[SeatAnswer, ...]
    leaves: tuple[ShownLeaf, ...]
    commitment: bytes
    agreed: bool  # all results agree with the chain
    is_final: bool = True


@dataclass(frozen=True, slots=True)
class LocalSeat:
    """The record of a seat of this validator."""

    duty: PanelDuty  # as this daemon first saw it
    # Chain seconds of the first look at the seat.
    begun: int
    # Chain seconds of the last look before the answers were final.
    looked: int
    places: tuple[SeatPlace, ...]  # in the order of the duty
    files: tuple[PayloadFile, ...] = ()  # the job's files, once they are known
    lacking: bytes = b""  # the file of the job that has not arrived
    sizes: Sizes | None = None  # set once the job loads
    away: int = 0  # chain seconds in which no process of this daemon ran
    # Mirrors and seats of earlier stages whose openings were wrong.
    unhelpful: tuple[str, ...] = ()
    sealed: SealedAnswers | None = None


# Deliveries that this validator witnesses; not stored, because their providers send them again


@dataclass(frozen=True, slots=True, order=True)
class WitnessKey:
    """The key of a delivery that this validator was drawn to witness."""

    share: ShareKey

    def __str__(self) -> str:
        key = self.share
        return f"witness/{key.order_id.hex()}/{key.leg}/{key.round}/{key.slot}/{key.issue}"


@dataclass(frozen=True, slots=True)
class LocalWitness:
    """The record of a delivery that this validator witnesses.

    ``offer`` is what its provider has sent, ``proof`` the message that states it, and ``passed`` is True once the
    validator of the share has the delivery from this one.
    """

    offer: DeliveryOffer | None = None
    proof: MsgWitness | None = None
    passed: bool = False


# Seats that judge evidence; not stored, because the evidence is on chain and can be verified again


@dataclass(frozen=True, slots=True, order=True)
class AttestKey:
    """The key of a seat of this validator that judges an account's evidence."""

    owner: str
    number: int

    def __str__(self) -> str:
        return f"attest/{self.owner}/{self.number}"


@dataclass(frozen=True, slots=True)
class LocalAttest:
    """The record of a seat that judges evidence: its answer, or None before the evidence is verified."""

    answer: AttestAnswer | None = None


# The upkeep, which does not depend on orders; not stored


@dataclass(frozen=True, slots=True)
class LocalUpkeep:
    """The record of the upkeep: whether the endpoint was seen on the chain, and when to clean next (chain seconds)."""

    published: bool = False
    clean_at: int = 0


# For the operator


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """The verdict of this validator on one share, for the operator and scripts.

    ``reason`` is a ShareReason; it is NONE if the share was accepted. ``segment`` is the segment in which the share
    failed. If it is the number of segments, the update failed; if it is -1, no segment failed.
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
        """The key of the share."""
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


def continued(local: LocalOrder, before: LocalOrder) -> LocalOrder:
    """Return the new record of a leg, with the payload, the excluded providers and the rounds of an earlier leg of the
    order.
    """
    return replace(
        local, payload=before.payload, excluded=before.excluded, failures=before.failures, left=before.rounds
    )


def accepted_works(current: LocalRound) -> tuple[SlotWork, ...]:
    """Return the latest issue of every slot, in slot order."""
    latest = {work.slot: work for work in current.works}
    return tuple(latest[slot] for slot in sorted(latest))


def exclude(local: LocalOrder, *providers: str) -> LocalOrder:
    """Return the record with these providers excluded: they get no more work in this order."""
    return replace(local, excluded=tuple(sorted({*local.excluded, *providers})))


def share_key(local: LocalOrder, current: LocalRound, work: SlotWork) -> ShareKey:
    """Return the key of a share."""
    return ShareKey(
        order_id=local.order_id,
        leg=local.leg,
        round=current.round,
        slot=work.slot,
        issue=work.issue,
    )


GLOBAL_FILE, LOCAL_FILE, JOB_FILE = "global.state", "local.state", "job.json"


def nests(paths: Sequence[str]) -> bool:
    """Return whether one path is also a folder of another path, so that these files cannot be in the same directory."""
    parts = [path.split("/") for path in paths]
    folders = {"/".join(names[:depth]) for names in parts for depth in range(1, len(names))}
    return not folders.isdisjoint(paths)
