"""Queries as domain values: requests and responses; field names equal those of the protobuf messages.

Every request names its response as ``Query[Response]`` and is answered by one pure function of the state
(``chain.state_machine.queries``). Lists are in key order and cut at ``limit`` (0: the default of 100); ``after``
continues behind the id or address that ended the page.
"""

from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from domain.bounds import (
    Address,
    ChainId,
    Count,
    Duration,
    Hash,
    Length,
    Many,
    MaybeAddress,
    MaybeHash,
    Money,
    Number,
    Range,
    Size,
    Text,
    Visible,
)
from domain.limits import ANSWERS_MAX
from domain.params import Params, Rate
from domain.records import (
    Account,
    Assignment,
    Bid,
    BondAccount,
    Conditions,
    Escrow,
    Histogram,
    JobTerms,
    Order,
    OrderState,
    Panel,
    PanelSeat,
    Payment,
    Place,
    Provider,
    Round,
    RoundKey,
    Share,
    ShareKey,
    Validator,
)

AttributeValue = Annotated[str, Visible(), Size(0, 2**16)]

R = TypeVar("R")


class Query(Generic[R]):
    """A question to which the chain answers with an ``R``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class StatusResponse:
    """``clock`` is the chain clock in seconds; ``next_event`` the number that the next event gets.

    Example::

        print(network.client.status().height)
    """

    chain_id: ChainId
    height: Number
    time_ns: Number
    clock: Number
    next_event: Number
    app_hash: MaybeHash
    solo: bool


@dataclass(frozen=True, slots=True)
class StatusRequest(Query[StatusResponse]):
    """Where the chain stands."""


@dataclass(frozen=True, slots=True)
class ParamsResponse:
    """The parameters in force."""

    params: Params


@dataclass(frozen=True, slots=True)
class ParamsRequest(Query[ParamsResponse]):
    """The parameters in force."""


@dataclass(frozen=True, slots=True)
class AccountResponse:
    """The account, balance and bond account.

    Example::

        found = network.client.account(network.key.address)
        print(found.balance, found.bond.free)
    """

    account: Account
    balance: Money
    bond: BondAccount


@dataclass(frozen=True, slots=True)
class AccountRequest(Query[AccountResponse]):
    """An account with its balance in ``uassay`` and its bond account."""

    address: Address


@dataclass(frozen=True, slots=True)
class ValidatorsResponse:
    """All validators by operator address."""

    validators: Annotated[tuple[Validator, ...], Many]


@dataclass(frozen=True, slots=True)
class ValidatorsRequest(Query[ValidatorsResponse]):
    """All validators."""


@dataclass(frozen=True, slots=True)
class ProvidersResponse:
    """Providers by address."""

    providers: Annotated[tuple[Provider, ...], Many]


@dataclass(frozen=True, slots=True)
class ProvidersRequest(Query[ProvidersResponse]):
    """Providers, if given those that a validator admitted."""

    validator: MaybeAddress
    limit: Count
    after: MaybeAddress


@dataclass(frozen=True, slots=True)
class ProviderResponse:
    """A provider, wherever it is or asks to be."""

    provider: Provider | None


@dataclass(frozen=True, slots=True)
class ProviderRequest(Query[ProviderResponse]):
    """The provider of an address."""

    address: Address


@dataclass(frozen=True, slots=True)
class BidsResponse:
    """Bids by id."""

    bids: Annotated[tuple[Bid, ...], Many]


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
    """Orders: of a consumer, or with an assignment of a validator, or in a state (0: any), in any combination."""

    consumer: MaybeAddress
    validator: MaybeAddress
    state: Annotated[int, Range(0, max(OrderState))]
    limit: Count
    after: MaybeHash


@dataclass(frozen=True, slots=True)
class OrderResponse:
    """The order; assignments of all attempts; shares, rounds, and panels of all attempts; escrow; payments.

    Example::

        found = order.details()
        print(found.order.state.name, len(found.shares), found.payments)
    """

    order: Order
    assignments: Annotated[tuple[Assignment, ...], Many]
    shares: Annotated[tuple[Share, ...], Many]
    rounds: Annotated[tuple[Round, ...], Many]
    panels: Annotated[tuple[Panel, ...], Many]
    escrow: Escrow
    payments: Annotated[tuple[Payment, ...], Many]

    @property
    def current(self) -> Assignment | None:
        """The assignment of the current (or last) attempt; None before the first match."""
        return self.assignment(self.order.attempt)

    def assignment(self, attempt: int) -> Assignment | None:
        """Return the assignment of an attempt."""
        for found in self.assignments:
            if found.attempt == attempt:
                return found
        return None

    def rounds_of(self, attempt: int) -> tuple[Round, ...]:
        """Return the closed rounds of an attempt, in order."""
        return tuple(found for found in self.rounds if found.attempt == attempt)

    def round(self, attempt: int, round: int) -> Round | None:
        """Return a closed round."""
        for found in self.rounds:
            if found.round == round and found.attempt == attempt:
                return found
        return None

    def share(self, key: ShareKey) -> Share | None:
        """Return a share of this order."""
        where = key.attempt, key.round, key.slot, key.issue
        for share in self.shares:
            claim = share.claim
            if (claim.attempt, claim.round, claim.slot, claim.issue) == where:
                return share if claim.order_id == key.order_id else None
        return None

    def shares_of(self, attempt: int, round: int) -> dict[tuple[int, int], Share]:
        """Return the shares of a round by slot and issue."""
        return {
            (share.claim.slot, share.claim.issue): share
            for share in self.shares
            if (share.claim.attempt, share.claim.round) == (attempt, round)
        }

    def panel(self, attempt: int, round: int) -> Panel | None:
        """Return the panel of a round."""
        return next((p for p in self.panels if (p.attempt, p.round) == (attempt, round)), None)


@dataclass(frozen=True, slots=True)
class OrderRequest(Query[OrderResponse]):
    """One order with everything about its current (or last) attempt."""

    order_id: Hash


@dataclass(frozen=True, slots=True)
class DutiesResponse:
    """Live assignments of the validator (matched, running, proven)."""

    assignments: Annotated[tuple[Assignment, ...], Many]
    clock: Number
    height: Number


@dataclass(frozen=True, slots=True)
class DutiesRequest(Query[DutiesResponse]):
    """What a validator has to do now."""

    validator: Address


@dataclass(frozen=True, slots=True)
class PanelResponse:
    """A panel with all that a seat needs to know of its round, whatever its order's history.

    ``validator`` closed the round and serves it at ``accept_rate`` (bytes/s) at least, ``window`` is the order's
    (seconds), ``shares`` are accepted ones by slot.
    """

    terms: JobTerms
    price_limit: Money
    validator: Address
    window: Duration
    round: Round
    panel: Panel
    shares: Annotated[tuple[Share, ...], Many]
    accept_rate: Rate


@dataclass(frozen=True, slots=True)
class PanelRequest(Query[PanelResponse]):
    """The panel of a closed round; of its accepted shares those from slot ``from_slot`` on, at most ``limit``."""

    order_id: Hash
    attempt: Count
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
    attempt: Count
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
    attempt: Count
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
        return RoundKey(self.order_id, self.attempt, self.round)


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
    after_attempt: Count = 0
    after_round: Count = 0


@dataclass(frozen=True, slots=True)
class SimulateMatchResponse:
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


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """A numbered event with its height."""

    number: Number
    height: Number
    type: Text
    attributes: Annotated[tuple[tuple[Text, AttributeValue], ...], Many]


@dataclass(frozen=True, slots=True)
class EventsResponse:
    """Events in order without gaps, and the number that the next one will get."""

    events: Annotated[tuple[LoggedEvent, ...], Many]
    next: Number


@dataclass(frozen=True, slots=True)
class EventsRequest(Query[EventsResponse]):
    """Numbered events from ``since`` on, at most ``limit``; outside the Merkle tree."""

    since: Number
    limit: Count
