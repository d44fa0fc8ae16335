"""Validators that sign twice or stay away, delegators that move stake, and fees that others pay, while orders run.

Nobody gains by it: what is compared is the same market without the habit.
"""

from collections import Counter
from dataclasses import replace

import pytest

from chain.state_machine.slashing.tables import SIGNING_INFOS
from chain.state_machine.staking.tables import VALIDATOR_STAKES
from domain.market.reasons import CloseReason
from localnet.simulator.behaviours import SignsTwice
from localnet.simulator.coalitions import with_validators
from localnet.simulator.memory_chain import cons_address
from localnet.simulator.play import kind_of
from localnet.simulator.setups import Kind, Shape, make_setup
from localnet.simulator.world import Outage, Setup, World

SHAPE = Shape(orders=5, spread=30)
DELEGATORS = ("dora", "dirk")


def market(seed: int, kind: Kind, **changes: int) -> Setup:
    setup = make_setup(seed, kind, SHAPE)
    used = setup.params.replace(**{"unbonding_time": 20, **changes})
    return replace(setup, params=used, delegators=DELEGATORS)


def play(setup: Setup) -> tuple[World, Counter[str]]:
    """Play a market to its end, and return what happened in it by the kinds of events."""
    world = World(setup)
    world.run()
    world.chain.check_books()
    return world, Counter(event.type for event in world.chain.events)


def settled(world: World) -> int:
    answers = [world.order(order.order_id).order for order in world.orders if order.order_id]
    return sum(order.close_reason == CloseReason.SETTLED for order in answers)


def test_random_markets_have_each_habit() -> None:
    setups = [make_setup(seed, kind_of(seed), Shape(orders=1)) for seed in range(1, 21)]
    assert any(isinstance(plan.behaviour, SignsTwice) for setup in setups for plan in setup.validators)
    assert any(outage.misses_votes for setup in setups for outage in setup.outages)
    assert any(setup.sponsors for setup in setups)


def test_a_validator_that_signs_twice_is_jailed_for_good_and_only_it_loses() -> None:
    setup = market(1, Kind.HONEST)
    honest, _ = play(setup)
    world, seen = play(with_validators(setup, {"v1": SignsTwice(15_000)}))
    assert seen["slashing.evidence"] == seen["slashing.slashed"] == 1
    info = SIGNING_INFOS.must(world.chain.overlay(), cons_address("v1"))
    assert info.tombstoned
    assert settled(world) > 0
    assert world.chain.worth("v1") <= honest.chain.worth("v1")
    stakes = {stake.operator: stake for stake in VALIDATOR_STAKES.scan(world.chain.overlay())}
    assert stakes["v1"].jailed
    assert not any(stake.jailed for name, stake in stakes.items() if name != "v1")
    cut = [event for event in world.chain.events if event.type == "staking.cut"]
    assert {event.get("operator") for event in cut} == {"v1"}


def test_a_validator_that_stays_away_is_jailed_and_comes_back() -> None:
    setup = market(3, Kind.HONEST, signed_blocks_window=10, downtime_jail_duration=10)
    outage = Outage(10_000, 15_000, ("v1",), misses_votes=True)
    world, seen = play(replace(setup, outages=(outage,)))
    assert seen["slashing.jailed"] == seen["slashing.slashed"] == seen["staking.bonded"] == 1
    stakes = {stake.operator: stake for stake in VALIDATOR_STAKES.scan(world.chain.overlay())}
    assert not any(stake.jailed for stake in stakes.values())
    assert settled(world) > 0


@pytest.mark.parametrize(("seed", "kind"), [(1, Kind.MIXED), (2, Kind.ROUGH)])
def test_consumers_whose_fees_others_pay_gain_nothing(seed: int, kind: Kind) -> None:
    setup = market(seed, kind)
    consumers = sorted({plan.message.consumer for plan in setup.orders})
    world = World(replace(setup, sponsors=("gina",)))
    before = {name: world.worth(name) for name in (*consumers, "gina")}
    world.run()
    world.chain.check_books()
    seen = Counter(event.type for event in world.chain.events)
    assert world.chain.fees["gina"] > 0
    assert seen["feegrant.granted"]
    # A sponsor loses exactly the fees that it paid.
    assert before["gina"] - world.worth("gina") == world.chain.fees["gina"]
    for name in consumers:
        # What a consumer gets back for a failed order is no more than what it paid itself.
        assert world.worth(name) <= before[name]
