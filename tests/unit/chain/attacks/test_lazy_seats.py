"""Seats that are served everything and say that nothing was.

They used to be paid like those that recomputed the places, from the job bond of the honest winner.
"""

from domain.legs.records import LegState
from domain.params import local_params
from domain.proof.records import Ruling
from tests.support.chain_market import BOND, Market, submit


def test_lazy_seats_earn_nothing_and_ruin_nobody() -> None:
    market = Market(local_params().replace(auditors=3), validators=14)
    order_id = market.run(submit(deposit=600_000))
    bond = market.chain.bond("v0")
    market.train_round(order_id)
    market.wait_stage(order_id)
    lazy = market.seated(order_id)
    before = {name: market.chain.worth(name) for name in lazy}
    market.say(order_id, dict.fromkeys(lazy, market.unavailable(order_id)), leaves=())
    assert market.leg(order_id).state is LegState.RUNNING
    market.wait_stage(order_id, stage=2)
    seats = market.seated(order_id, stage=2)
    assert len(seats) == 6
    market.say(order_id, dict.fromkeys(seats, market.answers(order_id)))
    # Six of nine are two thirds, and not more: with an abstention the place needs more.
    market.wait_stage(order_id, stage=3)
    seats = market.seated(order_id, stage=3)
    market.say(order_id, dict.fromkeys(seats, market.answers(order_id)))
    assert [place.ruling for place in market.panel(order_id, 0).places] == [Ruling.RIGHT] * 5
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    assert market.round(order_id, 0).verified
    assert market.chain.bond("v0") == bond
    assert {name: market.chain.worth(name) for name in lazy} == before


def test_unavailable_earns_the_answer_fee_alone_where_it_is_the_ruling() -> None:
    market = Market(local_params().replace(auditors=3), validators=8)
    order_id = market.run(submit(deposit=600_000))
    market.train_round(order_id)
    before = {name: market.chain.worth(name) for name in market.validators if name != "v0"}
    market.fault_round(order_id)
    assert market.round_of(order_id, 1, 0).void
    earned = {name: market.chain.worth(name) - worth for name, worth in before.items()}
    assert set(earned.values()) == {100}
    assert market.chain.bond("v0") < BOND
