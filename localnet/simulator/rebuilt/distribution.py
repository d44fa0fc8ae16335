"""The second books of distribution: rewards, where they start and go to, as the genesis and the events tell them."""

from dataclasses import replace
from functools import singledispatchmethod
from typing import Any

from domain.distribution.events import (
    CommissionWithdrawn,
    CommunityFunded,
    CommunitySpent,
    FeesShared,
    RewardsChanged,
    RewardsStarted,
    RewardsWithdrawn,
    TotalsChanged,
    WithdrawAddressSet,
)
from domain.distribution.records import DistributionTotals, ValidatorRewards, WithdrawAddress
from domain.genesis import POWER_REDUCTION
from domain.staking.records import BondStatus, ValidatorStake

DistributionChange = (
    FeesShared
    | TotalsChanged
    | RewardsChanged
    | RewardsStarted
    | RewardsWithdrawn
    | CommissionWithdrawn
    | WithdrawAddressSet
    | CommunityFunded
    | CommunitySpent
)


class DistributionBooks:
    """The records of distribution. ``take`` returns by how much it changes each pot."""

    def __init__(self, stakes: dict[str, ValidatorStake]) -> None:
        powers = {
            name: stake.tokens // POWER_REDUCTION for name, stake in stakes.items() if stake.status is BondStatus.BONDED
        }
        self.totals: dict[tuple[()], DistributionTotals] = {(): DistributionTotals(power=sum(powers.values()))}
        self.rewards = {name: ValidatorRewards(name, power=power) for name, power in powers.items()}
        self.starts: dict[tuple[str, str], int] = {}
        self.paid_to: dict[str, WithdrawAddress] = {}

    @singledispatchmethod
    def take(self, change: Any) -> dict[str, int]:
        """Change the books as an event tells."""
        raise AssertionError(f"the books of distribution have no row for {type(change).__name__}")

    @take.register
    def _(self, change: FeesShared) -> dict[str, int]:
        grown = change.totals.per_power - self.totals[()].per_power
        self.totals[()] = change.totals
        for name in change.absent:
            self.rewards[name] = replace(self.rewards[name], start=self.rewards[name].start + grown)
        if change.proposer_attos:
            self.rewards[change.proposer] = replace(
                self.rewards[change.proposer],
                start=change.totals.per_power,
                commission=change.commission,
                outstanding=change.outstanding,
                ratio=change.ratio,
            )
        kept = change.amount - change.to_community
        return {"fees": -change.amount, "distribution": kept, "community": change.to_community}

    @take.register
    def _(self, change: TotalsChanged) -> dict[str, int]:
        self.totals[()] = change.totals
        return {"distribution": -change.to_community, "community": change.to_community}

    @take.register
    def _(self, change: RewardsChanged) -> dict[str, int]:
        self.rewards[change.rewards.operator] = change.rewards
        return {}

    @take.register
    def _(self, change: RewardsStarted) -> dict[str, int]:
        self.starts[change.validator, change.delegator] = change.ratio
        return {}

    @take.register
    def _(self, change: RewardsWithdrawn | CommissionWithdrawn) -> dict[str, int]:
        return {"distribution": -change.amount}

    @take.register
    def _(self, change: WithdrawAddressSet) -> dict[str, int]:
        self.paid_to.pop(change.delegator, None)
        if change.to != change.delegator:
            self.paid_to[change.delegator] = WithdrawAddress(change.delegator, change.to)
        return {}

    @take.register
    def _(self, change: CommunityFunded) -> dict[str, int]:
        return {"community": change.amount}

    @take.register
    def _(self, change: CommunitySpent) -> dict[str, int]:
        return {"community": -change.amount}
