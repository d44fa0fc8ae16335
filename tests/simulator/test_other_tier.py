"""Markets in which bids offer a second tier, and orders ask for either: what must always hold does."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle

import pytest

from domain.market.reasons import CloseReason
from domain.proof.events import PanelSkipped, SeatDiffered
from domain.proof.records import AnswerKind
from domain.vocabulary import changes_of
from localnet.simulator.actors.validator import ValidatorActor
from localnet.simulator.behaviours import Asked, HonestValidator
from localnet.simulator.coalitions import with_validators
from localnet.simulator.setups import Kind, Shape, make_setup
from localnet.simulator.world import Setup, World
from tests.support.four_bytes import FOUR_BYTES, registered, within
from validator.decide.records import Recomputed

OTHER = FOUR_BYTES.name
ASKED = ((OTHER,), (OTHER, "exact"), ("exact", OTHER), ())
OFFERED = ((OTHER, "exact"), ("exact", OTHER), (OTHER,))


@pytest.fixture(autouse=True)
def _tier() -> Iterator[None]:
    with registered():
        yield


@dataclass(frozen=True)
class OtherMachine(HonestValidator):
    """An honest validator whose machine gives other bits than others', beyond what counts in the second tier."""

    def says(self, auditor: ValidatorActor, asked: Asked, found: Recomputed) -> Recomputed:
        if found.kind is not AnswerKind.FINISHED:
            return found
        name = auditor.me.encode()
        return replace(found, root=within(found.root, name), digest=within(found.digest, name))


def in_tiers(setup: Setup, asked: tuple[tuple[str, ...], ...], offered: tuple[tuple[str, ...], ...]) -> Setup:
    """Return a setup whose orders ask for these tiers in turn, without replicas, and whose bids offer them in turn."""
    asking, offering = cycle(asked), cycle(offered)
    orders = tuple(
        replace(
            plan,
            message=replace(
                plan.message,
                conditions=replace(plan.message.conditions, tiers=next(asking)),
                replicas=0,
            ),
        )
        for plan in setup.orders
    )
    validators = tuple(
        replace(
            plan,
            bid=replace(plan.bid, offer=replace(plan.bid.offer, tiers=next(offering))),
        )
        if plan.bid is not None
        else plan
        for plan in setup.validators
    )
    return replace(setup, orders=orders, validators=validators)


@pytest.mark.parametrize(
    ("seed", "kind"), [pytest.param(1, Kind.HONEST, marks=pytest.mark.nightly), (2, Kind.MIXED), (3, Kind.ROUGH)]
)
def test_both_tiers_beside_each_other(seed: int, kind: Kind) -> None:
    setup = make_setup(seed, kind, Shape(orders=24, spread=60))
    world = World(in_tiers(setup, ASKED, OFFERED))
    world.run()
    found = [world.order(order.order_id) for order in world.orders if order.order_id]
    settled = [each for each in found if each.order.close_reason == CloseReason.SETTLED]
    tiers = {leg.tier for each in settled for leg in each.legs}
    assert tiers == {"exact", OTHER}
    skipped = {change.panel for change in changes_of(PanelSkipped, world.chain.events)}
    assert skipped
    legs = {(each.order.id, leg.number): leg for each in found for leg in each.legs}
    assert {legs[key.order_id, key.leg].tier for key in skipped} == {OTHER}
    for each in found:
        wanted = each.order.conditions.tiers
        assert all(not wanted or leg.tier in wanted for leg in each.legs)


def test_machines_that_differ_beyond_what_counts_agree() -> None:
    setup = make_setup(4, Kind.HONEST, Shape(orders=16, spread=40))
    setup = in_tiers(setup, ((OTHER,),), ((OTHER,),))
    machines = {plan.name: OtherMachine() for plan in setup.validators}
    world = World(with_validators(setup, machines))
    world.run()
    assert not list(changes_of(SeatDiffered, world.chain.events))
    orders = [world.order(order.order_id) for order in world.orders]
    assert any(each.order.close_reason == CloseReason.SETTLED for each in orders)
    assert not any(closed.void for each in orders for closed in each.rounds)
    assert any(seat.panels for seat in orders)


@dataclass(frozen=True)
class StrayMachine(OtherMachine):
    """Such a machine where all bits count: what it says is another answer."""

    honest = False


def test_such_a_machine_in_the_other_tier_pays_and_harms_nobody_else() -> None:
    """As a validator does whose software has other functions for a tier than the chain."""
    differed = set()
    for seed in (4, 5):  # in a market it may get no seat
        setup = make_setup(seed, Kind.HONEST, Shape(orders=16, spread=40))
        world = World(with_validators(setup, {"v1": StrayMachine()}))
        world.run()
        differed |= {change.auditor for change in changes_of(SeatDiffered, world.chain.events)}
        orders = [world.order(order.order_id) for order in world.orders]
        assert not any(closed.void for each in orders for closed in each.rounds)
    assert differed == {"v1"}
