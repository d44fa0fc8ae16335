"""An operator of a validator: it frees its validator from the jail in which it is for its absence."""

from typing import TYPE_CHECKING

from chain.state_machine.slashing.tables import SIGNING_INFOS
from chain.state_machine.staking.tables import VALIDATOR_STAKES
from domain.slashing.messages import MsgUnjail
from localnet.simulator.memory_chain import cons_address

if TYPE_CHECKING:
    from localnet.simulator.world import World

LOOK_MS = 3_000


class OperatorActor:
    """An operator that looks at its validator from time to time."""

    def __init__(self, world: "World", name: str) -> None:
        self.world, self.name = world, name
        self.world.clock.after(LOOK_MS, self._look)

    def _look(self) -> None:
        store = self.world.chain.overlay()
        info = SIGNING_INFOS.get(store, cons_address(self.name))
        can = info is not None and not info.tombstoned and self.world.chain_clock >= info.jailed_until
        if can and VALIDATOR_STAKES.must(store, self.name).jailed and self.name not in self.world.chain.away:
            self.world.submit((MsgUnjail(self.name),), lambda _: None)
        self.world.clock.after(LOOK_MS, self._look)
