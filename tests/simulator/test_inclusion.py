"""Validators whose commitments reach no block until their providers include the shares: the orders go on."""

from typing import TYPE_CHECKING

from domain.messages import Message
from domain.proof.events import ShareCommitted, ShareIncluded
from domain.proof.messages import MsgCommitTraces
from domain.vocabulary import changes_of
from localnet.simulator.behaviours import HonestValidator
from localnet.simulator.coalitions import with_validators
from localnet.simulator.play import run
from localnet.simulator.setups import Kind, Shape, make_setup
from localnet.simulator.world import World

if TYPE_CHECKING:
    from localnet.simulator.actors.validator import ValidatorActor


class LeftOut(HonestValidator):
    """Is honest, but blocks have only those of its commitments that are on chain already."""

    def sends(self, daemon: "ValidatorActor", messages: tuple[Message, ...]) -> bool:
        for message in messages:
            if isinstance(message, MsgCommitTraces):
                order = daemon.world.order(message.order_id)
                if any(order.share(signed.claim.key) is None for signed in message.shares):
                    return False
        return True


def test_orders_of_validators_whose_commitments_are_left_out_go_on_by_inclusion() -> None:
    setup = make_setup(4, Kind.HONEST, Shape(orders=3, spread=20))
    world = World(with_validators(setup, {plan.name: LeftOut() for plan in setup.validators}))
    assert not run(world)
    included = {change.share for change in changes_of(ShareIncluded, world.chain.events)}
    committed = {change.share for change in changes_of(ShareCommitted, world.chain.events) if change.was_included}
    assert included
    assert committed
    assert committed <= included
    assert not sum(world.watch.losses.values())
