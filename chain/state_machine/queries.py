"""Answers to queries: pure functions of a state. Lists are in key order and cut at a limit."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Any, TypeVar

from chain.state_machine import keys
from chain.state_machine.context import NS
from chain.state_machine.market.auction import get_standing
from chain.state_machine.market.orders import LIVE
from chain.state_machine.store import Overlay, Reader
from chain.state_machine.tables import (
    ACCOUNTS,
    ASSIGNMENTS,
    AUDITS,
    BIDS,
    BOND_ROWS,
    ESCROWS,
    HEAD,
    ORDERS,
    PARAMS,
    PAYMENTS,
    PROVIDERS,
    REPORTS,
    ROUNDS,
    SHARES,
    get_bond_account,
    get_number,
    get_validators,
    number_of,
)
from chain.state_machine.tables import get_balance as read_balance
from domain import queries as q
from domain.bounds import check
from domain.errors import NOT_FOUND, UNKNOWN_REQUEST, Refusal
from domain.limits import QUERY_LIMIT_MAX
from domain.records import Account, Coin, Order
from matching_engine.book import Book
from matching_engine.match import quote
from matching_engine.records import Asked

R = TypeVar("R")
LIMIT_DEFAULT = 100


def answer(reader: Reader, request: q.Query[R]) -> R:
    """Answer a request of ``domain.queries`` (all but events, which lie beside the state).

    A Refusal names what is not there, or the path of a field that is out of its bounds.
    """
    found = _ANSWERS.get(type(request))
    if found is None:
        name = type(request).__name__
        raise Refusal(UNKNOWN_REQUEST, "request", f"{name} is not answered here", "ask the node")
    check(request)
    response: R = found(Overlay(reader), request)
    return response


def get_account(reader: Reader, address: str) -> Account | None:
    """Return an account, or None."""
    return ACCOUNTS.get(Overlay(reader), address)


def get_balance(reader: Reader, address: str, denom: str) -> int:
    """Return a balance; 0 for what is not known."""
    return read_balance(Overlay(reader), address, denom)


def get_balances(reader: Reader, address: str) -> tuple[Coin, ...]:
    """Return all balances above 0 of an address, by denomination."""
    found = Overlay(reader).scan_records(int, keys.balance(address))
    return tuple(Coin(keys.parts_of(key)[1].decode(), amount) for key, amount in found if amount)


def _status(store: Overlay, _: q.StatusRequest) -> q.StatusResponse:
    """App hash and mode are the node's to fill in."""
    head = HEAD.must(store)
    return q.StatusResponse(
        chain_id=head.chain_id,
        height=head.height,
        time_ns=head.time_ns,
        clock=head.clock_ns // NS,
        next_event=get_number(store, keys.next_event()),
        app_hash=b"",
        solo=False,
    )


def _params(store: Overlay, _: q.ParamsRequest) -> q.ParamsResponse:
    return q.ParamsResponse(PARAMS.must(store))


def _account(store: Overlay, request: q.AccountRequest) -> q.AccountResponse:
    address = request.address
    account = ACCOUNTS.get(store, address)
    if account is None:
        reason = f"account {address} not found"
        raise Refusal(NOT_FOUND, "address", reason, "an account exists once coins were sent to it")
    balance = read_balance(store, address, HEAD.must(store).denom)
    return q.AccountResponse(account, balance, get_bond_account(store, address))


def _validators(store: Overlay, _: q.ValidatorsRequest) -> q.ValidatorsResponse:
    return q.ValidatorsResponse(tuple(get_validators(store)))


def _providers(store: Overlay, request: q.ProvidersRequest) -> q.ProvidersResponse:
    limit = _limit(request.limit)
    if not request.validator:
        after = keys.provider(request.after) if request.after else b""
        return q.ProvidersResponse(tuple(PROVIDERS.scan(store, after=after, limit=limit)))
    after = keys.cluster(request.validator, request.after) if request.after else b""
    names = (
        keys.parts_of(key)[1] for key in store.scan_keys(keys.cluster(request.validator), after)
    )
    found = (PROVIDERS.must(store, name.decode()) for name in names)
    return q.ProvidersResponse(_take(found, limit))


def _bids(store: Overlay, request: q.BidsRequest) -> q.BidsResponse:
    limit = _limit(request.limit)
    if not request.validator:
        after = keys.bid(request.after) if request.after else b""
        return q.BidsResponse(tuple(BIDS.scan(store, after=after, limit=limit)))
    after = keys.bid_of(request.validator, request.after) if request.after else b""
    ids = (keys.parts_of(key)[1] for key in store.scan_keys(keys.bid_of(request.validator), after))
    return q.BidsResponse(_take((BIDS.must(store, bid_id) for bid_id in ids), limit))


def _orders(store: Overlay, request: q.OrdersRequest) -> q.OrdersResponse:
    """Walk the narrowest index that there is, and look at each order."""
    key: Callable[..., bytes]
    parts: tuple[str, ...]
    if request.consumer:
        key, parts = keys.order_of_consumer, (request.consumer,)
    elif request.validator:
        key, parts = keys.order_of_validator, (request.validator,)
    else:
        key, parts = keys.order, ()
    after = key(*parts, request.after) if request.after else b""
    ids = (keys.parts_of(found)[-1] for found in store.scan_keys(key(*parts), after))
    orders = (ORDERS.must(store, order_id) for order_id in ids)
    fitting = (order for order in orders if _fits(store, order, request))
    return q.OrdersResponse(_take(fitting, _limit(request.limit)))


def _fits(store: Overlay, order: Order, request: q.OrdersRequest) -> bool:
    validator = request.validator
    known = not validator or store.get(keys.order_of_validator(validator, order.id)) is not None
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


def _duties(store: Overlay, request: q.DutiesRequest) -> q.DutiesResponse:
    name = request.validator
    assignments = []
    for key in store.scan_keys(keys.live_assignment(name)):
        _, order_id, attempt = keys.parts_of(key)
        assignment = ASSIGNMENTS.must(store, order_id, number_of(attempt))
        if assignment.state in LIVE:
            assignments.append(assignment)
    audits = []
    for key in store.scan_keys(keys.duty(name)):
        _, order_id, attempt, number = keys.parts_of(key)
        audit = AUDITS.must(store, order_id, number_of(attempt), number_of(number))
        audits.append(
            q.AuditDuty(order_id, audit.attempt, audit.round, audit.places, audit.draw_ends)
        )
    head = HEAD.must(store)
    return q.DutiesResponse(tuple(assignments), tuple(audits), head.clock_ns // NS, head.height)


def _simulate_match(store: Overlay, request: q.SimulateMatchRequest) -> q.SimulateMatchResponse:
    """What the next auction would do with such an order: the same function with the same book."""
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
    quoted = quote(asked, Book(get_standing(store)), head.last_hash, head.clock_ns // NS)
    return q.SimulateMatchResponse(quoted.candidates, quoted.histogram)


def _limit(limit: int) -> int:
    return min(limit or LIMIT_DEFAULT, QUERY_LIMIT_MAX)


def _take(found: Any, limit: int) -> tuple[Any, ...]:
    return tuple(islice(found, limit))


_ANSWERS: Mapping[type, Callable[[Overlay, Any], Any]] = MappingProxyType(
    {
        q.StatusRequest: _status,
        q.ParamsRequest: _params,
        q.AccountRequest: _account,
        q.ValidatorsRequest: _validators,
        q.ProvidersRequest: _providers,
        q.BidsRequest: _bids,
        q.OrdersRequest: _orders,
        q.OrderRequest: _order,
        q.DutiesRequest: _duties,
        q.SimulateMatchRequest: _simulate_match,
    }
)
