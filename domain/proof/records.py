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
    """The state of a share."""

    COMMITTED = 1
    ACCEPTED = 2  # in a closed round
    REJECTED = 3  # its bond stays until its round is verified, or the leg is over
    RIGHT = 4  # rejected, but its commitment matches the accepted share
    WRONG = 5  # rejected, and its commitment differs from the accepted share


@dataclass(frozen=True, slots=True)
class ShareClaim:
    """A provider's signed statement about its work in a round: one hash that hides the work (protocol section 4.3)."""

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
    """The roots that a commitment hides; the validator sees them once it is on chain, and all when the round closes.

    A share is whole, or it ends where the job stopped. In that case ``segments`` counts the segments before the stop,
    and there is no update and no local state. Without a segment there is no trace either
    (:func:`pol.rules.stops.check_roots`).
    """

    trace_root: MaybeHash
    update_root: MaybeHash
    local_out: MaybeHash
    # FP32 bit patterns at the last boundary.
    metrics: Annotated[tuple[Bits, ...], Length(0, METRICS_MAX)]
    segments: Segment  # number of whole segments, n of the trace

    @property
    def is_whole(self) -> bool:
        """True if the share ends with an update, not where the job stopped."""
        return self.update_root != b""


@dataclass(frozen=True, slots=True)
class Share:
    """A committed share."""

    claim: ShareClaim
    signature: Signature
    local_in: Hash  # the chain's root of the slot's local state before the round
    work: Work
    bond: Money
    state: ShareState
    reason: Count  # ShareReason
    committed_at: Number
    committed_height: Number
    # Segments that public lots drew for its slot in this round; empty until its own seed is known.
    drawn: Annotated[tuple[Segment, ...], Many]
    roots: ShareRoots | None  # None until it is accepted


class AuditKind(IntEnum):
    """The kind of an audit place."""

    SEGMENT = 1  # segment 0..n-1 of a share
    UPDATE = 2  # the last "segment": update and local_out from boundaries 0 and n
    AGGREGATION = 3


@dataclass(frozen=True, slots=True)
class Place:
    """An audit place: a segment of a share, its update, or the aggregation of the round."""

    kind: AuditKind
    slot: Count
    issue: Count
    segment: Segment


@dataclass(frozen=True, slots=True)
class Round:
    """A closed round with the global state after it, or the place at which the job ``stopped``."""

    order_id: Hash
    leg: Count
    round: Count
    global_in: Hash
    next_root: MaybeHash
    ciphertext_root: MaybeHash  # root of the states handed over; empty if it is not a hand-over round
    shares: Annotated[tuple[ShareRef, ...], Length(0, SLOTS_MAX)]  # the accepted shares, in slot order
    work: Work
    closed_at: Number
    closed_height: Number
    window_ends: Number
    verified: bool
    void: bool  # its audits disagree or can no longer come: it is never paid
    stopped: Place | None = None

    @property
    def key(self) -> RoundKey:
        """The key of the round."""
        return RoundKey(self.order_id, self.leg, self.round)

    @property
    def share_keys(self) -> tuple[ShareKey, ...]:
        """The keys of the accepted shares, in slot order."""
        return tuple(self.key.share(ref.slot, ref.issue) for ref in self.shares)


@dataclass(frozen=True, slots=True)
class TraceLeaf:
    """A trace's leaf for a boundary 1..n. Boundary 0 is the initial state that the chain knows, and has no leaf.

    The path leads to the share's trace root. It is empty if all leaves of the trace are sent together.
    """

    index: Count
    step: Number
    boundary_root: Hash
    path: Annotated[tuple[Hash, ...], Length(0, PATH_MAX)] = ()


class Ruling(IntEnum):
    """A panel's decision about a place."""

    OPEN = 1
    RIGHT = 2  # the panel ruled for the chain's root
    WRONG = 3  # the panel ruled against the chain's root
    UNDECIDED = 4  # the panel could not decide


class AnswerKind(IntEnum):
    """The kind of a seat's answer for a place."""

    FINISHED = 1  # root and digest of what it recomputed
    STOPPED = 2  # the job has no next state there: not finite, or an index out of range
    UNAVAILABLE = 3  # a blob was not served in time


@dataclass(frozen=True, slots=True)
class Finding:
    """The content of an answer without its digest, which differs between stages."""

    kind: AnswerKind
    root: MaybeHash
    step: Number


@dataclass(frozen=True, slots=True)
class PanelPlace:
    """A place of a panel with its ruling and the answer found there.

    ``claim`` is the chain's root for the place. For a segment the chain has only the root of the trace, so the claim is
    empty until a seat shows the leaf of the boundary after it. If the job ``stops`` at the place according to the
    chain, there is no claim.
    """

    place: Place
    claim: MaybeHash
    ruling: Ruling
    stage: Count  # the stage that decided it, 0 while it is open
    found: Finding | None
    stops: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """Validators who did not serve a closed round and recompute places of it, stage after stage, until all are decided.

    A stage begins with its seed. Its seats commit until ``commits_end``, then reveal until ``reveals_end``; each part
    ends early when all seats have done so. ``wanted`` is the number of seats of the stage whose seed is not known yet.
    """

    order_id: Hash
    leg: Count
    round: Count
    places: Annotated[tuple[PanelPlace, ...], Length(0, ANSWERS_MAX)]  # empty until the first seed is known
    stage: Count  # 0 until its first seed is known
    seed: MaybeHash  # seed of the stage, from which its digests are made
    commits_end: Number
    reveals_end: Number
    is_last: bool  # the stage seats all validators who are left
    is_open: bool  # the stage accepts commitments or answers
    wanted: Count
    seats: Count  # number of seats in all stages
    first_seat: Count  # number of the stage's first seat
    committed: Count  # number of the stage's seats that committed
    revealed: Count  # number of the stage's seats that revealed
    is_settled: bool  # the panel is over and its seats are paid
    eligible: Count  # validators who had a seat or could have had one when the stage began
    stake: Money  # total stake of these validators
    load: Count  # audit room it occupies (ten-thousandths of a validator); 0 at stage 0: it waits for room

    @property
    def key(self) -> RoundKey:
        """The key of the round that is audited."""
        return RoundKey(self.order_id, self.leg, self.round)

    @property
    def undecided(self) -> tuple[int, ...]:
        """The numbers of the open places."""
        return tuple(at for at, place in enumerate(self.places) if place.ruling is Ruling.OPEN)

    @property
    def is_decided(self) -> bool:
        """True if every place has a ruling."""
        return self.stage > 0 and not self.undecided


@dataclass(frozen=True, slots=True)
class SeatAnswer:
    """A seat's answer for one place. A seat is silent on the places that it leaves out.

    ``root`` is the recomputed root; for ``UNAVAILABLE`` it is the hash of the blob that was not served, if known.
    ``step`` is the inner step at which the job stopped, 0 for an aggregation. ``digest`` covers the recomputed values
    (:func:`pol.rules.tiers.answers.answer_digest`); it is empty for ``UNAVAILABLE``.
    """

    place: Annotated[int, Range(0, ANSWERS_MAX - 1)]  # its number in the panel
    kind: AnswerKind
    root: MaybeHash
    digest: MaybeHash
    step: Number


@dataclass(frozen=True, slots=True)
class ShownLeaf:
    """The accepted share's leaf after a segment; the chain itself has only the root of the trace."""

    place: Annotated[int, Range(0, ANSWERS_MAX - 1)]
    leaf: TraceLeaf


@dataclass(frozen=True, slots=True)
class PanelSeat:
    """A validator drawn for one stage of a panel, with its stake in that block and its answers."""

    order_id: Hash
    leg: Count
    round: Count
    number: Count
    validator: Address
    stage: Count
    stake: Money
    places: Annotated[tuple[Count, ...], Length(0, ANSWERS_MAX)]  # the places that it has to recompute
    commitment: MaybeHash
    answers: Annotated[tuple[SeatAnswer, ...], Length(0, ANSWERS_MAX)]
    revealed: bool

    @property
    def key(self) -> RoundKey:
        """The key of the round that is audited."""
        return RoundKey(self.order_id, self.leg, self.round)

    def answer(self, place: int) -> SeatAnswer | None:
        """Return the seat's answer for a place, or None if it was silent."""
        return next((answer for answer in self.answers if answer.place == place), None)
