"""Providers that train ahead of the audits only as far as bonds and cover would pay, and those that always train."""

from collections import Counter

from domain.proof.events import RoundClosed, RoundVerified, ShareCommitted
from domain.vocabulary import read_event
from localnet.simulator.behaviours import CautiousProvider, HonestProvider, HonestValidator
from localnet.simulator.coalitions import with_providers, with_validators
from localnet.simulator.setups import Kind, Shape, make_setup
from localnet.simulator.world import World
from validator.decide.admission import NEWCOMER_ROUNDS_MAX, UNCOVERED, Backing


class Uncovering(HonestValidator):
    """Promises no cover to its providers, and lets rounds with shares of newcomers wait for their panels."""

    newcomer_rounds = NEWCOMER_ROUNDS_MAX

    def backing(self, provider: str) -> Backing:
        return UNCOVERED


def play(behaviour: HonestProvider) -> tuple[World, Counter[int]]:
    """Return a world of such providers after its end, and how many shares came while so many rounds were unverified."""
    setup = make_setup(7, Kind.HONEST, Shape(orders=5, spread=20))
    setup = with_validators(setup, {plan.name: Uncovering() for plan in setup.validators})
    world = World(with_providers(setup, {plan.address: behaviour for plan in setup.providers}))
    world.run()
    ahead: Counter[tuple[bytes, int]] = Counter()
    came: Counter[int] = Counter()
    kinds = {kind.KIND: kind for kind in (RoundClosed, RoundVerified, ShareCommitted)}
    for event in world.chain.events:
        change = read_event(event) if event.type in kinds else None
        match change:
            case RoundClosed(round=key):
                ahead[key.order_id, key.leg] += 1
            case RoundVerified(round=key):
                ahead[key.order_id, key.leg] -= 1
            case ShareCommitted(share=key):
                came[ahead[key.order_id, key.leg]] += 1
    return world, came


def test_cautious_providers_get_no_task_that_bonds_would_not_pay() -> None:
    world, came = play(CautiousProvider())
    assert set(came) == {0}
    assert sum(provider.uncovered for provider in world.providers.values()) == 0, "it was given such a task"
    assert any(len(world.order(order.order_id).rounds) > 1 for order in world.orders)


def test_other_providers_train_ahead_of_the_audits() -> None:
    _, came = play(HonestProvider())
    assert came[0]
    assert sum(came.values()) > came[0]
