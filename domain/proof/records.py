"""Records that the proof component keeps: frozen dataclasses of integers, strings, bytes and tuples."""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Annotated

from domain.bounds import (
    Address,
    Bits,
    Bps,
    Count,
    Hash,
    Length,
    Many,
    MaybeAddress,
    MaybeHash,
    Money,
    Multiple,
    Number,
    PublicKey,
    Range,
    Segment,
    Signature,
    Size,
    Work,
)
from domain.keys import PanelKey, RoundKey, ShareKey, ShareRef
from domain.limits import (
    ANSWERS_MAX,
    CHUNK_TAG_BYTES,
    METRICS_MAX,
    MIRRORS_MAX,
    PATH_MAX,
    RESULT_CHUNKS_MAX,
    SEATS_MAX,
    SLOTS_MAX,
    STAGES_MAX,
    STATE_CHUNK_BYTES,
)


class ShareState(IntEnum):
    """The state of a share."""

    COMMITTED = 1
    ACCEPTED = 2  # the share is part of its round, which is closed when each slot has such a share
    REJECTED = 3  # the bond stays locked until the round is verified or the leg is over
    RIGHT = 4  # rejected, but its commitment matches the accepted share
    WRONG = 5  # rejected, and its commitment differs from the accepted share
    TAKEN = 6  # its leg failed, and the next leg has the share now


@dataclass(frozen=True, slots=True)
class ShareClaim:
    """A provider's signed claim of a share. It contains one hash that hides the work (protocol section 4.3).

    ``multiple`` and ``cover`` are those of the validator's task.
    """

    order_id: Hash
    leg: Count
    round: Count
    slot: Count
    issue: Count
    provider: Address
    commitment: Hash  # made by pol.rules.commitment.share_commitment
    multiple: Multiple = 1  # the share's bond, as a multiple of the price of its work
    # Part of the leg's job bond that pays the share if it is right and becomes void by another provider's fault.
    cover: Bps = 0

    @property
    def key(self) -> ShareKey:
        """The key of the share that the claim is about."""
        return ShareKey(order_id=self.order_id, leg=self.leg, round=self.round, slot=self.slot, issue=self.issue)


@dataclass(frozen=True, slots=True)
class ShareRoots:
    """The roots that a commitment hides.

    The validator sees these roots once the commitment is on chain. Everyone sees them when the round closes.

    A share is whole, or it ends where the job stopped. A share that stopped has no update and no local state, and
    ``segments`` counts its segments before the stop. If this number is 0, the share has no trace either. ``steps``
    counts the steps after these segments, before the stop (:func:`pol.rules.stops.check_roots`).
    """

    trace_root: MaybeHash
    update_root: MaybeHash
    local_out: MaybeHash
    # FP32 bit patterns at the last boundary.
    metrics: Annotated[tuple[Bits, ...], Length(0, METRICS_MAX)]
    segments: Segment  # number of whole segments; n for a trace with n segments
    # Number of whole steps of the segment in which the share stopped. 0 if the share did not stop inside a segment.
    steps: Number = 0

    @property
    def is_whole(self) -> bool:
        """True if the share ends with an update, and False if it ends where the job stopped."""
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
    # Segments that public lots drew for this slot and round.
    drawn: Annotated[tuple[Segment, ...], Many]
    roots: ShareRoots | None  # None until it is accepted
    is_drawn: bool = False  # the share's own lot is drawn
    # The validator had the content of the share: it showed this itself, for example by accepting the share.
    is_received: bool = False
    stand: Count = 0  # number of the dispute in which the share's provider stands for it; 0 if it does not
    # Segment in which the validator that rejected the share as a mismatch found it to be wrong; n for its end.
    wrong_at: Segment = 0
    # Number of the leg that took the share over from the leg that its commitment names; 0 if none did.
    taken_by: Count = 0
    # Issue number that the chain gave to the share, because another share has the issue of its task; 0 if none has.
    held_as: Count = 0
    # It was committed when roots of this round could be public, because all replicas of the order had committed.
    late: bool = False

    @property
    def first_key(self) -> ShareKey:
        """The key with which the share came on the chain. It differs from that of the task if the share is held."""
        key = self.claim.key
        return replace(key, issue=self.held_as) if self.held_as else key

    @property
    def key(self) -> ShareKey:
        """The key of the share on the chain. The claim names the leg and the issue of the provider's task."""
        key = self.first_key
        return replace(key, leg=self.taken_by) if self.taken_by else key


@dataclass(frozen=True, slots=True)
class DeliveryManifest:
    """A provider's description of the encrypted delivery of a share (:mod:`pol.rules.delivery`).

    ``root`` is the root over the encrypted pieces, and ``key_hash`` the hash of the key that decrypts them. The share
    has ``segments`` whole segments and an update of ``update_chunks`` chunks, or 0 if the share ends where the job
    stopped. The states at every ``every``-th boundary are delivered; 0 means only those at the last boundary.
    """

    root: Hash
    key_hash: Hash
    segments: Segment
    update_chunks: Annotated[int, Range(0, RESULT_CHUNKS_MAX)]
    every: Segment


@dataclass(frozen=True, slots=True)
class ShownDelivery:
    """The delivery of a share, as far as a party has shown it to the chain.

    If the validator posted a receipt, the provider must show the key before ``show_by`` on the chain clock; otherwise
    ``show_by`` is 0. ``key`` and ``roots`` are empty until the provider shows the key. If ``is_wrong``, the validator
    has shown a piece that is not what the commitment promises.
    """

    order_id: Hash
    leg: Count
    round: Count
    slot: Count
    issue: Count
    manifest: DeliveryManifest
    show_by: Number = 0
    key: MaybeHash = b""
    roots: ShareRoots | None = None
    is_wrong: bool = False

    @property
    def share(self) -> ShareKey:
        """The key of the share."""
        return ShareKey(order_id=self.order_id, leg=self.leg, round=self.round, slot=self.slot, issue=self.issue)


@dataclass(frozen=True, slots=True)
class ReceiptAsk:
    """A provider's request for a receipt of witnesses, because its validator signs none for the delivery of its share.

    ``witnesses`` are the validators that were drawn, and ``signed`` those of them that have stated that the ciphertext
    arrived. They can do so until ``until`` on the chain clock, which is 0 before the draw. ``seed`` draws a piece of
    the delivery for each witness. ``paid`` is what the provider has paid to the witnesses (uassay).
    """

    order_id: Hash
    leg: Count
    round: Count
    slot: Count
    issue: Count
    manifest: DeliveryManifest
    seed: MaybeHash = b""
    until: Number = 0
    witnesses: Annotated[tuple[Address, ...], Length(0, SEATS_MAX)] = ()
    signed: Annotated[tuple[Address, ...], Length(0, SEATS_MAX)] = ()
    paid: Money = 0

    @property
    def share(self) -> ShareKey:
        """The key of the share."""
        return ShareKey(order_id=self.order_id, leg=self.leg, round=self.round, slot=self.slot, issue=self.issue)


@dataclass(frozen=True, slots=True)
class ShownPiece:
    """An encrypted piece of a delivery, with the path from its leaf to the root of the delivery."""

    number: Bits
    ciphertext: Annotated[bytes, Size(0, STATE_CHUNK_BYTES + CHUNK_TAG_BYTES)]
    path: Annotated[tuple[Hash, ...], Length(0, PATH_MAX)]


@dataclass(frozen=True, slots=True)
class WantedTrace:
    """A trace that a leg's validator has to show before ``until`` (chain clock): that of its accepted share in ``slot``
    of a closed round, in which replicas of the order differ.
    """

    leg: Count
    round: Count
    slot: Count
    until: Number


class AuditKind(IntEnum):
    """The kind of an audit place."""

    SEGMENT = 1  # segment 0..n-1 of a share
    UPDATE = 2  # the last "segment": it computes the update and local_out from boundaries 0 and n
    AGGREGATION = 3
    HANDOVER = 4  # one encrypted chunk of the states that a hand-over round leaves
    STATES = 5  # all states that a verified round left, from which the next leg starts
    RESULT = 6  # all encrypted chunks of the states that a verified hand-over round left


@dataclass(frozen=True, slots=True)
class AuditPlace:
    """A place that can be audited: a segment of a share, its update, the aggregation of the round, one encrypted chunk
    of a hand-over round, or the states that a verified round left.

    ``chunk`` is the number of the encrypted chunk (:class:`pol.rules.handover.ChunkLayout`), and 0 for other places.
    """

    kind: AuditKind
    slot: Count
    issue: Count
    segment: Segment
    chunk: Count = 0


class RoundState(IntEnum):
    """The state of a closed round."""

    CLOSED = 1
    VERIFIED = 2
    VOID = 3  # it will never be verified or paid


@dataclass(frozen=True, slots=True)
class Round:
    """A closed round, with the root of the global state after it, or with the place at which the job ``stopped``."""

    order_id: Hash
    leg: Count
    round: Count
    global_in: Hash
    next_root: MaybeHash
    ciphertext_root: MaybeHash  # root of the states that were handed over; empty if the round is not a hand-over round
    shares: Annotated[tuple[ShareRef, ...], Length(0, SLOTS_MAX)]  # the accepted shares, in slot order
    work: Work
    closed_at: Number
    closed_height: Number
    window_ends: Number
    verified: bool
    void: bool  # the round will never be verified or paid
    stopped: AuditPlace | None = None
    challenges_end: Number = 0  # time until which the round can be challenged (chain clock), at least `window_ends`
    void_at: Number = 0  # time at which the round became void (chain clock); 0 before
    by_validator: bool = False  # the round is void by the validator's fault
    mirrors: Annotated[tuple[Address, ...], Length(0, MIRRORS_MAX)] = ()  # validators that may also serve its data
    time_left: Number = 0  # seconds from the close of the round to the order's deadline
    cover: Bps = 0  # the highest cover of its shares
    late: bool = False  # one of its shares is late, so the round confirms no round of another replica

    @property
    def key(self) -> RoundKey:
        """The key of the round."""
        return RoundKey(self.order_id, self.leg, self.round)

    @property
    def share_keys(self) -> tuple[ShareKey, ...]:
        """The keys of the accepted shares, in slot order."""
        return tuple(self.key.share(ref.slot, ref.issue) for ref in self.shares)

    @property
    def state(self) -> RoundState:
        """The state that ``verified`` and ``void`` stand for."""
        if self.void:
            return RoundState.VOID
        return RoundState.VERIFIED if self.verified else RoundState.CLOSED

    def enter(self, state: RoundState) -> "Round":
        """Return the round in another state."""
        return replace(self, verified=state is RoundState.VERIFIED, void=state is RoundState.VOID)


@dataclass(frozen=True, slots=True)
class TraceLeaf:
    """The leaf of a trace for a boundary 1..n. Boundary 0 has no leaf, because the chain knows the initial state.

    The path leads to the share's trace root. If all leaves of the trace are sent together, the path is empty.
    """

    index: Count
    step: Number
    boundary_root: Hash
    path: Annotated[tuple[Hash, ...], Length(0, PATH_MAX)] = ()


@dataclass(frozen=True, slots=True)
class SealedLeaf:
    """The leaf of an encrypted chunk: its point R_i, and the length and hash of its ciphertext.

    The point is given as 33 bytes, the size of a compressed point. These bytes need not be a point of the curve.
    """

    point: Annotated[bytes, Size(33, 33)]
    length: Bits
    sha256: Hash


@dataclass(frozen=True, slots=True)
class OpenedChunk:
    """An encrypted chunk with the point S_i that opens it, and the leaf of the state's tree at the chunk's place.

    ``proof`` (BIP-374) shows that S_i is R_i times the secret of the order's key. ``path`` leads from ``state_leaf`` to
    the root of the state.
    """

    ciphertext: Annotated[bytes, Size(0, STATE_CHUNK_BYTES + CHUNK_TAG_BYTES)]
    shared: PublicKey
    proof: Signature
    state_leaf: Hash
    path: Annotated[tuple[Hash, ...], Length(0, PATH_MAX)]


class Ruling(IntEnum):
    """A panel's decision about a place."""

    OPEN = 1
    RIGHT = 2  # the panel ruled for the chain's root
    WRONG = 3  # the panel ruled against the chain's root
    UNDECIDED = 4  # the panel could not decide


class AnswerKind(IntEnum):
    """The kind of a seat's answer for a place."""

    FINISHED = 1  # the answer has root and digest of the recomputed values
    STOPPED = 2  # the job has no next state there: a value is not finite, or an index is out of range
    UNAVAILABLE = 3  # a blob that is needed was not served in time
    WITHIN = 4  # the provider's end state is within the thresholds of the seat's own; the digest is the own root
    OUTSIDE = 5  # the provider's end state is outside of them; the digest is the own root


@dataclass(frozen=True, slots=True)
class Finding:
    """The content of an answer without the digest. Digests are left out because they differ between stages."""

    kind: AnswerKind
    root: MaybeHash
    step: Number


@dataclass(frozen=True, slots=True)
class PanelPlace:
    """A place of a panel, with its ruling and the answer that the panel found.

    ``claim`` is the chain's root for the place. If the place is a segment, the chain has only the root of the trace.
    Until a seat shows the leaf of the boundary after the segment, the claim is empty. If, according to the chain, the
    job ``stops`` at the place, there is no claim. All places of one ``group`` have the same seats. During an appeal, a
    place that was found wrong has no ruling, but keeps the stage and the finding of its first ruling.

    If a vote on a slash follows, the ruling that made the round void stays beside the vote's: ``first_stage`` is the
    stage that found the place wrong, and ``first_finding`` is what it found.
    """

    place: AuditPlace
    claim: MaybeHash
    ruling: Ruling
    stage: Count  # the stage that decided the place; 0 while it is undecided
    finding: Finding | None
    stops: bool = False
    group: Count = 0
    first_stage: Count = 0  # 0 without a vote on a slash about this place
    first_finding: Finding | None = None


class PanelState(IntEnum):
    """The state of a panel."""

    WAITING = 1  # for the lot that decides whether it begins, or for audit room
    DRAWING = 2  # waits for the seed of its next stage
    OPEN = 3  # the seats of a stage commit and reveal
    DECIDED = 4  # every place has a ruling, or a ruling against the chain can be appealed
    SETTLED = 5  # it is over and its seats are paid


class Review(IntEnum):
    """The state of the draw of a further seat that reviews the states of the seats of a decided stage."""

    NONE = 1  # there is no such draw
    WAITS = 2  # the seed of the next stage says whether the stage is reviewed
    SPARED = 3  # the stage is not reviewed, and its places are ruled next


@dataclass(frozen=True, slots=True)
class Panel:
    """The validators that recompute places of a closed round, stage after stage, until all places are decided.

    One panel audits the round. Each dispute about the round has a panel of its own.

    A stage begins with its seed. Its seats commit until ``commits_end``, and then reveal until ``reveals_end``. The
    time to commit ends early when all seats have committed. The time to reveal ends early when all seats that committed
    have revealed. As long as the seed of the next stage is not known, ``wanted`` has the number of that stage's seats
    for each group of places. While the panel waits for room, ``wanted`` is empty. If ``repeats`` is true, the next
    stage has the same seats as this one.
    """

    order_id: Hash
    leg: Count
    round: Count
    places: Annotated[tuple[PanelPlace, ...], Length(0, ANSWERS_MAX)]  # empty until the first seed is known
    stage: Count  # 0 until the first seed is known
    seed: MaybeHash  # seed of the stage, which is part of each digest of the stage
    commits_end: Number
    reveals_end: Number
    is_last: bool  # the stage has a seat for every eligible validator that is left
    is_open: bool  # the stage accepts commitments or answers
    wanted: Annotated[tuple[Count, ...], Length(0, ANSWERS_MAX)]
    seats: Count  # number of seats in all stages
    first_seat: Count  # number of the stage's first seat
    committed: Count  # number of the stage's seats that committed
    revealed: Count  # number of the stage's seats that revealed
    is_settled: bool  # the panel is over and its seats are paid
    eligible: Count  # number of validators that had a seat when the stage began, or could have had one
    stake: Money  # total stake of these validators
    load: Count  # number of seats at work, which occupy audit room; 0 at stage 0, while the panel waits for room
    repeats: bool = False
    was_repeated: bool = False  # a stage was repeated
    last_next: bool = False  # the next stage is the last one
    # The round is void, and the last stage only decides whether its validator is slashed (the vote for a slash).
    for_slash: bool = False
    slash: Money = 0  # part of the validator's stake (uassay) that was taken, or that is reserved during the vote
    dispute: Count = 0  # number of the dispute that the panel decides; 0 for the panel that audits the round
    standing: ShareRef | None = None  # the share whose provider stands for it; the panel recomputes only this share
    # The party that asked whether bytes can be fetched: the validator of the next leg, for the states that the round
    # left, or the consumer, for its result. Empty for other panels.
    asker: MaybeAddress = ""
    appeal_until: Number = 0  # time until which its ruling against the chain can be appealed; 0 without such a ruling
    appellant: MaybeAddress = ""  # who appealed its ruling, so that all eligible validators decide again
    earlier_seeds: Annotated[
        tuple[Hash, ...], Length(0, STAGES_MAX)
    ] = ()  # seeds of the stages before, the first first
    review: Review = Review.NONE

    @property
    def key(self) -> PanelKey:
        """The key of the panel."""
        return RoundKey(self.order_id, self.leg, self.round).panel(self.dispute)

    @property
    def round_key(self) -> RoundKey:
        """The key of the round that the panel audits."""
        return RoundKey(self.order_id, self.leg, self.round)

    @property
    def open_groups(self) -> dict[int, tuple[int, ...]]:
        """The numbers of the places without a ruling, by group."""
        groups: dict[int, tuple[int, ...]] = {}
        for at in self.undecided:
            group = self.places[at].group
            groups[group] = (*groups.get(group, ()), at)
        return groups

    @property
    def undecided(self) -> tuple[int, ...]:
        """The numbers of the places without a ruling."""
        return tuple(at for at, place in enumerate(self.places) if place.ruling is Ruling.OPEN)

    @property
    def votes_on_slash(self) -> bool:
        """True while the last stage decides only whether the validator of the void round is slashed."""
        return self.for_slash and not self.is_settled

    @property
    def awaits_appeal(self) -> bool:
        """True while the ruling of the panel has no effect yet, because it can be appealed."""
        return self.appeal_until > 0 and not (self.appellant or self.is_settled or self.for_slash)

    @property
    def is_decided(self) -> bool:
        """True if every place has a ruling."""
        return self.stage > 0 and not self.undecided

    @property
    def state(self) -> PanelState:
        """The state that the fields stand for."""
        if self.is_settled:
            return PanelState.SETTLED
        if self.is_open:
            return PanelState.OPEN
        if self.is_decided or self.awaits_appeal:
            return PanelState.DECIDED
        return PanelState.DRAWING if self.wanted else PanelState.WAITING


@dataclass(frozen=True, slots=True)
class SeatAnswer:
    """A seat's answer for one place. If a seat has no answer for one of its places, it is silent about that place.

    ``root`` is the recomputed root; for ``UNAVAILABLE`` it is the hash of the blob that was not served, if known.
    ``step`` is the inner step at which the job stopped, 0 for an aggregation. ``digest`` covers the recomputed values
    (:func:`pol.rules.tiers.answers.answer_digests`) with the seed of the seat's stage. ``earlier`` has the digests with
    the seeds of the earlier stages, which show whose digests were right there. Both are empty for ``UNAVAILABLE``.

    In a tier that compares states, ``digest`` is the root of the seat's own end state, even if the provider's was
    ``UNAVAILABLE``. Then ``earlier`` has remarks about seats of earlier stages (:mod:`pol.rules.tiers.remarks`).
    """

    place: Annotated[int, Range(0, ANSWERS_MAX - 1)]  # the place's number in the panel
    kind: AnswerKind
    root: MaybeHash
    digest: MaybeHash
    step: Number
    earlier: Annotated[tuple[Hash, ...], Length(0, STAGES_MAX)] = ()


@dataclass(frozen=True, slots=True)
class ShownLeaf:
    """The leaf of an accepted share after one of its segments. The chain itself has only the root of the trace."""

    place: Annotated[int, Range(0, ANSWERS_MAX - 1)]
    leaf: TraceLeaf


@dataclass(frozen=True, slots=True)
class PanelSeat:
    """A validator that was drawn for one stage of a panel, with its answers, and with its stake at the time of the
    draw.
    """

    order_id: Hash
    leg: Count
    round: Count
    number: Count
    validator: Address
    stage: Count
    stake: Money
    places: Annotated[tuple[Count, ...], Length(0, ANSWERS_MAX)]  # numbers of the places that the seat has to recompute
    commitment: MaybeHash
    answers: Annotated[tuple[SeatAnswer, ...], Length(0, ANSWERS_MAX)]
    revealed: bool
    cut: Money = 0  # part of its stake that the seat lost
    dispute: Count = 0  # as in the panel

    @property
    def key(self) -> PanelKey:
        """The key of the seat's panel."""
        return RoundKey(self.order_id, self.leg, self.round).panel(self.dispute)

    def answer(self, place: int) -> SeatAnswer | None:
        """Return the seat's answer for a place, or None if it was silent about that place."""
        return next((answer for answer in self.answers if answer.place == place), None)
