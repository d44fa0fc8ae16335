"""A sponsor: an account that lets consumers pay fees with its coins, and sometimes ends that."""

from random import Random
from typing import TYPE_CHECKING

from chain.state_machine.feegrant.tables import FEE_GRANTS
from domain.feegrant.messages import (
    Allowance,
    AllowedMsgAllowance,
    BasicAllowance,
    MsgGrantAllowance,
    MsgRevokeAllowance,
    PeriodicAllowance,
)
from domain.genesis import DENOM
from domain.ledger.records import Coin
from domain.market.messages import MsgSubmitOrder
from domain.messages import Message
from domain.times import TimeSpan

if TYPE_CHECKING:
    from localnet.simulator.world import World

PAUSE_MS = 2_000
"""Least time between two transactions of a sponsor; the longest is twice as much."""
LIMIT = (Coin(DENOM, 10**9),)
OPEN = BasicAllowance(spend_limit=(), expiration=None)
ALLOWANCES: tuple[Allowance, ...] = (
    OPEN,
    BasicAllowance(spend_limit=LIMIT, expiration=None),
    PeriodicAllowance(
        basic=OPEN, period=TimeSpan(20), period_spend_limit=LIMIT, period_can_spend=LIMIT, period_reset=None
    ),
    AllowedMsgAllowance(allowance=OPEN, allowed_messages=(MsgSubmitOrder.URL,)),
)


class SponsorActor:
    """A sponsor in a world. Its dice are its own, so that it changes no draw of others."""

    def __init__(self, world: "World", name: str, consumers: tuple[str, ...]) -> None:
        self.world, self.name, self.consumers = world, name, consumers
        self.random = Random(f"sponsor {name} {world.setup.seed}")
        self._act()

    def pays_for(self, consumer: str, messages: tuple[Message, ...]) -> bool:
        """Return whether a consumer has a grant that pays for messages."""
        grant = FEE_GRANTS.get(self.world.chain.overlay(), consumer, self.name)
        return grant is not None and all(not grant.allowed or each.URL in grant.allowed for each in messages)

    def _act(self) -> None:
        consumer = self.random.choice(self.consumers)
        has = FEE_GRANTS.get(self.world.chain.overlay(), consumer, self.name) is not None
        if not has:
            message: Message = MsgGrantAllowance(self.name, consumer, self.random.choice(ALLOWANCES))
            self.world.submit((message,), lambda _: None)
        elif self.random.randrange(6) == 0:
            self.world.submit((MsgRevokeAllowance(self.name, consumer),), lambda _: None)
        self.world.clock.after(self.random.randint(PAUSE_MS, 2 * PAUSE_MS), self._act)
