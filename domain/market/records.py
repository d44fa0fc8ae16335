"""Records that the market component keeps: frozen dataclasses of integers, strings, bytes and tuples."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from domain.bounds import (
    Address,
    ByteCount,
    Count,
    Hash,
    Length,
    Many,
    MaybeHash,
    MaybeName,
    Money,
    Name,
    Number,
    PositiveMoney,
    PositiveWork,
    Preferences,
    ProvidersBps,
    PublicKey,
    Range,
    Tags,
    Work,
)
from domain.limits import (
    CHALLENGE_WAIT_MAX,
    CHALLENGERS_MAX,
    PAYLOAD_BYTES_MAX,
    REPLICAS_MAX,
    RESULT_CHUNKS_MAX,
    ROUNDS_MAX,
    SAMPLES_MAX,
    SLOTS_MAX,
)
from domain.market.reasons import CloseReason
from domain.measures import price, speed, work
from domain.order_params import OrderParams
from domain.readable import Readable, Shown

SampleCount = Annotated[int, Range(1, SAMPLES_MAX)]
"""A number of samples of a job, or a number of steps; a job never has more steps than samples."""

ChunkCount = Annotated[int, Range(1, RESULT_CHUNKS_MAX)]
"""A number of leaves of a state's tree."""

Replicas = Annotated[int, Range(0, REPLICAS_MAX)]
"""A number of validators that each train the whole order; 0 if one validator serves it."""

Histogram = Annotated[tuple[tuple[Name, Number], ...], Many]
"""The number of bids that fail each condition, in the order of the table of conditions, without zeros.

A bid counts for each condition that it fails. The histogram is empty if there are no bids.
"""


@dataclass(frozen=True, slots=True)
class Offer:
    """The terms of a bid. ``matching_engine/conditions.py`` compares them with an order's conditions.

    ``price`` is in ``uassay`` per PFLOP, and ``slot_speed`` is the FLOP/s for one slot. ``slots`` is the number of an
    order's slots that train at the same time, and ``memory`` is the memory of one device in bytes. The bid accepts an
    order only within four limits: ``min_work`` and ``max_work`` (FLOPs), ``max_payload`` (bytes of payload and data)
    and ``max_job_bond`` (``uassay``). A maximum of 0 means that there is no such limit. ``providers_bps`` is the part
    (bps) of the earnings that the providers get.
    """

    price: PositiveMoney
    slot_speed: PositiveWork
    slots: Annotated[int, Range(1, SLOTS_MAX)] = 1
    device_class: Name = "cpu"
    memory: ByteCount = 0
    regions: Tags = ()
    tiers: Preferences = ()
    min_work: Work = 0
    max_work: Work = 0
    providers_bps: ProvidersBps = 0
    max_payload: ByteCount = 0
    max_job_bond: Money = 0


@dataclass(frozen=True, slots=True)
class Bid(Shown):
    """A validator's standing offer, with the amount of work that it has sold.

    ``capacity`` is the most work (FLOPs) that the bid may have sold at any time. ``reserved`` is the work (FLOPs) of
    the legs that the bid won and that have not ended. If the validator changes the bid, ``reserved`` stays the same.

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
        """Work (FLOPs) that the bid can still sell."""
        return max(0, self.capacity - self.reserved)

    def summary(self) -> Iterable[tuple[str, object]]:
        """Return the fields that a consumer compares between bids, by name."""
        offer = self.offer
        return (
            ("id", self.id),
            ("price", price(offer.price)),
            ("slots", offer.slots),
            ("slot_speed", speed(offer.slot_speed)),
            ("device", offer.device_class),
            ("tiers", offer.tiers),
            ("left", work(self.free)),
            ("validator", self.validator),
        )


@dataclass(frozen=True, slots=True)
class Conditions(Readable):
    """An order's requirements for an offer. An empty string, an empty tuple or 0 means that any value is accepted.

    ``tiers`` are in the consumer's order of preference. ``attested`` allows fewer panels for rounds whose providers all
    have credentials; it requires nothing of a bid.

    >>> Conditions(device_class="cpu", regions=("eu",), tiers=("exact",)).memory
    0
    """

    device_class: MaybeName = ""
    memory: ByteCount = 0
    regions: Tags = ()
    tiers: Preferences = ()
    attested: bool = False

    def choose_tier(self, offered: tuple[str, ...]) -> str:
        """Return the tier in which a bid with the tiers ``offered`` serves the order, or an empty text if no tier fits.

        The result is the first tier in the order's list that the bid offers. If the order has no list, the result is
        the bid's first tier; the auction gives each order a list.
        """
        common = (tier for tier in self.tiers or offered if tier in offered)
        return next(common, "")


class OrderState(IntEnum):
    """The state of an order: ``open → matched → running → proven → closed`` (protocol section 3).

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
class JobTerms(Readable):
    """The chain's data about a job: hashes, sizes and numbers (protocol section 2).

    ``payload_bytes`` is the size of the job's document and its two initial states, and ``data_bytes`` is the size of
    its rows. ``step_work``, ``close_work`` and ``outer_work`` are FLOPs. A boundary state consists of a global and a
    local state in canonical form. ``global_bytes`` and ``local_bytes`` are their sizes, and ``global_chunks`` and
    ``local_chunks`` the numbers of leaves of their trees. ``update_bytes`` is the size of the update that a slot makes
    in a round. All sizes are in bytes.

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
    batch: SampleCount  # rows of data that a slot uses in a step
    segment_steps: SampleCount  # a divisor of round_steps
    step_work: PositiveWork
    outer_work: Work  # work of one aggregation of all slots
    global_bytes: Annotated[int, Range(1, PAYLOAD_BYTES_MAX)]
    local_bytes: Annotated[int, Range(1, PAYLOAD_BYTES_MAX)]
    update_bytes: Annotated[int, Range(1, PAYLOAD_BYTES_MAX)]
    global_chunks: ChunkCount
    local_chunks: ChunkCount
    executor_version: Annotated[int, Range(1, 2**32 - 1)]
    close_work: Work = 0  # work of coding the update of one slot at the end of a round; 0 if updates are not coded

    @property
    def delivered_bytes(self) -> int:
        """Bytes of all files that a consumer delivers: the job's document, its initial states and its rows."""
        return self.payload_bytes + self.data_bytes

    @property
    def result_bytes(self) -> int:
        """Bytes of the states that are handed over after a round: the global state and each slot's local state."""
        return self.global_bytes + self.slots * self.local_bytes

    @property
    def result_chunks(self) -> int:
        """Number of chunks of all states that are handed over: of the global state, and of each slot's local state."""
        return self.global_chunks + self.slots * self.local_chunks


@dataclass(frozen=True, slots=True)
class ChallengeTerms(Readable):
    """An order's rules about challenges of its rounds.

    The consumer, the depositors and the operators of validators may always challenge. So may these ``addresses``, and
    if ``anyone`` is true, every account that has a bond. ``wait`` is the time (seconds) after a round's window in which
    the round can still be challenged, and is not verified.

    Example::

        assay.ChallengeTerms(anyone=True, wait=86_400)
    """

    anyone: bool = False
    addresses: Annotated[tuple[Address, ...], Length(0, CHALLENGERS_MAX)] = ()
    wait: Annotated[int, Range(0, CHALLENGE_WAIT_MAX)] = 0


NO_CHALLENGERS = ChallengeTerms()
"""The rules of an order that names no challengers, and does not wait for them."""


@dataclass(frozen=True, slots=True)
class Order(Shown):
    """A consumer's signed order and its current state.

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
    legs: Count  # number of legs so far, which is also the number of the last leg
    failures: Count  # number of legs that failed; a declined match does not count
    opened_at: Number
    opened_height: Number
    expires_at: Number  # end of the order's time to live in the book (chain clock)
    excluded: Annotated[tuple[Address, ...], Many]
    close_reason: Count  # CloseReason, or 0 while the order is active
    unmatched: Histogram  # number of bids that failed each condition in the last auction
    work_verified: Work
    params: OrderParams
    # Audit time in milliseconds. A validator may have a seat if it can fetch and recompute the places that every panel
    # draws within this time.
    audit_ms: Number = 0
    window: Number = 0  # least number of seconds between the closing of a round and its payment
    next_round: Count = 0  # first round that is not verified; the number of rounds if none is left, or the job stopped
    challenges: ChallengeTerms = NO_CHALLENGERS
    # Number of orders that were submitted together, and train the same (:mod:`pol.rules.replicas`); 0 for a single one.
    replicas: Replicas = 0
    first_replica: MaybeHash = b""  # id of the first of these orders; empty for a single order

    @property
    def leads(self) -> bool:
        """True if the book has this order while it is open. The auction matches an order and its replicas together, and
        the first one stands for all of them. An order that opens again stands for itself.
        """
        return self.legs > 0 or self.first_replica in (b"", self.id)

    def summary(self) -> Iterable[tuple[str, object]]:
        """Return the fields that show the order's progress."""
        closed = CloseReason(self.close_reason) if self.close_reason else None
        return (
            ("id", self.id),
            ("state", self.state),
            *((("reason", closed),) if closed else ()),
            ("rounds", self.terms.rounds),
            ("slots", self.terms.slots),
            ("price_limit", price(self.price_limit)),
            ("legs", self.legs),
            ("consumer", self.consumer),
        )
