"""The second books of staking: stakes, delegations, and stake that leaves, as the genesis and the events tell them."""

from dataclasses import replace
from functools import singledispatchmethod
from typing import Any

from domain.genesis import POWER_REDUCTION, Genesis
from domain.staking.events import (
    RedelegationCompleted,
    RedelegationCut,
    StakeCut,
    StakeDelegated,
    StakeRedelegated,
    StakeUndelegated,
    UnbondingCancelled,
    UnbondingCompleted,
    ValidatorBonded,
    ValidatorCreated,
    ValidatorEdited,
    ValidatorJailed,
    ValidatorReady,
    ValidatorUnbonded,
    ValidatorUnbonding,
)
from domain.staking.params import StakingParams
from domain.staking.records import (
    ONE,
    BondStatus,
    CommissionRates,
    Delegation,
    Description,
    Redelegation,
    Unbonding,
    UnbondingPool,
    ValidatorStake,
)

StakingChange = (
    ValidatorCreated
    | ValidatorEdited
    | StakeDelegated
    | StakeUndelegated
    | UnbondingCompleted
    | UnbondingCancelled
    | StakeRedelegated
    | RedelegationCompleted
    | StakeCut
    | RedelegationCut
    | ValidatorReady
    | ValidatorBonded
    | ValidatorUnbonding
    | ValidatorUnbonded
    | ValidatorJailed
)


class StakingBooks:
    """The records of staking by the parts of their keys. ``take`` returns the validators whose stake changed."""

    def __init__(self, genesis: Genesis) -> None:
        self.stakes: dict[str, ValidatorStake] = {}
        self.delegations: dict[tuple[str, str], Delegation] = {}
        self.pools: dict[tuple[str, int], UnbondingPool] = {}
        self.unbondings: dict[tuple[str, str, int, int], Unbonding] = {}
        self.redelegations: dict[tuple[str, str, str, int], Redelegation] = {}
        ranked = sorted(enumerate(genesis.validators), key=lambda v: (-(v[1].stake // POWER_REDUCTION), v[0]))
        able = [v.operator for _, v in ranked if v.stake >= POWER_REDUCTION]
        bonded = able[: genesis.params.of(StakingParams).max_validators]
        for number, validator in enumerate(genesis.validators):
            name = validator.operator
            self.stakes[name] = ValidatorStake(
                operator=name,
                number=number,
                cons_key=validator.cons_key,
                description=Description(validator.moniker),
                commission=CommissionRates(ONE // 10, ONE // 5, ONE // 100),
                commission_at=0,
                min_self_delegation=1,
                tokens=validator.stake,
                shares=validator.stake * ONE,
                status=BondStatus.BONDED if name in bonded else BondStatus.UNBONDED,
                ready=True,
            )
            self.delegations[name, name] = Delegation(name, name, validator.stake * ONE)

    @singledispatchmethod
    def take(self, change: Any) -> tuple[str, ...]:
        """Change the books as an event tells."""
        raise AssertionError(f"the books of staking have no row for {type(change).__name__}")

    def _stake(self, operator: str, **changes: Any) -> tuple[str, ...]:
        self.stakes[operator] = replace(self.stakes[operator], **changes)
        return (operator,)

    def _add(self, delegator: str, operator: str, amount: int, shares: int, locked: int = 0) -> tuple[str, ...]:
        key = (operator, delegator)
        old = self.delegations.get(key) or Delegation(delegator, operator, 0)
        new = replace(old, shares=old.shares + shares, locked=old.locked + locked)
        self.delegations[key] = new
        if not new.shares:
            del self.delegations[key]
        stake = self.stakes[operator]
        return self._stake(operator, tokens=stake.tokens + amount, shares=stake.shares + shares)

    def _take_claims(self, key: tuple[str, str, int, int], claims: int, amount: int) -> None:
        entry = self.unbondings[key]
        pool = self.pools[entry.validator, entry.pool]
        self.pools[entry.validator, entry.pool] = replace(
            pool, tokens=pool.tokens - amount, claims=pool.claims - claims
        )
        if pool.claims == claims:
            del self.pools[entry.validator, entry.pool]
        self.unbondings[key] = replace(entry, claims=entry.claims - claims)
        if entry.claims == claims:
            del self.unbondings[key]

    @take.register
    def _(self, change: ValidatorCreated) -> tuple[str, ...]:
        self.stakes[change.operator] = ValidatorStake(
            operator=change.operator,
            number=change.number,
            cons_key=change.cons_key,
            description=change.description,
            commission=change.commission,
            commission_at=change.commission_at,
            min_self_delegation=change.min_self_delegation,
            tokens=0,
            shares=0,
            status=BondStatus.UNBONDED,
        )
        return (change.operator,)

    @take.register
    def _(self, change: ValidatorEdited) -> tuple[str, ...]:
        return self._stake(
            change.operator,
            description=change.description,
            commission=change.commission,
            commission_at=change.commission_at,
            min_self_delegation=change.min_self_delegation,
        )

    @take.register
    def _(self, change: StakeDelegated) -> tuple[str, ...]:
        return self._add(change.delegator, change.validator, change.amount, change.shares)

    @take.register
    def _(self, change: StakeUndelegated) -> tuple[str, ...]:
        operator = change.validator
        self._add(change.delegator, operator, -change.amount, -change.shares)
        pool = self.pools.get((operator, change.pool)) or UnbondingPool(
            operator, change.pool, opened_at=change.time, last_at=change.time, tokens=0, claims=0
        )
        self.pools[operator, change.pool] = replace(
            pool, tokens=pool.tokens + change.amount, claims=pool.claims + change.claims, last_at=change.time
        )
        key = (change.delegator, operator, change.height, change.pool)
        old = self.unbondings.get(key)
        self.unbondings[key] = Unbonding(
            delegator=change.delegator,
            validator=operator,
            height=change.height,
            pool=change.pool,
            claims=change.claims + (old.claims if old else 0),
            initial=change.amount + (old.initial if old else 0),
            completes_at=change.completes_at,
        )
        return self._stake(operator, pools=max(self.stakes[operator].pools, change.pool))

    @take.register
    def _(self, change: UnbondingCompleted) -> tuple[str, ...]:
        key = (change.delegator, change.validator, change.height, change.pool)
        self._take_claims(key, self.unbondings[key].claims, change.amount)
        return ()

    @take.register
    def _(self, change: UnbondingCancelled) -> tuple[str, ...]:
        key = (change.delegator, change.validator, change.height, change.pool)
        self._take_claims(key, change.claims, change.amount)
        return self._add(change.delegator, change.validator, change.amount, change.shares)

    @take.register
    def _(self, change: StakeRedelegated) -> tuple[str, ...]:
        self._add(change.delegator, change.source, -change.amount, -change.source_shares)
        shares, ends_at = change.target_shares, change.completes_at
        self._add(change.delegator, change.target, change.amount, shares, locked=shares if ends_at else 0)
        if ends_at:
            key = (change.source, change.delegator, change.target, change.height)
            old = self.redelegations.get(key)
            self.redelegations[key] = Redelegation(
                source=change.source,
                delegator=change.delegator,
                target=change.target,
                height=change.height,
                created_at=change.time,
                completes_at=ends_at,
                initial=change.amount + (old.initial if old else 0),
                shares=shares + (old.shares if old else 0),
            )
        return change.source, change.target

    @take.register
    def _(self, change: RedelegationCompleted) -> tuple[str, ...]:
        entry = self.redelegations.pop((change.source, change.delegator, change.target, change.height))
        if entry.shares:
            self._add(change.delegator, change.target, 0, 0, locked=-entry.shares)
        return ()

    @take.register
    def _(self, change: StakeCut) -> tuple[str, ...]:
        for number, amount in zip(change.pools, change.pool_amounts, strict=True):
            pool = self.pools[change.operator, number]
            self.pools[change.operator, number] = replace(pool, tokens=pool.tokens - amount)
        return self._stake(change.operator, tokens=self.stakes[change.operator].tokens - change.tokens)

    @take.register
    def _(self, change: RedelegationCut) -> tuple[str, ...]:
        key = (change.source, change.delegator, change.target, change.height)
        entry = self.redelegations[key]
        self.redelegations[key] = replace(entry, shares=entry.shares - change.shares)
        return self._add(change.delegator, change.target, -change.amount, -change.shares, locked=-change.shares)

    @take.register
    def _(self, change: ValidatorReady) -> tuple[str, ...]:
        return self._stake(change.operator, ready=change.ready)

    @take.register
    def _(self, change: ValidatorBonded) -> tuple[str, ...]:
        return self._stake(change.operator, status=BondStatus.BONDED, unbonding_height=0, unbonding_time=0)

    @take.register
    def _(self, change: ValidatorUnbonding) -> tuple[str, ...]:
        return self._stake(
            change.operator,
            status=BondStatus.UNBONDING,
            unbonding_height=change.unbonding_height,
            unbonding_time=change.unbonding_time,
        )

    @take.register
    def _(self, change: ValidatorUnbonded) -> tuple[str, ...]:
        return self._stake(change.operator, status=BondStatus.UNBONDED)

    @take.register
    def _(self, change: ValidatorJailed) -> tuple[str, ...]:
        return self._stake(change.operator, jailed=change.jailed)
