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
    Many,
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
from domain.limits import PAYLOAD_BYTES_MAX, RESULT_CHUNKS_MAX, ROUNDS_MAX, SAMPLES_MAX, SLOTS_MAX
from domain.market.reasons import CloseReason
from domain.measures import price, speed, work
from domain.order_params import OrderParams
from domain.readable import Readable, Shown

SampleCount = Annotated[int, Range(1, SAMPLES_MAX)]
"""Samples of a job, or steps: never more than there are samples."""

ChunkCount = Annotated[int, Range(1, RESULT_CHUNKS_MAX)]
"""Leaves of a state's tree."""

Histogram = Annotated[tuple[tuple[Name, Number], ...], Many]
"""Number of bids that fail each condition, in the order of the table of conditions, without zeros.

A bid counts under each condition that it fails. An empty histogram means that no bid stands.
"""


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
    tiers: Preferences = ()
    min_work: Work = 0
    max_work: Work = 0
    providers_bps: ProvidersBps = 0
    max_payload: ByteCount = 0
    max_job_bond: Money = 0


@dataclass(frozen=True, slots=True)
class Bid(Shown):
    """A validator's standing offer, and what is sold of it.

    ``capacity`` is the FLOPs that it may have sold at once. ``reserved`` is the work of what it was matched with, until
    those legs end; a change of the bid leaves it.

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

    def summary(self) -> Iterable[tuple[str, object]]:
        """Return what a person compares bids by."""
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
    """What an order asks of an offer; an empty string or tuple and 0 mean "any".

    ``tiers`` are in the consumer's order of preference.

    >>> Conditions(device_class="cpu", regions=("eu",), tiers=("exact",)).memory
    0
    """

    device_class: MaybeName = ""
    memory: ByteCount = 0
    regions: Tags = ()
    tiers: Preferences = ()

    def choose_tier(self, offered: tuple[str, ...]) -> str:
        """Return the tier in which a bid that offers these serves the order; empty if there is none.

        It is the first of the order's list that the bid offers. An order without a list takes the bid's first.
        """
        wanted = (tier for tier in self.tiers or offered if tier in offered)
        return next(wanted, "")


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
class JobTerms(Readable):
    """What the chain knows of a job: hashes, sizes and integers (protocol section 2).

    ``payload_bytes`` are those of the document and both opening states, ``data_bytes`` those of the rows. ``step_work``
    and ``outer_work`` are FLOPs; ``global_bytes`` and ``local_bytes`` those of a boundary state's two canonical parts,
    ``update_bytes`` those of the update that a slot makes in a round, ``global_chunks`` and ``local_chunks`` the leaves
    of the states' trees.

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
    update_bytes: Annotated[int, Range(1, PAYLOAD_BYTES_MAX)]
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
class Order(Shown):
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
    legs: Count  # legs so far, which is the number of the last one
    failures: Count  # legs that failed (declines do not count)
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

    def summary(self) -> Iterable[tuple[str, object]]:
        """Return where the order stands."""
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
