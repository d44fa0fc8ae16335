"""Answers about an order with its legs and rounds, and about panels and their seats."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from chain.state_machine.component import Answer
from chain.state_machine.context import HEAD, NS
from chain.state_machine.ledger.tables import (
    BOND_ROWS,
    ESCROWS,
    PAYMENTS,
)
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.left import must_find_round
from chain.state_machine.proof.replicas import get_wanted, holds_back
from chain.state_machine.proof.stages import get_commit_seconds
from chain.state_machine.proof.starts import get_starts
from chain.state_machine.proof.tables import (
    DELIVERIES,
    PANEL_DUTIES,
    PANELS,
    RECEIPT_ASKS,
    ROUNDS,
    SEATS,
    SHARES,
    WITNESS_DUTIES,
)
from chain.state_machine.queue import panel_key
from chain.state_machine.store import Overlay
from chain.state_machine.tables import get_limit, number_of, take
from domain.keys import PanelKey, RoundKey
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
    WitnessDutiesRequest,
    WitnessDutiesResponse,
)


def _order(store: Overlay, request: OrderRequest) -> OrderResponse:
    order_id = request.order_id
    order = ORDERS.need(store, order_id)
    escrow = replace(ESCROWS.must(store, order_id), bonds=tuple(BOND_ROWS.scan(store, order_id)))
    legs = tuple(LEGS.scan(store, order_id))
    return OrderResponse(
        order=order,
        legs=legs,
        starts=get_starts(store, order, legs),
        shares=tuple(SHARES.scan(store, order_id)),
        rounds=tuple(ROUNDS.scan(store, order_id)),
        panels=tuple(PANELS.scan(store, order_id)),
        escrow=escrow,
        payments=tuple(PAYMENTS.scan(store, order_id)),
        deliveries=tuple(DELIVERIES.scan(store, order_id)),
        asks=tuple(RECEIPT_ASKS.scan(store, order_id)),
        holds_back=bool(legs) and holds_back(store, order, legs[-1]),
        wanted=get_wanted(store, order),
    )


def _panel(store: Overlay, request: PanelRequest) -> PanelResponse:
    """Return everything that a seat needs for its duty. The order's history does not affect the size of the answer."""
    key = RoundKey(request.order_id, request.leg, request.round).panel(request.dispute)
    panel = PANELS.need(store, *key)
    order = ORDERS.must(store, key.order_id)
    leg = LEGS.must(store, key.order_id, key.leg)
    closed = must_find_round(store, key.round_key)
    standing = panel.standing
    keys = closed.share_keys if standing is None else (closed.key.share(standing.slot, standing.issue),)
    asked = (share for share in keys if share.slot >= request.from_slot)
    return PanelResponse(
        terms=order.terms,
        price_limit=order.price_limit,
        validator=leg.validator,
        commit_seconds=get_commit_seconds(order, leg, panel),
        round=closed,
        panel=panel,
        shares=tuple(SHARES.must(store, *share) for share in take(asked, get_limit(request.limit))),
        accept_rate=order.params.accept_rate,
        tier=leg.tier,
        order_key=order.order_key,
    )


def _seats(store: Overlay, request: SeatsRequest) -> SeatsResponse:
    key = RoundKey(request.order_id, request.leg, request.round).panel(request.dispute)
    after = (*key, request.from_number - 1) if request.from_number else ()
    limit = get_limit(request.limit)
    return SeatsResponse(tuple(SEATS.scan(store, *key, after=after, limit=limit)))


def _panel_duties(store: Overlay, request: PanelDutiesRequest) -> PanelDutiesResponse:
    name = request.validator
    after = (name, request.after_order, request.after_leg, request.after_round, request.after_dispute)
    keys = PANEL_DUTIES.keys(store, name, after=after if request.after_order else ())
    duties = (_panel_duty(store, name, panel_key(order_id, *numbers)) for _, order_id, *numbers in keys)
    head = HEAD.must(store)
    return PanelDutiesResponse(take(duties, get_limit(request.limit)), head.clock_ns // NS, head.height)


def _panel_duty(store: Overlay, name: str, key: PanelKey) -> PanelDuty:
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
        dispute=key.dispute,
        earlier_seeds=panel.earlier_seeds,
    )


def _witness_duties(store: Overlay, request: WitnessDutiesRequest) -> WitnessDutiesResponse:
    keys = take(WITNESS_DUTIES.keys(store, request.validator), get_limit(request.limit))
    return WitnessDutiesResponse(
        tuple(RECEIPT_ASKS.must(store, order_id, *map(number_of, numbers)) for _, order_id, *numbers in keys)
    )


ANSWERS: Mapping[type, Answer] = MappingProxyType(
    {
        OrderRequest: _order,
        PanelRequest: _panel,
        SeatsRequest: _seats,
        PanelDutiesRequest: _panel_duties,
        WitnessDutiesRequest: _witness_duties,
    }
)
