"""Tables of distribution: the rewards of validators, and what delegators had earned when theirs began."""

from chain.state_machine.store import Overlay
from chain.state_machine.tables import Numbers, Table
from domain.distribution.records import DistributionTotals, ValidatorRewards, WithdrawAddress

TOTALS = Table(0xA0, "sums of distribution", DistributionTotals, lambda _: ())
REWARDS = Table(0xA1, "validator's rewards", ValidatorRewards, lambda r: (r.operator,))
# Key: validator, delegator. Value: the validator's ratio up to which the delegation's rewards are paid.
STARTS = Numbers(0xA2, "start of rewards")
WITHDRAW_ADDRESSES = Table(0xA3, "withdraw address", WithdrawAddress, lambda r: (r.delegator,))


def get_totals(store: Overlay) -> DistributionTotals:
    """Return what all bonded validators share."""
    return TOTALS.get(store) or DistributionTotals()


def get_rewards(store: Overlay, operator: str) -> ValidatorRewards:
    """Return the record of a validator's rewards; an empty one for a validator that was never bonded."""
    return REWARDS.get(store, operator) or ValidatorRewards(operator)


def get_withdraw_address(store: Overlay, delegator: str) -> str:
    """Return the account to which a delegator's rewards are paid."""
    other = WITHDRAW_ADDRESSES.get(store, delegator)
    return delegator if other is None else other.to
