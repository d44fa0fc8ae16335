"""Records of the state: frozen dataclasses of integers, strings, bytes and tuples, and nothing else.

Addresses are bech32 strings, checked where they enter. Times are seconds on the chain clock. Money is ``uassay``,
work is FLOPs, prices are ``uassay`` per PFLOP (10^15 FLOPs). ``protocol.md`` section 2 says what each record is for.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum


@dataclass(frozen=True, slots=True)
class Coin:
    """An amount of a denomination."""

    denom: str
    amount: int


@dataclass(frozen=True, slots=True)
class Account:
    """Authentication data of an address; balances have keys of their own."""

    address: str
    number: int
    sequence: int
    pub_key: bytes  # 33 bytes compressed secp256k1, empty until the account has signed


@dataclass(frozen=True, slots=True)
class Validator:
    """An operator with a consensus key and a stake."""

    operator: str
    moniker: str
    cons_key: bytes  # ed25519, 32 bytes
    cons_address: bytes  # SHA-256(cons_key)[:20]
    stake: int
    jailed: bool
    endpoint: str  # host:port of its cluster service; empty until SetEndpoint
    certificate: bytes  # DER of the certificate that clients trust as their only root
    orders_settled: int
    attempts_failed: int
    audits_answered: int
    audits_missed: int


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """An amount of a bond account that waits for its release."""

    amount: int
    release_at: int


@dataclass(frozen=True, slots=True)
class BondAccount:
    """Bond coins of a validator or provider that are not locked in an order's escrow."""

    owner: str
    free: int
    withdrawals: tuple[Withdrawal, ...]


@dataclass(frozen=True, slots=True)
class Capability:
    """What a validator measured of a provider, with an expiry."""

    device_class: str
    speed: int  # FLOP/s of exact work
    memory: int  # bytes
    bandwidth: int  # bytes/s to this validator
    expires_at: int


@dataclass(frozen=True, slots=True)
class Provider:
    """A compute provider in the cluster of one validator."""

    address: str
    validator: str  # operator address; empty after leaving
    pub_key: bytes
    capability: Capability | None
    shares_accepted: int
    shares_rejected: int
    shares_reported: int


@dataclass(frozen=True, slots=True)
class Offer:
    """What a bid offers, to any order that asks for no more: ``matching_engine/conditions.py`` compares the two.

    ``price`` in ``uassay`` per PFLOP, ``speed`` in FLOP/s of the validator's whole cluster, ``memory`` in bytes of a
    device, ``min_work`` and ``max_work`` in FLOPs of an order (a greatest of 0 means any), ``providers_bps`` the
    providers' share of the earnings.
    """

    price: int
    speed: int
    device_class: str = ""
    memory: int = 0
    regions: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    min_work: int = 0
    max_work: int = 0
    providers_bps: int = 0


@dataclass(frozen=True, slots=True)
class Bid:
    """A validator's standing offer, and what is left of it.

    ``capacity`` is the FLOPs left to sell: a match takes its work off, the end of the assignment puts it back.
    """

    id: bytes
    validator: str
    offer: Offer
    capacity: int
    expires_at: int
    placed_height: int


@dataclass(frozen=True, slots=True)
class Conditions:
    """What an order asks of an offer; an empty string or tuple and 0 mean "any"."""

    device_class: str = ""
    memory: int = 0
    regions: tuple[str, ...] = ()
    tier: str = ""


class OrderState(IntEnum):
    """``open → matched → running → proven → closed`` (protocol section 3)."""

    OPEN = 1
    MATCHED = 2
    RUNNING = 3
    PROVEN = 4
    CLOSED = 5


@dataclass(frozen=True, slots=True)
class JobTerms:
    """What the chain knows of a job: hashes, sizes and integers."""

    job_id: bytes
    payload_bytes: int
    global_root: bytes
    local_root: bytes
    data_root: bytes
    rounds: int
    samples_per_round: int
    batch: int
    segment_length: int
    work_per_step: int
    result_chunks: int
    executor_version: int


@dataclass(frozen=True, slots=True)
class Order:
    """A consumer's signed order and where it stands."""

    id: bytes
    consumer: str
    order_key: bytes  # P_o, 33 bytes compressed
    terms: JobTerms
    conditions: Conditions
    price_limit: int
    time_to_live: int
    deadline: int  # chain clock
    rematch: bool
    state: OrderState
    attempt: int  # number of the current or last attempt, 0 before the first match
    failures: int  # attempts that failed (declines do not count)
    opened_at: int
    opened_height: int
    expires_at: int  # end of the current opening's time to live
    excluded: tuple[str, ...]
    close_reason: int  # CloseReason, 0 while it lives
    unmatched: tuple[tuple[str, int], ...]  # reason histogram of the last auction
    work_verified: int
    params: "OrderParams"


@dataclass(frozen=True, slots=True)
class OrderParams:
    """The parameters under which an order was submitted; it keeps them for life."""

    accept_base: int
    accept_rate: int
    progress_base: int
    round_window: int
    report_window: int
    max_attempts: int
    auditors: int
    audit_places_max: int
    segments_drawn: int
    job_bond_bps: int
    decline_fee_bps: int
    protocol_bps: int
    audit_bps: int
    lot_wait: int
    reference_speed: int

    @property
    def range_work_max(self) -> int:
        """FLOPs that the slowest auditor replays in an eighth of the window: the most that one range may have."""
        return self.reference_speed * self.round_window // 8


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

    order_id: bytes
    attempt: int
    validator: str
    bid_id: bytes
    price: int
    work: int
    job_bond: int
    providers_bps: int
    speed: int  # the bid's FLOP/s, for the progress deadline
    state: AssignmentState
    end_reason: int  # AttemptEnd, 0 while it lives
    matched_at: int
    accept_deadline: int
    progress_deadline: int
    round: int  # the open round, from 0; equals `rounds` when all are closed
    global_in: bytes  # global state root at the start of the open round
    ciphertext_root: bytes
    final_root: bytes


class ShareState(IntEnum):
    """What became of a share."""

    COMMITTED = 1
    ACCEPTED = 2  # in a closed round
    REJECTED = 3
    REPORTED = 4  # rejected with evidence; its bond is at stake


@dataclass(frozen=True, slots=True, order=True)
class RoundKey:
    """Names a round of an attempt; unpacks into its parts, in the order that keys and events have."""

    order_id: bytes
    attempt: int
    round: int

    def __iter__(self) -> Iterator[bytes | int]:
        """Yield the parts."""
        return iter((self.order_id, self.attempt, self.round))

    def share(self, slot: int, issue: int) -> "ShareKey":
        """Return the key of one of the round's shares."""
        return ShareKey(self.order_id, self.attempt, self.round, slot, issue)


@dataclass(frozen=True, slots=True, order=True)
class ShareKey:
    """Names one issue of a share; unpacks into its parts, in the order that keys and events have."""

    order_id: bytes
    attempt: int
    round: int
    slot: int
    issue: int

    def __iter__(self) -> Iterator[bytes | int]:
        """Yield the parts."""
        return iter((self.order_id, self.attempt, self.round, self.slot, self.issue))

    @property
    def ref(self) -> "ShareRef":
        """What names the share inside its round."""
        return ShareRef(self.slot, self.issue)


@dataclass(frozen=True, slots=True)
class ShareClaim:
    """What a provider signs about its work in a round (protocol section 4.3)."""

    order_id: bytes
    attempt: int
    round: int
    slot: int
    issue: int
    first: int
    count: int
    provider: str
    global_in: bytes
    local_in: bytes
    local_out: bytes
    segments: int
    trace_root: bytes
    update_root: bytes
    executor_version: int

    @property
    def key(self) -> ShareKey:
        """The share that the claim is about."""
        return ShareKey(self.order_id, self.attempt, self.round, self.slot, self.issue)


@dataclass(frozen=True, slots=True)
class Share:
    """A committed share."""

    claim: ShareClaim
    signature: bytes
    work: int
    bond: int
    state: ShareState
    reason: int  # ShareReason
    committed_at: int
    committed_height: int
    drawn: tuple[int, ...]  # segments of the public lot; empty until the seed is known


@dataclass(frozen=True, slots=True)
class ShareRef:
    """Names a share inside an assignment's round."""

    slot: int
    issue: int


@dataclass(frozen=True, slots=True)
class Round:
    """A closed round."""

    order_id: bytes
    attempt: int
    number: int
    global_in: bytes
    next_root: bytes
    shares: tuple[ShareRef, ...]  # accepted, in slot order
    work: int
    closed_at: int
    closed_height: int
    window_ends: int
    verified: bool
    void: bool  # its audits disagree or cannot come any more: never paid

    @property
    def key(self) -> RoundKey:
        """Which round it is."""
        return RoundKey(self.order_id, self.attempt, self.number)

    @property
    def share_keys(self) -> tuple[ShareKey, ...]:
        """The accepted shares, in slot order."""
        return tuple(self.key.share(ref.slot, ref.issue) for ref in self.shares)


class AuditKind(IntEnum):
    """What a place of an audit is."""

    SEGMENT = 1  # segment 0..n-1 of a share
    UPDATE = 2  # the last "segment": update and local_out from boundaries 0 and n
    AGGREGATION = 3


@dataclass(frozen=True, slots=True)
class Place:
    """What an audit names: a segment of a share, its update, or the aggregation of the round."""

    kind: AuditKind
    slot: int
    issue: int
    segment: int


@dataclass(frozen=True, slots=True)
class TraceLeaf:
    """One boundary of a trace, with its Merkle path to the share's trace root."""

    index: int
    step: int
    boundary_root: bytes
    metrics: tuple[int, ...]  # FP32 bit patterns
    path: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class AuditAnswer:
    """An auditor's answer for one place: the recomputed root, or empty bytes for ``unavailable``.

    The chain holds no leaves, only trace roots. So for segment i the answer carries the share's leaf of boundary i+1:
    it agrees if the leaf is in the trace and its boundary root is ``root``. Other places need no leaf.
    """

    root: bytes
    digest: bytes
    leaf: TraceLeaf | None = None


@dataclass(frozen=True, slots=True)
class Seat:
    """A validator drawn to audit a round, and what it answered (empty until it did)."""

    validator: str
    answers: tuple[AuditAnswer, ...]
    answered_at: int
    missed: bool


@dataclass(frozen=True, slots=True)
class Audit:
    """The audit of a closed round: places (the same for all seats) and up to three draws of seats."""

    order_id: bytes
    attempt: int
    round: int
    draw: int  # 0 until the seed is known, 1 first, 2 redraw, 3 all validators
    places: tuple[Place, ...]
    seats: tuple[Seat, ...]
    draw_ends: int
    agreed: bool

    @property
    def key(self) -> RoundKey:
        """The round that is audited."""
        return RoundKey(self.order_id, self.attempt, self.round)


@dataclass(frozen=True, slots=True)
class Lot:
    """Randomness being collected for a commitment: hashes of later blocks by different proposers who are no party."""

    purpose: str
    id: bytes
    parties: tuple[str, ...]  # operator addresses
    height: int  # of the commitment
    deadline: int
    wanted: int  # how many different proposers there are to wait for: 2, or fewer in a small set
    proposers: tuple[bytes, ...]
    hashes: tuple[bytes, ...]
    any_hashes: tuple[
        bytes, ...
    ]  # of the first two later blocks, whoever proposed them: for ``lot_wait``


class ReportState(IntEnum):
    """What became of a report of a provider."""

    OPEN = 1
    CUT = 2  # nobody objected: the bond was cut
    OBJECTED = 3  # counts as not proven until there are seats to decide it


@dataclass(frozen=True, slots=True)
class Report:
    """A provider reported with evidence that any node can check."""

    order_id: bytes
    attempt: int
    round: int
    slot: int
    issue: int
    segment: int  # n for the update
    provider: str
    claimed_root: bytes
    replayed_root: bytes
    reported_at: int
    deadline: int
    bond: int
    state: ReportState

    @property
    def key(self) -> ShareKey:
        """The share that is reported."""
        return ShareKey(self.order_id, self.attempt, self.round, self.slot, self.issue)


@dataclass(frozen=True, slots=True)
class Depositor:
    """One depositor's row of an escrow."""

    address: str
    locked: int
    paid: int
    refunded: int


class BondKind(IntEnum):
    """Which bond a row of an escrow holds."""

    JOB = 1
    SHARE = 2


@dataclass(frozen=True, slots=True)
class BondRow:
    """A bond held by an order's escrow."""

    kind: BondKind
    owner: str
    attempt: int
    round: int
    slot: int
    issue: int
    amount: int


@dataclass(frozen=True, slots=True)
class Escrow:
    """The money of one order: a row per depositor, and bonds in rows of their own."""

    order_id: bytes
    depositors: tuple[Depositor, ...]
    bonds: tuple[BondRow, ...]


@dataclass(frozen=True, slots=True)
class Payment:
    """One payment out of an order's escrow, as the queries list it (and the second count of every coin)."""

    to: str  # an address; a module's for "protocol", "decline_fee" and what is burnt
    # Out of deposits: "provider", "validator", "auditor", "protocol", "refund", "deposit_burn".
    # Out of bonds: "bond_return" (into the owner's bond account), "compensation", "decline_fee", "burn".
    kind: str
    amount: int
    round: int  # -1 where no round is concerned
