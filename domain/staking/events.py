"""Events that the staking component emits. Amounts are in uassay; shares and claims have 18 decimal places."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change
from domain.staking.records import CommissionRates, Description


@dataclass(frozen=True, slots=True)
class ValidatorCreated(Change):
    """An account became a validator. Its first delegation is in the next event."""

    KIND: ClassVar[str] = "staking.validator_created"
    operator: str
    number: int
    cons_key: bytes
    description: Description
    commission: CommissionRates
    commission_at: int
    min_self_delegation: int


@dataclass(frozen=True, slots=True)
class ValidatorEdited(Change):
    """A validator changed its description, its commission or its minimum of self-delegation."""

    KIND: ClassVar[str] = "staking.validator_edited"
    operator: str
    description: Description
    commission: CommissionRates
    commission_at: int
    min_self_delegation: int


@dataclass(frozen=True, slots=True)
class StakeDelegated(Change):
    """An account delegated ``amount`` to a validator, and got ``shares``."""

    KIND: ClassVar[str] = "staking.delegated"
    delegator: str
    validator: str
    amount: int
    shares: int


@dataclass(frozen=True, slots=True)
class StakeUndelegated(Change):
    """A delegator gave up ``shares`` of a validator, and got ``claims`` in one of its unbonding pools.

    The coins are paid at ``completes_at`` (chain clock), or later if they back running orders.
    """

    KIND: ClassVar[str] = "staking.undelegated"
    delegator: str
    validator: str
    amount: int
    shares: int
    height: int
    pool: int
    claims: int
    completes_at: int
    time: int


@dataclass(frozen=True, slots=True)
class UnbondingCompleted(Change):
    """The coins of an unbonding entry were paid: less than were undelegated, if the pool was slashed."""

    KIND: ClassVar[str] = "staking.unbonding_completed"
    delegator: str
    validator: str
    height: int
    pool: int
    amount: int


@dataclass(frozen=True, slots=True)
class UnbondingCancelled(Change):
    """A delegator delegated coins of an unbonding entry again. ``claims`` are those that it gave up."""

    KIND: ClassVar[str] = "staking.unbonding_cancelled"
    delegator: str
    validator: str
    height: int
    pool: int
    amount: int
    claims: int
    shares: int


@dataclass(frozen=True, slots=True)
class StakeRedelegated(Change):
    """A delegator moved ``amount`` from ``source`` to ``target``.

    The shares are locked until ``completes_at`` (chain clock); they are not if this is 0.
    """

    KIND: ClassVar[str] = "staking.redelegated"
    delegator: str
    source: str
    target: str
    amount: int
    source_shares: int
    target_shares: int
    height: int
    time: int
    completes_at: int


@dataclass(frozen=True, slots=True)
class RedelegationCompleted(Change):
    """The shares of a redelegation are free again."""

    KIND: ClassVar[str] = "staking.redelegation_completed"
    source: str
    delegator: str
    target: str
    height: int


@dataclass(frozen=True, slots=True)
class StakeCut(Change):
    """A validator lost stake: ``tokens`` of its own tokens, and ``pool_amounts`` of its unbonding ``pools``."""

    KIND: ClassVar[str] = "staking.cut"
    operator: str
    tokens: int
    pools: tuple[int, ...]
    pool_amounts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RedelegationCut(Change):
    """A slash of ``source`` reached a redelegation: ``amount`` left the tokens of ``target``, with ``shares``."""

    KIND: ClassVar[str] = "staking.redelegation_cut"
    source: str
    delegator: str
    target: str
    height: int
    amount: int
    shares: int


@dataclass(frozen=True, slots=True)
class ValidatorReady(Change):
    """A validator can now be bonded because it has a valid beacon key, or cannot, because it has none."""

    KIND: ClassVar[str] = "staking.ready"
    operator: str
    ready: bool


@dataclass(frozen=True, slots=True)
class ValidatorBonded(Change):
    """A validator entered the validator set."""

    KIND: ClassVar[str] = "staking.bonded"
    operator: str


@dataclass(frozen=True, slots=True)
class ValidatorUnbonding(Change):
    """A validator left the validator set. Its unbonding ends at ``unbonding_time`` (chain clock)."""

    KIND: ClassVar[str] = "staking.unbonding"
    operator: str
    unbonding_height: int
    unbonding_time: int


@dataclass(frozen=True, slots=True)
class ValidatorUnbonded(Change):
    """The unbonding of a validator is over."""

    KIND: ClassVar[str] = "staking.unbonded"
    operator: str


@dataclass(frozen=True, slots=True)
class ValidatorJailed(Change):
    """A validator was jailed, or is free again. A jailed validator leaves the set at the end of the block."""

    KIND: ClassVar[str] = "staking.jailed"
    operator: str
    jailed: bool
