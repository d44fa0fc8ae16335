"""Records that the proof component keeps: frozen dataclasses of integers, strings, bytes and tuples."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from domain.bounds import (
    Address,
    Bits,
    Count,
    Hash,
    Length,
    Many,
    MaybeHash,
    Money,
    Number,
    Range,
    Segment,
    Signature,
    Work,
)
from domain.keys import RoundKey, ShareKey, ShareRef
from domain.limits import ANSWERS_MAX, METRICS_MAX, PATH_MAX, SLOTS_MAX


class ShareState(IntEnum):
    """What became of a share."""

    COMMITTED = 1
    ACCEPTED = 2  # in a closed round
    REJECTED = 3  # its bond stays until its round is verified, or the leg is over
    RIGHT = 4  # rejected, and committed to what was accepted
    WRONG = 5  # rejected, and committed to something else


@dataclass(frozen=True, slots=True)
class ShareClaim:
    """What a provider signs about its work in a round: one hash, which shows nothing of it (protocol section 4.3)."""

    order_id: Hash
    leg: Count
    round: Count
    slot: Count
    issue: Count
    provider: Address
    commitment: Hash  # pol.rules.commitment.share_commitment

    @property
    def key(self) -> ShareKey:
        """The share that the claim is about."""
        return ShareKey(order_id=self.order_id, leg=self.leg, round=self.round, slot=self.slot, issue=self.issue)


@dataclass(frozen=True, slots=True)
class ShareRoots:
    """What a commitment hides: shown to the validator once it is on chain, and to everybody when the round closes.

    A share is whole, or it ends where the job stopped: then ``segments`` are those before that, there is no update and
    no local state, and without a segment there is no trace either (:func:`pol.rules.stops.check_roots`).
    """

    trace_root: MaybeHash
    update_root: MaybeHash
    local_out: MaybeHash
    # FP32 bit patterns, of the last boundary
    metrics: Annotated[tuple[Bits, ...], Length(0, METRICS_MAX)]
    segments: Segment  # whole ones, n of the trace

    @property
    def is_whole(self) -> bool:
        """Whether the share ends in an update, and not where the job stopped."""
        return self.update_root != b""


@dataclass(frozen=True, slots=True)
class Share:
    """A committed share."""

    claim: ShareClaim
    signature: Signature
    local_in: Hash  # the slot's local state root, by the chain
    work: Work
    bond: Money
    state: ShareState
    reason: Count  # ShareReason
    committed_at: Number
    committed_height: Number
    # segments of the public lots of its slot in this round; empty until its own seed is known
    drawn: Annotated[tuple[Segment, ...], Many]
    roots: ShareRoots | None  # once it is accepted


class AuditKind(IntEnum):
    """What a place of an audit is."""

    SEGMENT = 1  # segment 0..n-1 of a share
    UPDATE = 2  # the last "segment": update and local_out from boundaries 0 and n
    AGGREGATION = 3


@dataclass(frozen=True, slots=True)
class Place:
    """What an audit names: a segment of a share, its update, or the aggregation of the round."""

    kind: AuditKind
    slot: Count
    issue: Count
    segment: Segment


@dataclass(frozen=True, slots=True)
class Round:
    """A closed round: with the global state that it leaves, or the place at which the job ``stopped``."""

    order_id: Hash
    leg: Count
    round: Count
    global_in: Hash
    next_root: MaybeHash
    ciphertext_root: MaybeHash  # of the states handed over, in hand-over rounds
    shares: Annotated[tuple[ShareRef, ...], Length(0, SLOTS_MAX)]  # accepted, in slot order
    work: Work
    closed_at: Number
    closed_height: Number
    window_ends: Number
    verified: bool
    void: bool  # its audits disagree or cannot come any more: never paid
    stopped: Place | None = None

    @property
    def key(self) -> RoundKey:
        """Which round it is."""
        return RoundKey(self.order_id, self.leg, self.round)

    @property
    def share_keys(self) -> tuple[ShareKey, ...]:
        """The accepted shares, in slot order."""
        return tuple(self.key.share(ref.slot, ref.issue) for ref in self.shares)


@dataclass(frozen=True, slots=True)
class TraceLeaf:
    """What a trace states of boundary 1..n; boundary 0 is the opening that the chain knows, and has no leaf.

    The path leads to the share's trace root. Without one where all leaves of the trace are together.
    """

    index: Count
    step: Number
    boundary_root: Hash
    path: Annotated[tuple[Hash, ...], Length(0, PATH_MAX)] = ()


class Ruling(IntEnum):
    """What a panel says of a place."""

    OPEN = 1
    RIGHT = 2  # for the chain's root
    WRONG = 3  # against it
    UNDECIDED = 4  # nobody can tell


class AnswerKind(IntEnum):
    """What a seat found at a place."""

    FINISHED = 1  # root and digest of what it recomputed
    STOPPED = 2  # the job has no next state there: not finite, or an index out of range
    UNAVAILABLE = 3  # a blob was not served in time


@dataclass(frozen=True, slots=True)
class Finding:
    """What answers say of a place apart from the digest, which is another one in each stage."""

    kind: AnswerKind
    root: MaybeHash
    step: Number


@dataclass(frozen=True, slots=True)
class PanelPlace:
    """A place of a panel with its ruling, and what was found there.

    ``claim`` is the root that the chain has for it. Of a segment the chain has only the root of the trace, so its claim
    is empty until a seat shows the leaf of the boundary behind it. Where the chain has it that the job ``stops`` there
    is none.
    """

    place: Place
    claim: MaybeHash
    ruling: Ruling
    stage: Count  # that decided it, 0 while it is open
    found: Finding | None
    stops: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """Strangers who recompute places of a closed round, stage after stage, until each place is decided.

    A stage begins with its seed. Until ``commits_end`` its seats commit, then until ``reveals_end`` they reveal; either
    ends early when all have. ``wanted`` are the seats of the stage whose seed is waited for.
    """

    order_id: Hash
    leg: Count
    round: Count
    places: Annotated[tuple[PanelPlace, ...], Length(0, ANSWERS_MAX)]  # none until then
    stage: Count  # 0 until its first seed is known
    seed: MaybeHash  # of the stage; digests are made with it
    commits_end: Number
    reveals_end: Number
    is_last: bool  # the stage seats everybody who is left
    is_open: bool  # the stage takes commitments or answers
    wanted: Count
    seats: Count  # of all stages
    first_seat: Count  # number of the stage's first one
    committed: Count  # of the stage
    revealed: Count  # of the stage
    is_settled: bool  # its seats are paid, and it is over
    eligible: Count  # validators who have or could have a seat, when the stage began
    stake: Money  # of these
    load: Count  # audit room that it takes (ten-thousandths of a validator); with none at stage 0 it waits for it

    @property
    def key(self) -> RoundKey:
        """The round that it is about."""
        return RoundKey(self.order_id, self.leg, self.round)

    @property
    def undecided(self) -> tuple[int, ...]:
        """The numbers of the places that are open."""
        return tuple(at for at, place in enumerate(self.places) if place.ruling is Ruling.OPEN)

    @property
    def is_decided(self) -> bool:
        """Whether every place has its ruling."""
        return self.stage > 0 and not self.undecided


@dataclass(frozen=True, slots=True)
class SeatAnswer:
    """What a seat says of one place. A place that it leaves out is one on which it was silent.

    ``root`` is the recomputed root, or for ``UNAVAILABLE`` the blob that was not served where its hash is known.
    ``step`` is the inner step of the job that stopped, 0 for an aggregation. ``digest`` covers what was recomputed
    (:func:`pol.rules.tiers.answers.answer_digest`); none for ``UNAVAILABLE``.
    """

    place: Annotated[int, Range(0, ANSWERS_MAX - 1)]  # its number in the panel
    kind: AnswerKind
    root: MaybeHash
    digest: MaybeHash
    step: Number


@dataclass(frozen=True, slots=True)
class ShownLeaf:
    """The accepted share's leaf behind a segment; the chain holds only the root of the trace."""

    place: Annotated[int, Range(0, ANSWERS_MAX - 1)]
    leaf: TraceLeaf


@dataclass(frozen=True, slots=True)
class PanelSeat:
    """A validator who was drawn for one stage of a panel, with its stake in that block, and what it said."""

    order_id: Hash
    leg: Count
    round: Count
    number: Count
    validator: Address
    stage: Count
    stake: Money
    places: Annotated[tuple[Count, ...], Length(0, ANSWERS_MAX)]  # that it is asked about
    commitment: MaybeHash
    answers: Annotated[tuple[SeatAnswer, ...], Length(0, ANSWERS_MAX)]
    revealed: bool

    @property
    def key(self) -> RoundKey:
        """The round that the panel is about."""
        return RoundKey(self.order_id, self.leg, self.round)

    def answer(self, place: int) -> SeatAnswer | None:
        """Return what it said of a place, None where it was silent."""
        return next((answer for answer in self.answers if answer.place == place), None)
