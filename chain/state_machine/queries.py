"""Answers to queries: pure functions of a state. Lists are in key order and cut at a limit."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from chain.state_machine.context import HEAD, NEXT_EVENT, NS, PARAMS
from chain.state_machine.ledger.tables import (
    ACCOUNTS,
    BALANCES,
    BOND_ROWS,
    ESCROWS,
    PAYMENTS,
    SUPPLY,
    get_bond_account,
)
from chain.state_machine.market.auction import make_asked
from chain.state_machine.market.book import LivingBook, version_of
from chain.state_machine.market.tables import (
    BIDS,
    BIDS_OF,
    LEGS,
    LIVE_LEGS,
    ORDERS,
    ORDERS_OF_CONSUMER,
    ORDERS_OF_VALIDATOR,
    SLOT_OPENINGS,
)
from chain.state_machine.proof.tables import (
    PANEL_DUTIES,
    PANELS,
    ROUNDS,
    SEATS,
    SHARES,
)
from chain.state_machine.registry.members import get_promised
from chain.state_machine.registry.tables import CLUSTERS, PROVIDERS, VALIDATORS
from chain.state_machine.store import Overlay, Reader
from chain.state_machine.tables import Part, R, Space, get_limit, number_of, take
from domain.amount import MONEY_MAX
from domain.bounds import check
from domain.errors import NOT_FOUND, UNKNOWN_REQUEST, Refusal
from domain.keys import RoundKey
from domain.ledger.queries import AccountRequest, AccountResponse
from domain.ledger.records import Account, Coin
from domain.legs.queries import DutiesRequest, DutiesResponse
from domain.market.queries import (
    BidsRequest,
    BidsResponse,
    OrdersRequest,
    OrdersResponse,
    SimulateMatchRequest,
    SimulateMatchResponse,
)
from domain.market.records import Order
from domain.node.queries import ParamsRequest, ParamsResponse, StatusRequest, StatusResponse
from domain.proof.queries import (
    NumberedPlace,
    OrderRequest,
    OrderResponse,
    PanelDutiesRequest,
    PanelDutiesResponse,
    PanelDuty,
    PanelRequest,
    PanelResponse,
    SeatsRequest,
    SeatsResponse,
)
from domain.queries import Query
from domain.registry.queries import (
    ProviderRequest,
    ProviderResponse,
    ProvidersRequest,
    ProvidersResponse,
    ValidatorsRequest,
    ValidatorsResponse,
)
from matching_engine.match import quote
from pol.rules.panels import compute_audit_ms, compute_window
from pol.rules.schedule import check_terms


def answer(reader: Reader, request: Query[R]) -> R:
    """Answer a request of ``domain.queries`` (all but events, which lie beside the state).

    A Refusal names what is not there, or the path of a field that is out of its bounds.
    """
    found = ANSWERS.get(type(request))
    if found is None:
        name = type(request).__name__
        raise Refusal(UNKNOWN_REQUEST, "request", f"{name} is not answered here", "ask the node")
    check(request)
    response: R = found(Overlay(reader), request)
    return response


def _status(store: Overlay, _: StatusRequest) -> StatusResponse:
    """App hash and mode are the node's to fill in."""
    head = HEAD.must(store)
    return StatusResponse(
        chain_id=head.chain_id,
        height=head.height,
        time_ns=head.time_ns,
        clock=head.clock_ns // NS,
        next_event=NEXT_EVENT.get(store),
        app_hash=b"",
        solo=False,
    )


def _params(store: Overlay, _: ParamsRequest) -> ParamsResponse:
    return ParamsResponse(PARAMS.must(store))


# --- accounts ------------------------------------------------------------------------------------


def get_account(reader: Reader, address: str) -> Account | None:
    """Return an account, or None."""
    return ACCOUNTS.get(Overlay(reader), address)


def get_balance(reader: Reader, address: str, denom: str) -> int:
    """Return a balance; 0 for what is not known."""
    return BALANCES.get(Overlay(reader), address, denom)


def get_balances(reader: Reader, address: str) -> tuple[Coin, ...]:
    """Return all balances above 0 of an address, by denomination."""
    found = BALANCES.scan(Overlay(reader), address)
    return tuple(Coin(denom.decode(), amount) for (_, denom), amount in found if amount)


def get_supply(reader: Reader) -> Coin:
    """Return all coins that there are, those that were burnt included."""
    store = Overlay(reader)
    return Coin(HEAD.must(store).denom, SUPPLY.get(store))


def _account(store: Overlay, request: AccountRequest) -> AccountResponse:
    address = request.address
    account = ACCOUNTS.get(store, address)
    if account is None:
        reason = f"account {address} not found"
        raise Refusal(NOT_FOUND, "address", reason, "an account exists once coins were sent to it")
    balance = BALANCES.get(store, address, HEAD.must(store).denom)
    return AccountResponse(account, balance, get_bond_account(store, address))


# --- members -------------------------------------------------------------------------------------


def _validators(store: Overlay, _: ValidatorsRequest) -> ValidatorsResponse:
    return ValidatorsResponse(tuple(VALIDATORS.scan(store)))


def _providers(store: Overlay, request: ProvidersRequest) -> ProvidersResponse:
    limit = get_limit(request.limit)
    after = (request.after,) if request.after else ()
    if not request.validator:
        return ProvidersResponse(tuple(PROVIDERS.scan(store, after=after, limit=limit)))
    cluster = (request.validator,)
    members = CLUSTERS.keys(store, *cluster, after=after and (*cluster, *after))
    found = (PROVIDERS.must(store, name.decode()) for _, name in members)
    return ProvidersResponse(take(found, limit))


def _provider(store: Overlay, request: ProviderRequest) -> ProviderResponse:
    return ProviderResponse(PROVIDERS.get(store, request.address))


# --- bids and orders -----------------------------------------------------------------------------


def _bids(store: Overlay, request: BidsRequest) -> BidsResponse:
    limit = get_limit(request.limit)
    after = (request.after,) if request.after else ()
    if not request.validator:
        return BidsResponse(tuple(BIDS.scan(store, after=after, limit=limit)))
    owner = (request.validator,)
    names = BIDS_OF.keys(store, *owner, after=after and (*owner, *after))
    return BidsResponse(take((BIDS.must(store, bid_id) for _, bid_id in names), limit))


def _orders(store: Overlay, request: OrdersRequest) -> OrdersResponse:
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
    return OrdersResponse(take(fitting, get_limit(request.limit)))


def _fits(store: Overlay, order: Order, request: OrdersRequest) -> bool:
    validator = request.validator
    known = not validator or ORDERS_OF_VALIDATOR.has(store, validator, order.id)
    return known and request.state in (0, order.state)


def _order(store: Overlay, request: OrderRequest) -> OrderResponse:
    order_id = request.order_id
    order = ORDERS.need(store, order_id)
    escrow = replace(ESCROWS.must(store, order_id), bonds=tuple(BOND_ROWS.scan(store, order_id)))
    return OrderResponse(
        order=order,
        legs=tuple(LEGS.scan(store, order_id)),
        openings=tuple(SLOT_OPENINGS.scan(store, order_id)),
        shares=tuple(SHARES.scan(store, order_id)),
        rounds=tuple(ROUNDS.scan(store, order_id)),
        panels=tuple(PANELS.scan(store, order_id)),
        escrow=escrow,
        payments=tuple(PAYMENTS.scan(store, order_id)),
    )


def simulate_match(
    reader: Reader, request: SimulateMatchRequest, book: LivingBook
) -> SimulateMatchResponse:
    """Tell what the next auction would do with such an order: the same function with the same book."""
    check_terms(request.terms)
    store = Overlay(reader)
    head, params = HEAD.must(store), PARAMS.must(store)
    kept = params.for_order()
    audit_ms = compute_audit_ms(request.terms, kept, get_promised(store))
    window = compute_window(kept, audit_ms)
    asked = replace(
        make_asked(request.terms, request.conditions, params.for_order(), window),
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


# --- duties --------------------------------------------------------------------------------------


def _duties(store: Overlay, request: DutiesRequest) -> DutiesResponse:
    name = request.validator
    legs = [
        LEGS.must(store, order_id, number_of(leg))
        for _, order_id, leg in LIVE_LEGS.keys(store, name)
    ]
    head = HEAD.must(store)
    return DutiesResponse(tuple(legs), head.clock_ns // NS, head.height)


# --- panels --------------------------------------------------------------------------------------


def _panel(store: Overlay, request: PanelRequest) -> PanelResponse:
    """All that a seat needs, and nothing that grows with the history of the order."""
    key = RoundKey(request.order_id, request.leg, request.round)
    panel = PANELS.need(store, *key)
    order = ORDERS.must(store, key.order_id)
    closed = ROUNDS.must(store, *key)
    accepted = (share for share in closed.share_keys if share.slot >= request.from_slot)
    return PanelResponse(
        terms=order.terms,
        price_limit=order.price_limit,
        validator=LEGS.must(store, key.order_id, key.leg).validator,
        window=order.window,
        round=closed,
        panel=panel,
        shares=tuple(
            SHARES.must(store, *share) for share in take(accepted, get_limit(request.limit))
        ),
        accept_rate=order.params.accept_rate,
    )


def _seats(store: Overlay, request: SeatsRequest) -> SeatsResponse:
    key = RoundKey(request.order_id, request.leg, request.round)
    after = (*key, request.from_number - 1) if request.from_number else ()
    limit = get_limit(request.limit)
    return SeatsResponse(tuple(SEATS.scan(store, *key, after=after, limit=limit)))


def _panel_duties(store: Overlay, request: PanelDutiesRequest) -> PanelDutiesResponse:
    name = request.validator
    behind = (name, request.after_order, request.after_leg, request.after_round)
    keys = PANEL_DUTIES.keys(store, name, after=behind if request.after_order else ())
    duties = (
        _panel_duty(store, name, RoundKey(order_id, number_of(leg), number_of(round)))
        for _, order_id, leg, round in keys
    )
    head = HEAD.must(store)
    found = take(duties, get_limit(request.limit))
    return PanelDutiesResponse(found, head.clock_ns // NS, head.height)


def _panel_duty(store: Overlay, name: str, key: RoundKey) -> PanelDuty:
    panel = PANELS.must(store, *key)
    seat = SEATS.must(store, *key, PANEL_DUTIES.get(store, name, *key) - 1)
    return PanelDuty(
        order_id=key.order_id,
        leg=key.leg,
        round=key.round,
        stage=panel.stage,
        seed=panel.seed,
        places=tuple(NumberedPlace(at, panel.places[at].place) for at in seat.places),
        commits_end=panel.commits_end,
        reveals_end=panel.reveals_end,
        commitment=seat.commitment,
    )


ANSWERS: Mapping[type, Callable[[Overlay, Any], Any]] = MappingProxyType(
    {
        StatusRequest: _status,
        ParamsRequest: _params,
        AccountRequest: _account,
        ValidatorsRequest: _validators,
        ProvidersRequest: _providers,
        ProviderRequest: _provider,
        BidsRequest: _bids,
        OrdersRequest: _orders,
        OrderRequest: _order,
        SimulateMatchRequest: _simulate_match,
        DutiesRequest: _duties,
        PanelRequest: _panel,
        SeatsRequest: _seats,
        PanelDutiesRequest: _panel_duties,
    }
)
