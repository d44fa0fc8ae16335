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
)
from domain.keys import RoundKey, ShareKey
from domain.ledger.records import Escrow, Payment
from domain.legs.records import Leg, SlotOpening
from domain.limits import ANSWERS_MAX
from domain.market.records import JobTerms, Order
from domain.order_params import Rate
from domain.proof.records import Panel, PanelSeat, Place, Round, Share
from domain.queries import Query
from domain.readable import Readable


@dataclass(frozen=True, slots=True)
class OrderResponse(Readable):
    """The order; its legs with the openings of their slots; shares, rounds and panels of all legs; escrow; payments.

    Example::

        found = order.details()
        print(found.order.state.name, len(found.shares), found.payments)
    """

    order: Order
    legs: Annotated[tuple[Leg, ...], Many]
    openings: Annotated[tuple[SlotOpening, ...], Many]
    shares: Annotated[tuple[Share, ...], Many]
    rounds: Annotated[tuple[Round, ...], Many]
    panels: Annotated[tuple[Panel, ...], Many]
    escrow: Escrow
    payments: Annotated[tuple[Payment, ...], Many]

    @property
    def current(self) -> Leg | None:
        """The current (or last) leg; None before the first match."""
        return self.leg(self.order.legs)

    def leg(self, number: int) -> Leg | None:
        """Return the leg with this number, or None."""
        for found in self.legs:
            if found.number == number:
                return found
        return None

    def opening_local(self, leg: int, slot: int) -> bytes:
        """Return the root of the local state that a slot of a leg starts from."""
        for found in self.openings:
            if (found.leg, found.slot) == (leg, slot):
                return found.local_root
        return self.order.terms.local_root

    def rounds_of(self, leg: int) -> tuple[Round, ...]:
        """Return the closed rounds of a leg, in order."""
        return tuple(found for found in self.rounds if found.leg == leg)

    def round(self, leg: int, round: int) -> Round | None:
        """Return a closed round."""
        for found in self.rounds:
            if found.round == round and found.leg == leg:
                return found
        return None

    def share(self, key: ShareKey) -> Share | None:
        """Return a share of this order."""
        where = key.leg, key.round, key.slot, key.issue
        for share in self.shares:
            claim = share.claim
            if (claim.leg, claim.round, claim.slot, claim.issue) == where:
                return share if claim.order_id == key.order_id else None
        return None

    def shares_of(self, leg: int, round: int) -> dict[tuple[int, int], Share]:
        """Return the shares of a round by slot and issue."""
        return {
            (share.claim.slot, share.claim.issue): share
            for share in self.shares
            if (share.claim.leg, share.claim.round) == (leg, round)
        }

    def panel(self, leg: int, round: int) -> Panel | None:
        """Return the panel of a round."""
        return next((p for p in self.panels if (p.leg, p.round) == (leg, round)), None)


@dataclass(frozen=True, slots=True)
class OrderRequest(Query[OrderResponse]):
    """One order with everything about its current (or last) leg."""

    order_id: Hash


@dataclass(frozen=True, slots=True)
class PanelResponse:
    """A panel with all that a seat needs to know of its round, whatever its order's history.

    ``validator`` closed the round and serves it at ``accept_rate`` (bytes/s) at least, the seats of a stage have
    ``commit_seconds`` to commit, ``shares`` are accepted ones by slot, ``tier`` is the leg's.
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


@dataclass(frozen=True, slots=True)
class PanelRequest(Query[PanelResponse]):
    """The panel of a closed round; of its accepted shares those from slot ``from_slot`` on, at most ``limit``."""

    order_id: Hash
    leg: Count
    round: Count
    from_slot: Count = 0
    limit: Count = 0


@dataclass(frozen=True, slots=True)
class SeatsResponse:
    """Seats of a panel by number."""

    seats: Annotated[tuple[PanelSeat, ...], Many]


@dataclass(frozen=True, slots=True)
class SeatsRequest(Query[SeatsResponse]):
    """Seats of a panel from a number on."""

    order_id: Hash
    leg: Count
    round: Count
    from_number: Count = 0
    limit: Count = 0


@dataclass(frozen=True, slots=True)
class NumberedPlace:
    """The number of a place in its panel, which answers name, and the place."""

    number: Count
    place: Place


@dataclass(frozen=True, slots=True)
class PanelDuty:
    """A seat that has something to do: commit until ``commits_end``, then reveal until ``reveals_end``."""

    order_id: Hash
    leg: Count
    round: Count
    stage: Count
    seed: Hash
    places: Annotated[tuple[NumberedPlace, ...], Length(0, ANSWERS_MAX)]
    commits_end: Number
    reveals_end: Number
    commitment: MaybeHash

    @property
    def key(self) -> RoundKey:
        """The round that is recomputed."""
        return RoundKey(self.order_id, self.leg, self.round)


@dataclass(frozen=True, slots=True)
class PanelDutiesResponse:
    """Seats of a validator that have something to do, by round."""

    duties: Annotated[tuple[PanelDuty, ...], Many]
    clock: Number
    height: Number


@dataclass(frozen=True, slots=True)
class PanelDutiesRequest(Query[PanelDutiesResponse]):
    """Seats of a validator whose stage goes on and that have not revealed, behind the round that ended a page."""

    validator: Address
    limit: Count = 0
    after_order: MaybeHash = b""
    after_leg: Count = 0
    after_round: Count = 0

    def after(self, duty: PanelDuty) -> "PanelDutiesRequest":
        """Return the request for the page behind the one that ended with a duty."""
        return replace(self, after_order=duty.order_id, after_leg=duty.leg, after_round=duty.round)
