"""Queries that the market component answers."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Address, Count, Duration, Many, MaybeAddress, MaybeHash, Money, Range
from domain.market.records import Bid, Conditions, Histogram, JobTerms, Order, OrderState
from domain.queries import Query
from domain.readable import Readable


@dataclass(frozen=True, slots=True)
class ValidatorBacking:
    """What a validator's bids may still take, all together: ``uassay`` of its stake and of its bond that are free."""

    validator: Address
    free_stake: Money
    free_bond: Money


@dataclass(frozen=True, slots=True)
class BidsResponse:
    """Bids by id, and what backs them: a record for each validator of these bids, by address."""

    bids: Annotated[tuple[Bid, ...], Many]
    backings: Annotated[tuple[ValidatorBacking, ...], Many] = ()

    def backing(self, validator: str) -> ValidatorBacking | None:
        """Return what backs a validator's bids; None where none of these bids is its own."""
        return next((found for found in self.backings if found.validator == validator), None)


@dataclass(frozen=True, slots=True)
class BidsRequest(Query[BidsResponse]):
    """Bids in the book, of one validator if given."""

    validator: MaybeAddress
    limit: Count
    after: MaybeHash


@dataclass(frozen=True, slots=True)
class OrdersResponse:
    """Orders by id."""

    orders: Annotated[tuple[Order, ...], Many]


@dataclass(frozen=True, slots=True)
class OrdersRequest(Query[OrdersResponse]):
    """Orders: of a consumer, or with a leg of a validator, or in a state (0: any), in any combination."""

    consumer: MaybeAddress
    validator: MaybeAddress
    state: Annotated[int, Range(0, max(OrderState))]
    limit: Count
    after: MaybeHash


@dataclass(frozen=True, slots=True)
class SimulateMatchResponse(Readable):
    """The best bid (none: empty ``bids``), the candidates in order, and how many failed on which condition.

    Example::

        for bid in network.quote("my-job").match.bids:
            print(bid.validator, bid.offer.price)
    """

    bids: Annotated[tuple[Bid, ...], Many]
    unmatched: Histogram


@dataclass(frozen=True, slots=True)
class SimulateMatchRequest(Query[SimulateMatchResponse]):
    """Would such an order match now? The same pure function that the auction runs.

    A price limit of 0 asks for bids at any price, and looks at no bonds, because those grow with the limit.
    """

    conditions: Conditions
    price_limit: Money
    deadline: Duration  # seconds from now
    terms: JobTerms
