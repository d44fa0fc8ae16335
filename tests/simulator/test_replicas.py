"""Orders with replicas in markets: the consumer sees to each replica, and validators that collude lose."""

from collections.abc import Callable
from functools import partial
from statistics import fmean

import pytest

from domain.market.reasons import CloseReason
from domain.proof.events import PanelSkipped, RoundCompared
from domain.proof.reasons import Comparison
from domain.vocabulary import changes_of
from localnet.simulator.behaviours import Accomplice, Cheat, HonestProvider, HonestValidator
from localnet.simulator.scenarios.markets import Market, describe_market, make_world
from localnet.simulator.scenarios.tiers import RARE
from localnet.simulator.setups import Kind, Shape, make_setup
from localnet.simulator.world import World
from localnet.simulator.worth import play_wealth
from pol.rules.tiers.replicated import REPLICATED

COLLUDERS = ("v0", "v1")
PROVIDERS = tuple(f"{name}p{rank}" for name in COLLUDERS for rank in range(3))
DRAWS = 12


def test_random_markets_have_orders_with_replicas() -> None:
    world = World(make_setup(4, Kind.HONEST, Shape(orders=6, spread=20)))
    world.run()
    answers = [world.order(order.order_id) for order in world.orders if order.order_id]
    replicas = [answer for answer in answers if answer.order.replicas]
    assert replicas
    assert all(answer.order.close_reason == CloseReason.SETTLED for answer in replicas)
    assert len({answer.legs[0].validator for answer in replicas}) > 1
    outcomes = {change.outcome for change in changes_of(RoundCompared, world.chain.events)}
    assert outcomes == {Comparison.CONFIRMED}


def collude(*, is_wicked: bool) -> Market:
    """Return a market whose cheapest validators and their providers make up the same rounds, if they are wicked."""
    friends = frozenset((*COLLUDERS, *PROVIDERS))
    swaps: dict[str, Callable[[], HonestProvider | HonestValidator]] = {}
    for name in COLLUDERS:
        swaps[name] = partial(Accomplice, friends)
    for name in PROVIDERS:
        swaps[name] = partial(Cheat, name, ("agreed",), 100)
    return Market(tier=REPLICATED.name, rounds=8, params=RARE, swaps=swaps if is_wicked else {})


def test_rounds_that_all_validators_made_up_confirm_each_other() -> None:
    """So only a lot finds them."""
    world = make_world(collude(is_wicked=True), 1)
    world.run()
    outcomes = [change.outcome for change in changes_of(RoundCompared, world.chain.events)]
    assert Comparison.CONFIRMED in outcomes
    assert any(True for _ in changes_of(PanelSkipped, world.chain.events))


@pytest.mark.nightly
def test_validators_that_make_up_the_same_rounds_lose_on_average() -> None:
    gains = []
    for draw in range(1, DRAWS + 1):
        honest, wicked = (play_wealth(describe_market(collude(is_wicked=case), draw)) for case in (False, True))
        gains.append(sum(wicked[name] - honest[name] for name in (*COLLUDERS, *PROVIDERS)))
    assert fmean(gains) < 0
    assert any(gain < 0 for gain in gains)
