"""Delegators in a market: stake comes, leaves and moves while orders run, and every coin is where the events say."""

from collections import Counter
from dataclasses import replace

import pytest

from localnet.simulator.setups import Kind, Shape, make_setup
from localnet.simulator.world import World

DELEGATORS = ("dora", "dirk", "dana")
SHAPE = Shape(orders=8, spread=40)


@pytest.mark.parametrize("kind", [Kind.MIXED, Kind.ROUGH])
def test_stake_moves_while_orders_run(kind: Kind) -> None:
    setup = make_setup(1, kind, SHAPE)
    params = setup.params.replace(unbonding_time=20)
    world = World(replace(setup, params=params, delegators=DELEGATORS))
    before = {name: world.worth(name) for name in DELEGATORS}
    world.run()
    seen = Counter(event.type for event in world.chain.events)
    for kind_of in ("delegated", "undelegated", "unbonding_completed", "redelegated", "redelegation_completed"):
        assert seen[f"staking.{kind_of}"], kind_of
    for name in DELEGATORS:
        # Fees and rewards apart, a delegator loses at most its part of what its validators lost.
        gained = world.chain.rewards.get(name, 0) - world.chain.fees.get(name, 0)
        assert 0 <= before[name] - world.worth(name) + gained <= before[name] // 50
