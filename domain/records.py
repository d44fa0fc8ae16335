"""Records of the state: frozen dataclasses of integers, strings, bytes and tuples, and nothing else.

Addresses are bech32 strings, checked where they enter. Times are seconds on the chain clock. Money is ``uassay``,
work is FLOPs, prices are ``uassay`` per PFLOP (10^15 FLOPs). ``protocol.md`` section 2 says what each record is for.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from domain.amount import MONEY_MAX
from domain.bounds import (
    Address,
    Bits,
    Bps,
    ByteCount,
    ConsensusAddress,
    ConsensusKey,
    Count,
    Denom,
    Hash,
    Length,
    Many,
    MaybeAddress,
    MaybeHash,
    MaybeName,
    MaybePublicKey,
    Money,
    Name,
    Number,
    PositiveMoney,
    PositiveWork,
    ProvidersBps,
    PublicKey,
    Range,
    Segment,
    Signature,
    Size,
    Slot,
    Tags,
    Text,
    Work,
)
from domain.errors import INVALID_COINS
from domain.limits import (
    ANSWERS_MAX,
    CERTIFICATE_BYTES_MAX,
    METRICS_MAX,
    PATH_MAX,
    PAYLOAD_BYTES_MAX,
    RESULT_CHUNKS_MAX,
    ROUNDS_MAX,
    SAMPLES_MAX,
    SLOTS_MAX,
)
from domain.params import OrderParams

SampleCount = Annotated[int, Range(1, SAMPLES_MAX)]
"""Samples of a job, or steps: never more than there are samples."""
Promise = Annotated[int, Range(1, 2**63 - 1)]
"""FLOP/s or bytes/s that a validator promises as an auditor; every halving leaves something."""
ChunkCount = Annotated[int, Range(1, RESULT_CHUNKS_MAX)]
"""Leaves of a state's tree."""
Histogram = Annotated[tuple[tuple[Name, Number], ...], Many]
"""Number of bids that fail each condition, in the order of the table of conditions, without zeros.

A bid counts under each condition that it fails. An empty histogram means that no bid stands.
"""
"""How many bids failed on which condition."""


@dataclass(frozen=True, slots=True)
class Coin:
    """An amount of a denomination."""

    denom: Denom
    amount: Annotated[int, Range(0, MONEY_MAX, INVALID_COINS)]


@dataclass(frozen=True, slots=True)
class Account:
    """Authentication data of an address; balances have keys of their own."""

    address: Address
    number: Number
    sequence: Number
    pub_key: MaybePublicKey  # 33 bytes compressed secp256k1, empty until the account has signed


@dataclass(frozen=True, slots=True)
class BeaconKey:
    """A key whose unique signature begins its owner's proposals, from a height on."""

    key: PublicKey
    counts_from: Number


@dataclass(frozen=True, slots=True)
class Validator:
    """An operator with a consensus key and a stake."""

    operator: Address
    moniker: Text
    cons_key: ConsensusKey  # ed25519, 32 bytes
    cons_address: ConsensusAddress  # SHA-256(cons_key)[:20]
    stake: Money
    jailed: bool
    endpoint: Text  # host:port of its cluster service; empty until SetEndpoint
    # DER of the certificate that clients trust as their only root
    certificate: Annotated[bytes, Size(0, CERTIFICATE_BYTES_MAX)]
    orders_settled: Count
    attempts_failed: Count
    audits_answered: Count  # seats whose every answer was the ruling, or nobody can tell
    audits_missed: Count  # stages in which it was silent
    # By height: the one that counts, and one that will.
    beacon_keys: Annotated[tuple[BeaconKey, ...], Length(0, 2)] = ()
    # What it promises as an auditor: FLOP/s of exact work, and bytes/s; halved at each stage in which it is silent.
    audit_speed: Promise = 1
    audit_rate: Promise = 1
    halved_at: Number = 0  # chain clock, 0 before the first time

    def beacon_key(self, height: int) -> bytes:
        """Return the key that counts in block ``height``, empty where none does."""
        counting = [beacon.key for beacon in self.beacon_keys if beacon.counts_from <= height]
        return counting[-1] if counting else b""


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """An amount of a bond account that waits for its release."""

    amount: Money
    release_at: Number


@dataclass(frozen=True, slots=True)
class BondAccount:
    """Bond coins of a validator or provider that are not locked in an order's escrow."""

    owner: Address
    free: Money
    withdrawals: Annotated[tuple[Withdrawal, ...], Many]


@dataclass(frozen=True, slots=True)
class Capability:
    """What a validator measured of a provider, with an expiry."""

    device_class: Name
    speed: Work  # FLOP/s of exact work
    memory: ByteCount  # bytes
    bandwidth: ByteCount  # bytes/s to this validator
    expires_at: Number


@dataclass(frozen=True, slots=True)
class Provider:
    """A compute provider, in the cluster of one validator once that has admitted it."""

    address: Address
    validator: MaybeAddress  # whose cluster it asked for, by operator address; empty after leaving
    pub_key: PublicKey
    capability: Capability | None
    shares_accepted: Count
    shares_rejected: Count
    admitted: bool = False

    def is_in(self, validator: str) -> bool:
        """Tell whether it is in the cluster of a validator."""
        return self.admitted and self.validator == validator

    @property
    def newcomer(self) -> bool:
        """Whether no share of it was accepted yet, wherever."""
        return self.shares_accepted == 0


@dataclass(frozen=True, slots=True)
class Offer:
    """What a bid offers, to any order that asks for no more: ``matching_engine/conditions.py`` compares the two.

    ``price`` in ``uassay`` per PFLOP, ``slot_speed`` in FLOP/s given to one slot, ``slots`` how many slots of an order
    train at once, ``memory`` in bytes of a
    device, ``min_work`` and ``max_work`` in FLOPs of an order, ``max_payload`` in bytes of payload and data,
    ``max_job_bond`` in ``uassay`` (a greatest of 0 means any), ``providers_bps`` the providers' share of the earnings.
    """

    price: PositiveMoney
    slot_speed: PositiveWork
    slots: Annotated[int, Range(1, SLOTS_MAX)] = 1
    device_class: Name = "cpu"
    memory: ByteCount = 0
    regions: Tags = ()
    tiers: Tags = ()
    min_work: Work = 0
    max_work: Work = 0
    providers_bps: ProvidersBps = 0
    max_payload: ByteCount = 0
    max_job_bond: Money = 0


@dataclass(frozen=True, slots=True)
class Bid:
    """A validator's standing offer, and what is sold of it.

    ``capacity`` is the FLOPs that it may have sold at once. ``reserved`` is the work of what it was matched with, until
    those assignments end; a change of the bid leaves it.

    Example::

        for bid in network.bids():
            print(bid.offer.price, bid.offer.slots, bid.capacity - bid.reserved)
    """

    id: Hash
    validator: Address
    offer: Offer
    capacity: Work
    expires_at: Number
    placed_height: Number
    reserved: Work = 0

    @property
    def free(self) -> int:
        """FLOPs that are left to sell."""
        return max(0, self.capacity - self.reserved)


@dataclass(frozen=True, slots=True)
class Conditions:
    """What an order asks of an offer; an empty string or tuple and 0 mean "any".

    >>> Conditions(device_class="cpu", regions=("eu",), tier="exact").memory
    0
    """

    device_class: MaybeName = ""
    memory: ByteCount = 0
    regions: Tags = ()
    tier: MaybeName = ""


class OrderState(IntEnum):
    """``open → matched → running → proven → closed`` (protocol section 3).

    Example::

        order.wait(assay.OrderState.RUNNING, seconds=600)
        assert order.status().state >= assay.OrderState.RUNNING
    """

    OPEN = 1
    MATCHED = 2
    RUNNING = 3
    PROVEN = 4
    CLOSED = 5


@dataclass(frozen=True, slots=True)
class JobTerms:
    """What the chain knows of a job: hashes, sizes and integers (protocol section 2).

    ``payload_bytes`` are those of the document and both opening states, ``data_bytes`` those of the rows. ``step_work``
    and ``outer_work`` are FLOPs; ``global_bytes`` and ``local_bytes`` those of a boundary state's two canonical parts,
    ``global_chunks`` and ``local_chunks`` the leaves of their trees.

    Example::

        print(network.quote("my-job").terms.rounds)
    """

    job_id: Hash
    payload_bytes: Annotated[int, Range(1, PAYLOAD_BYTES_MAX)]
    data_bytes: Annotated[int, Range(1, PAYLOAD_BYTES_MAX)]
    global_root: Hash
    local_root: Hash
    data_root: Hash
    rounds: Annotated[int, Range(1, ROUNDS_MAX)]
    slots: Annotated[int, Range(1, SLOTS_MAX)]
    round_steps: SampleCount  # inner steps of each slot in each round
    batch: SampleCount  # rows that a slot takes in a step
    segment_steps: SampleCount  # divides round_steps
    step_work: PositiveWork
    outer_work: Work  # one aggregation of all slots
    global_bytes: Annotated[int, Range(1, PAYLOAD_BYTES_MAX)]
    local_bytes: Annotated[int, Range(1, PAYLOAD_BYTES_MAX)]
    global_chunks: ChunkCount
    local_chunks: ChunkCount
    executor_version: Annotated[int, Range(1, 2**32 - 1)]

    @property
    def delivered_bytes(self) -> int:
        """Bytes of all files that a consumer delivers: document, opening states and rows."""
        return self.payload_bytes + self.data_bytes

    @property
    def result_bytes(self) -> int:
        """Bytes of what is handed over after a round: the global state, and the local state of each slot."""
        return self.global_bytes + self.slots * self.local_bytes

    @property
    def result_chunks(self) -> int:
        """Chunks of what is handed over: those of the global state, then those of each slot's local state."""
        return self.global_chunks + self.slots * self.local_chunks


@dataclass(frozen=True, slots=True)
class Order:
    """A consumer's signed order and where it stands.

    Example::

        for known in network.orders():
            print(known.id.hex(), known.state.name, known.deadline)
    """

    id: Hash
    consumer: Address
    order_key: PublicKey  # P_o, 33 bytes compressed
    terms: JobTerms
    conditions: Conditions
    price_limit: Money
    time_to_live: Number
    deadline: Number  # chain clock
    rematch: bool
    state: OrderState
    attempt: Count  # number of the current or last attempt, 0 before the first match
    failures: Count  # attempts that failed (declines do not count)
    opened_at: Number
    opened_height: Number
    expires_at: Number  # end of the current opening's time to live
    excluded: Annotated[tuple[Address, ...], Many]
    close_reason: Count  # CloseReason, 0 while it lives
    unmatched: Histogram  # reason histogram of the last auction
    work_verified: Work
    params: OrderParams
    # Milliseconds in which those who may sit fetch and recompute the places that are always drawn.
    audit_ms: Number = 0
    window: Number = 0  # seconds between the closing of a round and its payment


class AssignmentState(IntEnum):
    """Where an attempt stands."""

    MATCHED = 1
    RUNNING = 2
    PROVEN = 3
    FAILED = 4
    DONE = 5


@dataclass(frozen=True, slots=True)
class Assignment:
    """One attempt of an order by one validator."""

    order_id: Hash
    attempt: Count
    validator: Address
    bid_id: Hash
    price: Money
    work: Work
    job_bond: Money
    providers_bps: Bps
    slot_speed: Work  # the bid's FLOP/s for one slot, for the progress deadline
    slots: Annotated[int, Range(1, SLOTS_MAX)]  # the bid's slots at once
    state: AssignmentState
    end_reason: Count  # AttemptEnd, 0 while it lives
    matched_at: Number
    accept_deadline: Number
    progress_deadline: Number
    round: Count  # the open round, from 0; equals `rounds` when all are closed
    global_in: Hash  # global state root at the start of the open round
    settles_at: Number  # chain clock, once all rounds are verified; 0 before

    @property
    def open_round(self) -> "RoundKey":
        """The round that is open."""
        return RoundKey(self.order_id, self.attempt, self.round)

    @property
    def is_live(self) -> bool:
        """Whether it holds capacity: it is matched, running or proven."""
        states = AssignmentState
        return self.state in (states.MATCHED, states.RUNNING, states.PROVEN)


class ShareState(IntEnum):
    """What became of a share."""

    COMMITTED = 1
    ACCEPTED = 2  # in a closed round
    REJECTED = 3  # its bond stays until its round is verified, or the attempt is over
    RIGHT = 4  # rejected, and committed to what was accepted
    WRONG = 5  # rejected, and committed to something else


@dataclass(frozen=True, slots=True, order=True)
class RoundKey:
    """Names a round of an attempt; unpacks into its parts, in the order that keys and events have.

    Example::

        for event in order.events():
            if isinstance(event, assay.RoundVerified):
                print(event.round.attempt, event.round.round)
    """

    order_id: Hash
    attempt: Count
    round: Count

    def __iter__(self) -> Iterator[bytes | int]:
        """Yield the parts."""
        return iter((self.order_id, self.attempt, self.round))

    def share(self, slot: int, issue: int) -> "ShareKey":
        """Return the key of one of the round's shares."""
        return ShareKey(self.order_id, self.attempt, self.round, slot, issue)


@dataclass(frozen=True, slots=True, order=True)
class ShareKey:
    """Names one issue of a share; unpacks into its parts, in the order that keys and events have.

    Example::

        for event in order.events():
            if isinstance(event, assay.ShareRejected):
                print(event.share.round, event.share.slot, event.share.issue)
    """

    order_id: Hash
    attempt: Count
    round: Count
    slot: Slot
    issue: Count

    def __iter__(self) -> Iterator[bytes | int]:
        """Yield the parts."""
        return iter((self.order_id, self.attempt, self.round, self.slot, self.issue))

    @property
    def ref(self) -> "ShareRef":
        """What names the share inside its round."""
        return ShareRef(self.slot, self.issue)


@dataclass(frozen=True, slots=True)
class ShareClaim:
    """What a provider signs about its work in a round: one hash, which shows nothing of it (protocol section 4.3)."""

    order_id: Hash
    attempt: Count
    round: Count
    slot: Count
    issue: Count
    provider: Address
    commitment: Hash  # pol.rules.commitment.share_commitment

    @property
    def key(self) -> ShareKey:
        """The share that the claim is about."""
        return ShareKey(self.order_id, self.attempt, self.round, self.slot, self.issue)


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


@dataclass(frozen=True, slots=True)
class ShareRef:
    """Names a share inside an assignment's round."""

    slot: Slot
    issue: Count


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
    attempt: Count
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
        return RoundKey(self.order_id, self.attempt, self.round)

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
    attempt: Count
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
        return RoundKey(self.order_id, self.attempt, self.round)

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
    (:func:`pol.rules.panels.answer_digest`); none for ``UNAVAILABLE``.
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
    attempt: Count
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
        return RoundKey(self.order_id, self.attempt, self.round)

    def answer(self, place: int) -> SeatAnswer | None:
        """Return what it said of a place, None where it was silent."""
        return next((answer for answer in self.answers if answer.place == place), None)


@dataclass(frozen=True, slots=True)
class Depositor:
    """One depositor's row of an escrow."""

    address: Address
    locked: Money
    paid: Money
    refunded: Money


class BondKind(IntEnum):
    """Which bond a row of an escrow holds."""

    JOB = 1
    SHARE = 2


@dataclass(frozen=True, slots=True)
class BondRow:
    """A bond held by an order's escrow."""

    kind: BondKind
    owner: Address
    attempt: Count
    round: Count
    slot: Count
    issue: Count
    amount: Money

    def share(self, order_id: bytes) -> ShareKey:
        """Return the share that the bond stands for, where it is one of a share."""
        return ShareKey(order_id, self.attempt, self.round, self.slot, self.issue)


@dataclass(frozen=True, slots=True)
class Escrow:
    """The money of one order: a row per depositor, and bonds in rows of their own.

    ``withheld`` of what the depositors locked is the validator's part of the attempt's verified rounds: it is paid when
    the order settles, and is the deposit's again when the attempt fails.
    """

    order_id: Hash
    depositors: Annotated[tuple[Depositor, ...], Many]
    bonds: Annotated[tuple[BondRow, ...], Many]
    withheld: Money = 0


@dataclass(frozen=True, slots=True)
class Payment:
    """One payment out of an order's escrow, as the queries list it (and the second count of every coin)."""

    to: Address  # an address; a module's for "protocol", "decline_fee" and what is burnt
    # Out of deposits: "provider", "validator", "auditor", "protocol", "refund", "deposit_burn", and out of what they
    # withhold from the validator: "held_compensation", "held_burn".
    # Out of bonds: "bond_return" (into the owner's bond account), "compensation", "decline_fee", "burn".
    kind: Name
    amount: Money
    round: Annotated[int, Range(-1, 2**31 - 1)]  # -1 where no round is concerned
