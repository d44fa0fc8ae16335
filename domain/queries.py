"""Queries as domain values: requests and responses; field names equal those of the protobuf messages.

Every request names its response as ``Query[Response]`` and is answered by one pure function of the state
(``chain.state_machine.queries``). Lists are in key order and cut at ``limit`` (0: the default of 100); ``after``
continues behind the id or address that ended the page.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from domain.params import Params
from domain.records import (
    Account,
    Assignment,
    Audit,
    Bid,
    BondAccount,
    Conditions,
    Escrow,
    Order,
    Payment,
    Place,
    Provider,
    Report,
    Round,
    Share,
    ShareKey,
    Validator,
)

R = TypeVar("R")


class Query(Generic[R]):
    """A question to which the chain answers with an ``R``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class StatusResponse:
    """``clock`` is the chain clock in seconds; ``next_event`` the number that the next event gets."""

    chain_id: str
    height: int
    time_ns: int
    clock: int
    next_event: int
    app_hash: bytes
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
    """The account, balance and bond account."""

    account: Account
    balance: int
    bond: BondAccount


@dataclass(frozen=True, slots=True)
class AccountRequest(Query[AccountResponse]):
    """An account with its balance in ``uassay`` and its bond account."""

    address: str


@dataclass(frozen=True, slots=True)
class ValidatorsResponse:
    """All validators by operator address."""

    validators: tuple[Validator, ...]


@dataclass(frozen=True, slots=True)
class ValidatorsRequest(Query[ValidatorsResponse]):
    """All validators."""


@dataclass(frozen=True, slots=True)
class ProvidersResponse:
    """Providers by address."""

    providers: tuple[Provider, ...]


@dataclass(frozen=True, slots=True)
class ProvidersRequest(Query[ProvidersResponse]):
    """Providers, of one validator if given."""

    validator: str
    limit: int
    after: str


@dataclass(frozen=True, slots=True)
class BidsResponse:
    """Bids by id."""

    bids: tuple[Bid, ...]


@dataclass(frozen=True, slots=True)
class BidsRequest(Query[BidsResponse]):
    """Bids in the book, of one validator if given."""

    validator: str
    limit: int
    after: bytes


@dataclass(frozen=True, slots=True)
class OrdersResponse:
    """Orders by id."""

    orders: tuple[Order, ...]


@dataclass(frozen=True, slots=True)
class OrdersRequest(Query[OrdersResponse]):
    """Orders: of a consumer, or with an assignment of a validator, or in a state (0: any), in any combination."""

    consumer: str
    validator: str
    state: int
    limit: int
    after: bytes


@dataclass(frozen=True, slots=True)
class OrderResponse:
    """The order; assignments of all attempts; shares, rounds, audits and reports of all attempts; escrow; payments."""

    order: Order
    assignments: tuple[Assignment, ...]
    shares: tuple[Share, ...]
    rounds: tuple[Round, ...]
    audits: tuple[Audit, ...]
    reports: tuple[Report, ...]
    escrow: Escrow
    payments: tuple[Payment, ...]

    @property
    def current(self) -> Assignment | None:
        """The assignment of the current (or last) attempt; None before the first match."""
        return self.assignment(self.order.attempt)

    def assignment(self, attempt: int) -> Assignment | None:
        """Return the assignment of an attempt."""
        return next((found for found in self.assignments if found.attempt == attempt), None)

    def rounds_of(self, attempt: int) -> tuple[Round, ...]:
        """Return the closed rounds of an attempt, in order."""
        return tuple(found for found in self.rounds if found.attempt == attempt)

    def round(self, attempt: int, number: int) -> Round | None:
        """Return a closed round."""
        return next((r for r in self.rounds if (r.attempt, r.number) == (attempt, number)), None)

    def share(self, key: ShareKey) -> Share | None:
        """Return a share of this order."""
        return next((share for share in self.shares if share.claim.key == key), None)

    def shares_of(self, attempt: int, number: int) -> dict[tuple[int, int], Share]:
        """Return the shares of a round by slot and issue."""
        return {
            (share.claim.slot, share.claim.issue): share
            for share in self.shares
            if (share.claim.attempt, share.claim.round) == (attempt, number)
        }

    def audit(self, attempt: int, number: int) -> Audit | None:
        """Return the audit of a round."""
        return next((a for a in self.audits if (a.attempt, a.round) == (attempt, number)), None)


@dataclass(frozen=True, slots=True)
class OrderRequest(Query[OrderResponse]):
    """One order with everything about its current (or last) attempt."""

    order_id: bytes


@dataclass(frozen=True, slots=True)
class AuditDuty:
    """A seat that has not answered yet."""

    order_id: bytes
    attempt: int
    round: int
    places: tuple[Place, ...]
    draw_ends: int


@dataclass(frozen=True, slots=True)
class DutiesResponse:
    """Live assignments of the validator (matched, running, proven), and audits that it has to answer."""

    assignments: tuple[Assignment, ...]
    audits: tuple[AuditDuty, ...]
    clock: int
    height: int


@dataclass(frozen=True, slots=True)
class DutiesRequest(Query[DutiesResponse]):
    """What a validator has to do now."""

    validator: str


@dataclass(frozen=True, slots=True)
class SimulateMatchResponse:
    """The best bid (none: empty ``bids``), the candidates in order, and how many failed on which predicate."""

    bids: tuple[Bid, ...]
    unmatched: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class SimulateMatchRequest(Query[SimulateMatchResponse]):
    """Would this match now? The same pure function that the auction runs."""

    conditions: Conditions
    work: int
    price_limit: int
    deadline: int  # seconds from now
    rounds: int


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """A numbered event with its height."""

    number: int
    height: int
    type: str
    attributes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class EventsResponse:
    """Events in order without gaps, and the number that the next one will get."""

    events: tuple[LoggedEvent, ...]
    next: int


@dataclass(frozen=True, slots=True)
class EventsRequest(Query[EventsResponse]):
    """Numbered events from ``since`` on, at most ``limit``; outside the Merkle tree."""

    since: int
    limit: int
