"""A delegator: an account that delegates coins, moves them and withdraws them, as the moment suggests."""

from random import Random
from typing import TYPE_CHECKING

from chain.state_machine.staking.delegations import free_worth, get_delegation
from chain.state_machine.staking.shares import worth_of
from chain.state_machine.staking.tables import (
    DELEGATIONS,
    DELEGATIONS_OF,
    UNBONDING_POOLS,
    UNBONDINGS,
    VALIDATOR_STAKES,
)
from chain.state_machine.store import Overlay
from domain.genesis import DENOM
from domain.ledger.records import Coin
from domain.messages import Message
from domain.staking.messages import MsgBeginRedelegate, MsgCancelUnbondingDelegation, MsgDelegate, MsgUndelegate

if TYPE_CHECKING:
    from localnet.simulator.world import World

PAUSE_MS = 2_500
"""Least time between two transactions of a delegator; the longest is twice as much."""


def get_staked(store: Overlay, name: str) -> int:
    """Return the coins that an account has delegated, and those that are leaving (uassay)."""
    staked = 0
    for _, operator in DELEGATIONS_OF.keys(store, name):
        stake = VALIDATOR_STAKES.must(store, operator.decode())
        shares = DELEGATIONS.must(store, stake.operator, name).shares
        staked += worth_of(shares, stake.tokens, stake.shares)
    for entry in UNBONDINGS.scan(store, name):
        pool = UNBONDING_POOLS.must(store, entry.validator, entry.pool)
        staked += worth_of(entry.claims, pool.tokens, pool.claims)
    return staked


class DelegatorActor:
    """A delegator in a world. Its dice are its own, so that it changes no draw of others."""

    def __init__(self, world: "World", name: str) -> None:
        self.world, self.name = world, name
        self.random = Random(f"delegator {name} {world.setup.seed}")
        self._wait()

    def _wait(self) -> None:
        self.world.clock.after(self.random.randint(PAUSE_MS, 2 * PAUSE_MS), self._act)

    def _act(self) -> None:
        message = self._choose(self.world.chain.overlay())
        if message is not None:
            self.world.submit((message,), lambda _: None)
        self._wait()

    def _choose(self, store: Overlay) -> Message | None:
        source, target = self.random.sample(list(self.world.validators), 2)
        stake, delegation = VALIDATOR_STAKES.must(store, source), get_delegation(store, self.name, source)
        free = free_worth(stake, delegation) * self.random.choice((25, 50, 100)) // 100
        entries = UNBONDINGS.scan(store, self.name, limit=1)
        match self.random.randrange(6):
            case 0 | 1 if free:
                return MsgUndelegate(self.name, source, Coin(DENOM, free))
            case 2 | 3 if free:
                return MsgBeginRedelegate(
                    delegator_address=self.name,
                    validator_src_address=source,
                    validator_dst_address=target,
                    amount=Coin(DENOM, free),
                )
            case 4 if entries:
                return MsgCancelUnbondingDelegation(
                    delegator_address=self.name,
                    validator_address=entries[0].validator,
                    amount=Coin(DENOM, 1_000),
                    creation_height=entries[0].height,
                )
        amount = self.world.chain.balance(self.name) // 100
        return MsgDelegate(self.name, source, Coin(DENOM, amount)) if amount else None
