"""Queries that the market component answers."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Address, Count, Duration, Many, MaybeAddress, MaybeHash, Money, Range
from domain.limits import CHALLENGE_WAIT_MAX
from domain.market.records import Bid, Conditions, Histogram, JobTerms, Order, OrderState
from domain.queries import Query
from domain.readable import Readable


@dataclass(frozen=True, slots=True)
class ValidatorBacking:
    """A validator's free stake and free bond (``uassay``), which together back new matches of all its bids."""

    validator: Address
    free_stake: Money
    free_bond: Money


@dataclass(frozen=True, slots=True)
class BidsResponse:
    """Bids, sorted by id, and the backing of each validator that has one of these bids, sorted by address."""

    bids: Annotated[tuple[Bid, ...], Many]
    backings: Annotated[tuple[ValidatorBacking, ...], Many] = ()

    def backing(self, validator: str) -> ValidatorBacking | None:
        """Return the backing of a validator's bids.

        Return None if none of the bids in this answer is the validator's.
        """
        return next((backing for backing in self.backings if backing.validator == validator), None)


@dataclass(frozen=True, slots=True)
class BidsRequest(Query[BidsResponse]):
    """A request for the bids in the book: all bids, or the bids of one validator."""

    validator: MaybeAddress
    limit: Count
    after: MaybeHash


@dataclass(frozen=True, slots=True)
class OrdersResponse:
    """Orders, sorted by id."""

    orders: Annotated[tuple[Order, ...], Many]


@dataclass(frozen=True, slots=True)
class OrdersRequest(Query[OrdersResponse]):
    """A request for the orders of one consumer, with a leg of one validator, or in one state (0: any state). The
    conditions can be combined.
    """

    consumer: MaybeAddress
    validator: MaybeAddress
    state: Annotated[int, Range(0, max(OrderState))]
    limit: Count
    after: MaybeHash


@dataclass(frozen=True, slots=True)
class SimulateMatchResponse(Readable):
    """The bids that match an order, the best first, and the number of bids that fail each condition.

    Example::

        for bid in network.quote("my-job").match.bids:
            print(bid.validator, bid.offer.price)
    """

    bids: Annotated[tuple[Bid, ...], Many]
    unmatched: Histogram


@dataclass(frozen=True, slots=True)
class SimulateMatchRequest(Query[SimulateMatchResponse]):
    """A request for the bids that an order would match now. The auction uses the same function to find them.

    A price limit of 0 asks for bids at any price. The bonds are then not checked, because they grow with the price
    limit.
    """

    conditions: Conditions
    price_limit: Money
    deadline: Duration  # seconds from now
    terms: JobTerms
    challenge_wait: Annotated[int, Range(0, CHALLENGE_WAIT_MAX)] = 0
