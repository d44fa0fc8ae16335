"""Records that the distribution component keeps. Rewards are in units of 10^-18 uassay (*attos*)."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Address, Number, Range

ATTOS = 10**18
"""Attos of one uassay."""
RATIO_ONE = 10**36
"""The number 1 as a reward per share: attos per unit of shares, with 36 decimal places."""

Attos = Annotated[int, Range(0, 2**128 - 1)]
"""An amount in units of 10^-18 uassay."""
Ratio = Annotated[int, Range(0, 2**256 - 1)]
"""A sum that only grows: the rewards that one unit of power, or of shares, has earned since the genesis."""


@dataclass(frozen=True, slots=True)
class DistributionTotals:
    """The sums that all bonded validators share."""

    per_power: Ratio = 0  # attos that one unit of power has earned
    power: Number = 0  # sum of the powers in the records of all validators
    dust: Attos = 0  # part of the community pool that is less than 1 uassay


@dataclass(frozen=True, slots=True)
class ValidatorRewards:
    """The rewards of a validator and its delegators.

    What the validator earned since ``start`` is its power times the growth of ``per_power``. It is entered here when
    its power, its commission rate or one of its delegations changes, or at a withdrawal.
    """

    operator: Address
    power: Number = 0  # consensus power; 0 if it is not bonded
    start: Ratio = 0  # ``per_power`` up to which the rewards are entered
    commission: Attos = 0  # commission that is not withdrawn
    outstanding: Attos = 0  # rewards of delegators that are not withdrawn
    ratio: Ratio = 0  # attos that one unit of shares has earned, with 36 decimal places


@dataclass(frozen=True, slots=True)
class WithdrawAddress:
    """The account to which a delegator's rewards and a validator's commission are paid, if it is another one."""

    delegator: Address
    to: Address
