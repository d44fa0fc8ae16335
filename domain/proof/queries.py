"""Queries that the proof component answers."""

from dataclasses import dataclass, replace
from typing import Annotated

from domain.bounds import (
    Address,
    Count,
    Duration,
    Hash,
    Length,
    Many,
    MaybeHash,
    Money,
    Name,
    Number,
    PublicKey,
)
from domain.keys import PanelKey, RoundKey, ShareKey
from domain.ledger.records import Escrow, Payment
from domain.legs.records import Leg, SlotStart
from domain.limits import ANSWERS_MAX, STAGES_MAX
from domain.market.records import JobTerms, Order
from domain.order_params import Rate
from domain.proof.records import (
    AuditPlace,
    Panel,
    PanelSeat,
    ReceiptAsk,
    Round,
    Share,
    ShareState,
    ShownDelivery,
    WantedTrace,
)
from domain.queries import Query
from domain.readable import Readable


@dataclass(frozen=True, slots=True)
class OrderResponse(Readable):
    """An order and everything about it: legs, initial states of slots, shares, rounds, panels, escrow and payments.

    ``holds_back`` says that the shares of the open round cannot be accepted yet, because other replicas of the order
    have not committed to theirs. ``wanted`` are the traces that a validator has to show because replicas differ.

    Example::

        details = order.details()
        print(details.order.state.name, len(details.shares), details.payments)
    """

    order: Order
    legs: Annotated[tuple[Leg, ...], Many]
    starts: Annotated[tuple[SlotStart, ...], Many]
    shares: Annotated[tuple[Share, ...], Many]
    rounds: Annotated[tuple[Round, ...], Many]
    panels: Annotated[tuple[Panel, ...], Many]
    escrow: Escrow
    payments: Annotated[tuple[Payment, ...], Many]
    deliveries: Annotated[tuple[ShownDelivery, ...], Many] = ()
    asks: Annotated[tuple[ReceiptAsk, ...], Many] = ()
    holds_back: bool = False
    wanted: Annotated[tuple[WantedTrace, ...], Many] = ()

    @property
    def current(self) -> Leg | None:
        """The current leg, or the last one if none is active. None before the first match."""
        return self.leg(self.order.legs)

    def leg(self, number: int) -> Leg | None:
        """Return the leg with this number, or None."""
        for leg in self.legs:
            if leg.number == number:
                return leg
        return None

    def opening_local(self, leg: int, slot: int) -> bytes:
        """Return the root of the local state from which a slot of a leg starts."""
        for opening in self.starts:
            if (opening.leg, opening.slot) == (leg, slot):
                return opening.local_root
        return self.order.terms.local_root

    def rounds_of(self, leg: int) -> tuple[Round, ...]:
        """Return the closed rounds of a leg, in order."""
        return tuple(closed for closed in self.rounds if closed.leg == leg)

    def round(self, leg: int, round: int) -> Round | None:
        """Return a closed round, or None."""
        for closed in self.rounds:
            if closed.round == round and closed.leg == leg:
                return closed
        return None

    def share(self, key: ShareKey) -> Share | None:
        """Return a share of this order, or None."""
        parts = key.leg, key.round, key.slot, key.issue
        for share in self.shares:
            claim = share.claim
            if (share.taken_by or claim.leg, claim.round, claim.slot, share.held_as or claim.issue) == parts:
                return share if claim.order_id == key.order_id else None
        return None

    def share_of(self, task: ShareKey, provider: str) -> Share | None:
        """Return the share that a provider has for its task, or None.

        The share has another key than the task if another share had the issue, or if later legs have taken it over.
        """
        for share in self.shares:
            if share.claim.provider == provider and share.claim.key == task and share.state is not ShareState.TAKEN:
                return share
        return None

    def held(self, task: ShareKey, provider: str) -> ShareKey:
        """Return the key that the share of a provider's task has now; that of the task if it is not on chain."""
        share = self.share_of(task, provider)
        return task if share is None else share.key

    def delivery(self, key: ShareKey) -> ShownDelivery | None:
        """Return what the chain knows of the delivery of a share, or None."""
        return next((delivery for delivery in self.deliveries if delivery.share == key), None)

    def ask(self, key: ShareKey) -> ReceiptAsk | None:
        """Return the request for a receipt of witnesses for the delivery of a share, or None."""
        return next((ask for ask in self.asks if ask.share == key), None)

    def shares_of(self, leg: int, round: int) -> dict[tuple[int, int], Share]:
        """Return the shares of a round, indexed by slot and issue."""
        return {
            (share.claim.slot, share.held_as or share.claim.issue): share
            for share in self.shares
            if (share.taken_by or share.claim.leg, share.claim.round) == (leg, round)
        }

    def panel(self, leg: int, round: int) -> Panel | None:
        """Return the panel that audits a round, or None."""
        return next((p for p in self.panels if (p.leg, p.round, p.dispute) == (leg, round, 0)), None)


@dataclass(frozen=True, slots=True)
class OrderRequest(Query[OrderResponse]):
    """A request for one order and everything about its legs."""

    order_id: Hash


@dataclass(frozen=True, slots=True)
class PanelResponse:
    """A panel with everything that its seats need to know about the round.

    The size of this response does not depend on the order's history.

    ``validator`` closed the round. It has to serve the round's states at ``accept_rate`` (bytes/s) or faster. The seats
    of a stage have ``commit_seconds`` to commit. ``shares`` are the accepted shares by slot. If a provider stands for
    its share, they are this share alone. ``tier`` is the leg's tier. The chunks of a hand-over round are encrypted to
    ``order_key``.
    """

    terms: JobTerms
    price_limit: Money
    validator: Address
    commit_seconds: Duration
    round: Round
    panel: Panel
    shares: Annotated[tuple[Share, ...], Many]
    accept_rate: Rate
    tier: Name
    order_key: PublicKey


@dataclass(frozen=True, slots=True)
class PanelRequest(Query[PanelResponse]):
    """A request for the panel of a closed round, with at most ``limit`` accepted shares from ``from_slot`` on."""

    order_id: Hash
    leg: Count
    round: Count
    dispute: Count = 0
    from_slot: Count = 0
    limit: Count = 0


@dataclass(frozen=True, slots=True)
class SeatsResponse:
    """Seats of a panel, sorted by number."""

    seats: Annotated[tuple[PanelSeat, ...], Many]


@dataclass(frozen=True, slots=True)
class SeatsRequest(Query[SeatsResponse]):
    """A request for the seats of a panel from a number on."""

    order_id: Hash
    leg: Count
    round: Count
    dispute: Count = 0
    from_number: Count = 0
    limit: Count = 0


@dataclass(frozen=True, slots=True)
class NumberedPlace:
    """A place and its number in the panel. Answers refer to the place by this number."""

    number: Count
    place: AuditPlace


@dataclass(frozen=True, slots=True)
class PanelDuty:
    """A seat that still has work to do.

    The seat can commit until ``commits_end``, and then reveal until ``reveals_end`` (both on the chain clock).
    """

    order_id: Hash
    leg: Count
    round: Count
    stage: Count
    seed: Hash
    places: Annotated[tuple[NumberedPlace, ...], Length(0, ANSWERS_MAX)]
    commits_end: Number
    reveals_end: Number
    commitment: MaybeHash
    dispute: Count = 0
    earlier_seeds: Annotated[tuple[Hash, ...], Length(0, STAGES_MAX)] = ()

    @property
    def seeds(self) -> tuple[bytes, ...]:
        """The seeds of all stages so far; the last one is that of the seat's stage."""
        return (*self.earlier_seeds, self.seed)

    @property
    def key(self) -> PanelKey:
        """The key of the seat's panel."""
        return RoundKey(self.order_id, self.leg, self.round).panel(self.dispute)


@dataclass(frozen=True, slots=True)
class PanelDutiesResponse:
    """A validator's seats with work to do, sorted by panel."""

    duties: Annotated[tuple[PanelDuty, ...], Many]
    clock: Number
    height: Number


@dataclass(frozen=True, slots=True)
class PanelDutiesRequest(Query[PanelDutiesResponse]):
    """A request for the seats of a validator that have not revealed in an open stage. The response begins after the
    panel that ``after_order``, ``after_leg``, ``after_round`` and ``after_dispute`` name.
    """

    validator: Address
    limit: Count = 0
    after_order: MaybeHash = b""
    after_leg: Count = 0
    after_round: Count = 0
    after_dispute: Count = 0

    def after(self, duty: PanelDuty) -> "PanelDutiesRequest":
        """Return the request for the next page, after a page whose last item was ``duty``."""
        return replace(
            self,
            after_order=duty.order_id,
            after_leg=duty.leg,
            after_round=duty.round,
            after_dispute=duty.dispute,
        )


@dataclass(frozen=True, slots=True)
class WitnessDutiesResponse:
    """Requests for receipts, sorted by share."""

    asks: Annotated[tuple[ReceiptAsk, ...], Many]


@dataclass(frozen=True, slots=True)
class WitnessDutiesRequest(Query[WitnessDutiesResponse]):
    """A request for the deliveries that a validator was drawn to witness, and that it has not witnessed."""

    validator: Address
    limit: Count = 0
