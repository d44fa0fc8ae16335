"""Proposals change parameters while orders run and stake moves; every order ends by the rules it began with."""

from collections import Counter
from dataclasses import replace

import pytest

from localnet.simulator.setups import Kind, Shape, make_setup
from localnet.simulator.world import World

SHAPE = Shape(orders=8, spread=40)


@pytest.mark.parametrize(("seed", "kind"), [pytest.param(1, Kind.MIXED, marks=pytest.mark.nightly), (2, Kind.ROUGH)])
def test_parameters_change_while_orders_run(seed: int, kind: Kind) -> None:
    setup = make_setup(seed, kind, SHAPE)
    params = setup.params.replace(unbonding_time=20, voting_period=6, max_deposit_period=10)
    world = World(replace(setup, params=params, delegators=("dora", "dirk"), assembly=("anna", "abel")))
    world.run()
    seen = Counter(event.type for event in world.chain.events)
    for name in ("proposal_submitted", "voted", "proposal_ended", "deposit_returned", "parameter_changed"):
        assert seen[f"gov.{name}"], name
    world.chain.check_books()
