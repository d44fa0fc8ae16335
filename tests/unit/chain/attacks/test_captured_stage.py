"""A coalition that happens to have all seats of a first stage.

Three seats of a third of the stake used to void one round in 27, and take the winner's job bond.
"""

from dataclasses import replace

from domain.legs.records import LegState
from domain.params import local_params
from domain.proof.records import Ruling, SeatAnswer
from tests.support.chain_market import Market, digest, submit


def test_the_first_stage_alone_voids_nothing() -> None:
    market = Market(local_params().replace(auditors=3), validators=14)
    order_id = market.run(submit(deposit=600_000))
    bond = market.chain.bond("v0")
    market.train_round(order_id)
    market.wait_stage(order_id)
    lie = tuple(
        replace(a, root=digest("lie"), digest=digest("agreed"), earlier=(digest("agreed"),) * len(a.earlier))
        for a in market.answers(order_id)
    )
    liars = market.seated(order_id)
    market.say(order_id, dict.fromkeys(liars, lie))
    assert market.leg(order_id).state is LegState.RUNNING
    market.wait_stage(order_id, stage=2)
    seats = market.seated(order_id, stage=2)
    assert len(seats) == 6
    market.say(order_id, dict.fromkeys(seats, market.answers(order_id)))
    assert [place.ruling for place in market.panel(order_id, 0).places] == [Ruling.RIGHT] * 5
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    assert market.round(order_id, 0).verified
    assert market.chain.bond("v0") == bond
    refuted = {event.get("auditor") for event in market.chain.seen("panel.differed")}
    assert refuted == set(liars)


def test_a_wrong_round_is_void_after_two_stages_that_agree() -> None:
    market = Market(local_params().replace(auditors=3), validators=14)
    order_id = market.run(submit(deposit=600_000))
    market.train_round(order_id)

    def found() -> tuple[SeatAnswer, ...]:
        return tuple(replace(a, root=digest("the right root")) for a in market.answers(order_id))

    for stage in (1, 2):
        market.wait_stage(order_id, 0, stage)
        market.say(order_id, dict.fromkeys(market.seated(order_id, 0, stage), found()))
    market.let_stand(order_id)
    assert market.round_of(order_id, 1, 0).void
    assert len(market.chain.seen("panel.stage")) == 2
