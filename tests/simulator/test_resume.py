"""A validator is gone for good after some verified rounds: its orders go on with another, to the same result."""

from dataclasses import replace

from domain.legs.reasons import LegEnd
from domain.market.reasons import CloseReason
from domain.proof.queries import OrderResponse
from localnet.simulator.behaviours import Vanisher
from localnet.simulator.coalitions import with_validators
from localnet.simulator.setups import Kind, Shape, make_setup
from localnet.simulator.world import World


def played(seed: int, *, keeps: bool, rounds: int = 1) -> tuple[World, list[OrderResponse]]:
    """Play a run in which ``v1`` vanishes; return its orders that had another leg after a verified round."""
    setup = make_setup(seed, Kind.HONEST, Shape(orders=16, spread=30))
    setup = with_validators(setup, {"v1": Vanisher(rounds)})
    plans = []
    for plan in setup.orders:
        habits = replace(plan.habits, keeps=keeps)
        message = replace(plan.message, rematch=True, deadline=1_500, time_to_live=300)
        plans.append(replace(plan, habits=habits, message=message))
    world = World(replace(setup, orders=tuple(plans)))
    world.run()
    answers = [world.order(order.order_id) for order in world.orders if order.order_id]
    return world, [answer for answer in answers if any(leg.from_leg for leg in answer.legs)]


def test_an_order_whose_validator_vanishes_ends_with_the_result_of_its_job() -> None:
    for seed in range(3, 30):  # whether the consumer has a copy in time depends on the moment
        world, resumed = played(seed, keeps=True)
        settled = [answer for answer in resumed if answer.order.close_reason == CloseReason.SETTLED]
        if settled:
            break
    assert settled
    for answer in settled:
        roots = world.job(answer.order.id).result_roots()
        verified = {closed.round: closed.next_root for closed in answer.rounds if closed.verified}
        assert [verified[round] for round in range(answer.order.terms.rounds)] == roots
        assert len({leg.validator for leg in answer.legs if leg.verified}) > 1


def test_without_a_copy_a_panel_says_so_and_the_order_starts_again_or_ends() -> None:
    _, resumed = played(11, keeps=False)
    ends = {LegEnd(leg.end_reason) for answer in resumed for leg in answer.legs if leg.from_leg and leg.end_reason}
    assert ends == {LegEnd.STATE_UNAVAILABLE}
    for answer in resumed:
        lacking = [leg for leg in answer.legs if leg.end_reason == LegEnd.STATE_UNAVAILABLE]
        assert {panel.asker for panel in answer.panels if panel.asker} == {leg.validator for leg in lacking}
        assert not any(payment.kind == "decline_fee" for payment in answer.payments)
        if answer.order.close_reason == CloseReason.SETTLED:
            assert (answer.legs[-1].first_round, answer.legs[-1].from_leg) == (0, 0)
        assert any(closed.verified for closed in answer.rounds)
