"""Challengers in a market: who looks finds what panels miss and is paid for it; who lies pays, and harms no one."""

from dataclasses import replace

import pytest

from chain.state_machine.disputes.tables import DISPUTES
from domain.disputes.records import Dispute, DisputeState
from domain.legs.reasons import LegEnd
from domain.proof.records import Ruling
from localnet.simulator.behaviours import Deed, FalseChallenger
from localnet.simulator.coalitions import Coalition, make_market, scheme
from localnet.simulator.setups import Shape
from localnet.simulator.world import ChallengerPlan, World

SHAPE = Shape(orders=6, spread=20, providers=21)


def played(*challengers: ChallengerPlan, seed: int = 1) -> tuple[World, list[Dispute]]:
    """Play a market with challengers, and return it with the challenges; in a stand a provider asks about its share."""
    world = World(replace(make_market(seed, SHAPE), challengers=challengers))
    world.run()
    return world, [dispute for dispute in DISPUTES.scan(world.chain.overlay()) if dispute.share is None]


def test_who_looks_at_right_rounds_challenges_nothing() -> None:
    world, disputes = played(ChallengerPlan("v3"), ChallengerPlan("charles"))
    assert world.challengers["v3"].worked
    assert world.challengers["charles"].worked
    assert not disputes


def test_who_looks_finds_a_made_up_segment_that_the_panel_missed() -> None:
    """The round becomes void, and the challenger has its bond back."""
    coalition = Coalition("a whole cluster", ("v0", "v0p0", "v0p1", "v0p2"), ())
    strategy = {"provider makes first": ("middle",), "validator judges friends": ("accept",)}
    challengers = tuple(ChallengerPlan(name) for name in ("v1", "v2", "v3", "v4", "v5", "v6", "carol", "charles"))
    for seed in range(1, 20):  # until the lots of a panel miss the segment
        world = World(replace(scheme(make_market(seed, SHAPE), coalition, strategy), challengers=challengers))
        world.run()
        disputes = [dispute for dispute in DISPUTES.scan(world.chain.overlay()) if dispute.share is None]
        upheld = next((dispute for dispute in disputes if dispute.state is DisputeState.UPHELD), None)
        if upheld is not None:
            break
    assert upheld is not None
    answer = world.order(upheld.order_id)
    own = answer.panel(upheld.leg, upheld.round)
    closed = answer.round(upheld.leg, upheld.round)
    assert own is not None
    assert all(place.ruling is Ruling.RIGHT for place in own.places)
    assert closed is not None
    assert closed.void
    assert not any(dispute.burnt or dispute.state is DisputeState.FAILED for dispute in disputes)


@pytest.mark.parametrize("deed", [Deed.LIES, Deed.OPENS_NOTHING, Deed.SAYS_UNSERVED, Deed.ASKS_AGAIN])
def test_who_lies_loses_its_bond_and_harms_no_one(deed: Deed) -> None:
    for seed in range(1, 20):  # until the challenger has met a round that it can lie about
        world, disputes = played(ChallengerPlan("v3", FalseChallenger(deed, 100)), seed=seed)
        if disputes:
            break
    ended = DisputeState.EXPIRED if deed is Deed.OPENS_NOTHING else DisputeState.FAILED
    assert ended in {dispute.state for dispute in disputes}
    assert {dispute.state for dispute in disputes} <= {ended, DisputeState.DROPPED}
    assert all(dispute.burnt for dispute in disputes if dispute.state is ended)
    for order in world.orders:
        answer = world.order(order.order_id)
        assert not any(closed.void for closed in answer.rounds)
        assert LegEnd.UNDECIDED not in {leg.end_reason for leg in answer.legs}
