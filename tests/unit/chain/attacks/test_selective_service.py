"""A winner that serves one seat of three.

The two others can only say that the place is unavailable. They used to lose three times the cost of every place, at a
price that the winner's consumer chose: 38 % of the stake became 67 % in 17 orders.
"""

import pytest

from chain.state_machine.registry.tables import VALIDATORS
from domain.params import local_params
from domain.proof.records import Ruling
from tests.support.chain_market import PRICE, Market, submit

STAKE = 10**10


def lost(market: Market, *names: str) -> list[int]:
    return [STAKE - VALIDATORS.must(market.chain.overlay(), name).stake for name in names]


def serve_one(market: Market, order_id: bytes) -> tuple[str, ...]:
    """Play a round in which the first seat alone is served, and later stages in full; return those who got nothing."""
    market.train_round(order_id)
    round = market.leg(order_id).round - 1
    market.wait_stage(order_id, round)
    friend, *others = market.seated(order_id, round)
    said = dict.fromkeys(others, market.unavailable(order_id, round))
    market.say(order_id, {**said, friend: market.answers(order_id, round)}, round)
    for stage in (2, 3, 4):
        if not market.panel(order_id, round).undecided:
            break
        market.wait_stage(order_id, round, stage)
        seats = market.seated(order_id, round, stage)
        market.say(order_id, dict.fromkeys(seats, market.answers(order_id, round)), round)
    return tuple(others)


def test_honest_seats_that_were_not_served_lose_nothing() -> None:
    market = Market(local_params().replace(auditors=3), validators=14)
    order_id = market.run(submit(deposit=10**9, price_limit=1_000 * PRICE))
    unserved = serve_one(market, order_id)
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    assert market.round(order_id, 0).verified
    assert [place.ruling for place in market.panel(order_id, 0).places] == [Ruling.RIGHT] * 5
    assert lost(market, *market.validators) == [0] * 14
    assert not {event.get("auditor") for event in market.chain.seen("panel.paid")} & set(unserved)


def test_seventeen_orders_move_no_stake() -> None:
    market = Market(local_params().replace(auditors=3), validators=13)
    for _ in range(17):
        order_id = market.run(submit(deposit=10**9, price_limit=1_000 * PRICE))
        serve_one(market, order_id)
        market.chain.pass_until(market.round(order_id, 0).window_ends)
    assert lost(market, *market.validators) == [0] * 13


@pytest.mark.parametrize("price", [PRICE, 1_000 * PRICE])
def test_what_a_seat_loses_is_bounded_whatever_the_price_limit(price: int) -> None:
    """A seat that is silent, or refuted, loses at most a thousandth of its stake in a panel."""
    market = Market(local_params().replace(auditors=3, seat_cut_max_bps=10), validators=14, stake=10**7)
    order_id = market.run(submit(deposit=10**9, price_limit=price))
    market.train_round(order_id)
    market.wait_stage(order_id)
    silent, *others = market.seated(order_id)
    market.say(order_id, dict.fromkeys(others, market.answers(order_id)))
    market.chain.pass_until(market.panel(order_id, 0).reveals_end)
    assert VALIDATORS.must(market.chain.overlay(), silent).stake == 10**7 - 10**7 // 1_000
