"""Answers about bids, orders and matches."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from chain.state_machine.component import Answer
from chain.state_machine.context import HEAD, NS, PARAMS
from chain.state_machine.market.auction import make_auction_order
from chain.state_machine.market.book import LivingBook, get_backing, version_of
from chain.state_machine.market.tables import (
    BIDS,
    BIDS_OF,
    ORDERS,
    ORDERS_OF_CONSUMER,
    ORDERS_OF_VALIDATOR,
)
from chain.state_machine.registry.members import get_promised
from chain.state_machine.store import Overlay, Reader
from chain.state_machine.tables import Part, Space, get_limit, take
from domain.amount import MONEY_MAX
from domain.market.queries import (
    BidsRequest,
    BidsResponse,
    OrdersRequest,
    OrdersResponse,
    SimulateMatchRequest,
    SimulateMatchResponse,
    ValidatorBacking,
)
from domain.market.records import ChallengeTerms, Order
from matching_engine.match import quote
from pol.rules.panels import compute_audit_ms, compute_window
from pol.rules.schedule import check_terms


def _bids(store: Overlay, request: BidsRequest) -> BidsResponse:
    limit = get_limit(request.limit)
    after = (request.after,) if request.after else ()
    if request.validator:
        owner = (request.validator,)
        names = BIDS_OF.keys(store, *owner, after=after and (*owner, *after))
        bids = take((BIDS.must(store, bid_id) for _, bid_id in names), limit)
    else:
        bids = tuple(BIDS.scan(store, after=after, limit=limit))
    owners = sorted({bid.validator for bid in bids})
    return BidsResponse(bids, tuple(_backing_of(store, owner) for owner in owners))


def _backing_of(store: Overlay, operator: str) -> ValidatorBacking:
    _, free_bond, free_stake, _ = get_backing(store, operator)
    return ValidatorBacking(validator=operator, free_stake=free_stake, free_bond=free_bond)


def _orders(store: Overlay, request: OrdersRequest) -> OrdersResponse:
    """Return the orders that a request selects. They are read from the smallest index that contains all of them."""
    index: Space = ORDERS
    owner: tuple[str, ...] = ()
    if request.consumer:
        index = ORDERS_OF_CONSUMER
        owner = (request.consumer,)
    elif request.validator:
        index = ORDERS_OF_VALIDATOR
        owner = (request.validator,)
    after: tuple[Part, ...] = (*owner, request.after) if request.after else ()
    orders = (ORDERS.must(store, name) for *_, name in index.keys(store, *owner, after=after))
    fitting = (order for order in orders if _fits(store, order, request))
    return OrdersResponse(take(fitting, get_limit(request.limit)))


def _fits(store: Overlay, order: Order, request: OrdersRequest) -> bool:
    validator = request.validator
    known = not validator or ORDERS_OF_VALIDATOR.has(store, validator, order.id)
    return known and request.state in (0, order.state)


def simulate_match(reader: Reader, request: SimulateMatchRequest, book: LivingBook) -> SimulateMatchResponse:
    """Return the result that the next auction would have for an order like the request.

    The auction's own code computes it.
    """
    check_terms(request.terms)
    store = Overlay(reader)
    head = HEAD.must(store)
    params = PARAMS.get(store).for_order()
    audit_ms = compute_audit_ms(request.terms, params, get_promised(store))
    window = compute_window(params, audit_ms)
    challenges = ChallengeTerms(wait=request.challenge_wait)
    asked = replace(
        make_auction_order(request.terms, request.conditions, params, audit_ms, window, challenges),
        price_limit=request.price_limit or MONEY_MAX,
        seconds_left=request.deadline,
        opened_height=head.height + 1,
    )
    if not request.price_limit:
        asked = replace(asked, job_bond_bps=0, payload_fee=0)
    standing = book.at(store, version_of(store))
    quoted = quote(asked, standing, head.beacon, head.clock_ns // NS)
    return SimulateMatchResponse(quoted.candidates, quoted.histogram)


def _simulate_match(store: Overlay, request: SimulateMatchRequest) -> SimulateMatchResponse:
    return simulate_match(store, request, LivingBook())


ANSWERS: Mapping[type, Answer] = MappingProxyType(
    {
        BidsRequest: _bids,
        OrdersRequest: _orders,
        SimulateMatchRequest: _simulate_match,
    }
)
