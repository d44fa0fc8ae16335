"""Answers about bids and orders, and what the next auction would do."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from chain.state_machine.context import HEAD, NS, PARAMS
from chain.state_machine.ledger.tables import BOND_ROWS, ESCROWS, PAYMENTS
from chain.state_machine.market.book import LivingBook, version_of
from chain.state_machine.market.tables import (
    ASSIGNMENTS,
    BIDS,
    BIDS_OF,
    ORDERS,
    ORDERS_OF_CONSUMER,
    ORDERS_OF_VALIDATOR,
)
from chain.state_machine.proof.tables import AUDITS, REPORTS, ROUNDS, SHARES
from chain.state_machine.store import Overlay, Reader
from chain.state_machine.tables import Part, Space, get_limit, take
from domain import queries as q
from domain.records import Order
from matching_engine.match import quote
from matching_engine.records import Asked


def _bids(store: Overlay, request: q.BidsRequest) -> q.BidsResponse:
    limit = get_limit(request.limit)
    after = (request.after,) if request.after else ()
    if not request.validator:
        return q.BidsResponse(tuple(BIDS.scan(store, after=after, limit=limit)))
    owner = (request.validator,)
    names = BIDS_OF.keys(store, *owner, after=after and (*owner, *after))
    return q.BidsResponse(take((BIDS.must(store, bid_id) for _, bid_id in names), limit))


def _orders(store: Overlay, request: q.OrdersRequest) -> q.OrdersResponse:
    """Walk the narrowest index that there is, and look at each order."""
    index: Space = ORDERS
    owner: tuple[str, ...] = ()
    if request.consumer:
        index, owner = ORDERS_OF_CONSUMER, (request.consumer,)
    elif request.validator:
        index, owner = ORDERS_OF_VALIDATOR, (request.validator,)
    after: tuple[Part, ...] = (*owner, request.after) if request.after else ()
    orders = (ORDERS.must(store, name) for *_, name in index.keys(store, *owner, after=after))
    fitting = (order for order in orders if _fits(store, order, request))
    return q.OrdersResponse(take(fitting, get_limit(request.limit)))


def _fits(store: Overlay, order: Order, request: q.OrdersRequest) -> bool:
    validator = request.validator
    known = not validator or ORDERS_OF_VALIDATOR.has(store, validator, order.id)
    return known and request.state in (0, order.state)


def _order(store: Overlay, request: q.OrderRequest) -> q.OrderResponse:
    order_id = request.order_id
    order = ORDERS.need(store, order_id)
    escrow = replace(ESCROWS.must(store, order_id), bonds=tuple(BOND_ROWS.scan(store, order_id)))
    return q.OrderResponse(
        order=order,
        assignments=tuple(ASSIGNMENTS.scan(store, order_id)),
        shares=tuple(SHARES.scan(store, order_id)),
        rounds=tuple(ROUNDS.scan(store, order_id)),
        audits=tuple(AUDITS.scan(store, order_id)),
        reports=tuple(REPORTS.scan(store, order_id)),
        escrow=escrow,
        payments=tuple(PAYMENTS.scan(store, order_id)),
    )


def simulate_match(
    reader: Reader, request: q.SimulateMatchRequest, book: LivingBook
) -> q.SimulateMatchResponse:
    """Tell what the next auction would do with such an order: the same function with the same book."""
    store = Overlay(reader)
    head, params = HEAD.must(store), PARAMS.must(store)
    asked = Asked(
        order_id=bytes(32),
        work=request.work,
        price_limit=request.price_limit,
        conditions=request.conditions,
        excluded=(),
        seconds_left=request.deadline,
        window_seconds=params.round_window,
        job_bond_bps=params.job_bond_bps,
        opened_height=head.height + 1,
    )
    standing = book.at(store, version_of(store))
    quoted = quote(asked, standing, head.last_hash, head.clock_ns // NS)
    return q.SimulateMatchResponse(quoted.candidates, quoted.histogram)


def _simulate_match(store: Overlay, request: q.SimulateMatchRequest) -> q.SimulateMatchResponse:
    return simulate_match(store, request, LivingBook())


ANSWERS: Mapping[type, Callable[[Overlay, Any], Any]] = MappingProxyType(
    {
        q.BidsRequest: _bids,
        q.OrdersRequest: _orders,
        q.OrderRequest: _order,
        q.SimulateMatchRequest: _simulate_match,
    }
)
