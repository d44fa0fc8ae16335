"""Events that the distribution component emits. Amounts are in uassay; attos are units of 10^-18 uassay."""

from dataclasses import dataclass
from typing import ClassVar

from domain.distribution.records import DistributionTotals, ValidatorRewards
from domain.events import Change


@dataclass(frozen=True, slots=True)
class FeesShared(Change):
    """The fees of a block, and the coins that it minted, were shared among the bonded validators.

    The sums of distribution are now ``totals``, and ``to_community`` (uassay) went to the community pool. ``absent``
    validators get nothing: the start of their rewards grows with ``per_power``. If ``proposer_attos``, the proposer's
    own part, is not 0, the proposer's rewards are entered, and its record has the last three fields.
    """

    KIND: ClassVar[str] = "distribution.shared"
    amount: int
    totals: DistributionTotals
    to_community: int
    absent: tuple[str, ...]
    proposer: str
    proposer_attos: int
    commission: int
    outstanding: int
    ratio: int


@dataclass(frozen=True, slots=True)
class TotalsChanged(Change):
    """The sums of distribution changed, and ``to_community`` (uassay) went to the community pool."""

    KIND: ClassVar[str] = "distribution.totals"
    totals: DistributionTotals
    to_community: int


@dataclass(frozen=True, slots=True)
class RewardsChanged(Change):
    """The rewards of a validator and its delegators changed."""

    KIND: ClassVar[str] = "distribution.rewards"
    rewards: ValidatorRewards


@dataclass(frozen=True, slots=True)
class RewardsStarted(Change):
    """A delegation earns rewards from ``ratio`` of its validator on; it is 0 if the delegation ended."""

    KIND: ClassVar[str] = "distribution.started"
    delegator: str
    validator: str
    ratio: int


@dataclass(frozen=True, slots=True)
class RewardsWithdrawn(Change):
    """The rewards of a delegation were paid to the account ``to``."""

    KIND: ClassVar[str] = "distribution.withdrawn"
    delegator: str
    validator: str
    to: str
    amount: int


@dataclass(frozen=True, slots=True)
class CommissionWithdrawn(Change):
    """A validator's commission was paid to the account ``to``."""

    KIND: ClassVar[str] = "distribution.commission_withdrawn"
    validator: str
    to: str
    amount: int


@dataclass(frozen=True, slots=True)
class WithdrawAddressSet(Change):
    """A delegator's rewards and commission are now paid to the account ``to``."""

    KIND: ClassVar[str] = "distribution.withdraw_address"
    delegator: str
    to: str


@dataclass(frozen=True, slots=True)
class CommunityFunded(Change):
    """An account gave coins to the community pool."""

    KIND: ClassVar[str] = "distribution.community_funded"
    depositor: str
    amount: int


@dataclass(frozen=True, slots=True)
class CommunitySpent(Change):
    """Governance paid coins of the community pool to an account."""

    KIND: ClassVar[str] = "distribution.community_spent"
    recipient: str
    amount: int
