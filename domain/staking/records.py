"""Records that the staking component keeps."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from domain.bounds import Address, ConsensusKey, Count, Money, Number, Range, Size, Text, Visible
from domain.readable import Readable

ONE = 10**18
"""The number 1 as a share or as a rate: both have 18 decimal places."""

Rate = Annotated[int, Range(0, ONE)]
"""A rate from 0 to 1, in units of 10^-18."""
SHARES_MAX = 2**128 - 1
Shares = Annotated[int, Range(0, SHARES_MAX)]
"""Shares of a validator's tokens, or claims in an unbonding pool, in units of 10^-18."""


class BondStatus(IntEnum):
    """The status of a validator. Only bonded validators are in the validator set."""

    UNBONDED = 1
    UNBONDING = 2
    BONDED = 3


@dataclass(frozen=True, slots=True)
class Description(Readable):
    """A validator's description of itself.

    Example::

        assay.Description(moniker="mine", website="https://example.org")
    """

    moniker: Text
    identity: Annotated[str, Visible(), Size(0, 3_000)] = ""
    website: Annotated[str, Visible(), Size(0, 140)] = ""
    security_contact: Annotated[str, Visible(), Size(0, 140)] = ""
    details: Annotated[str, Visible(), Size(0, 280)] = ""


@dataclass(frozen=True, slots=True)
class CommissionRates(Readable):
    """The part of its delegators' rewards that a validator keeps, and the bounds of this part (units of 10^-18).

    Example::

        assay.CommissionRates(rate=10**17, max_rate=2 * 10**17, max_change_rate=10**16)
    """

    rate: Rate
    max_rate: Rate
    max_change_rate: Rate  # largest change of ``rate``, which may change once a day


@dataclass(frozen=True, slots=True)
class ValidatorStake:
    """The stake of a validator, and its place in the validator set."""

    operator: Address
    number: Number  # position in the order of creation; of two validators with equal power the older one is first
    cons_key: ConsensusKey
    description: Description
    commission: CommissionRates
    commission_at: Number  # time of the last change of the commission (chain clock)
    min_self_delegation: Money
    tokens: Money  # uassay that back the validator
    shares: Shares  # sum of the shares of all delegations
    status: BondStatus
    jailed: bool = False  # it cannot be bonded until it is unjailed
    ready: bool = False  # it can make reveals, because it had a valid beacon key when it was last outside the set
    unbonding_height: Number = 0  # height at which it left the set; 0 if it is bonded or was never bonded
    unbonding_time: Number = 0  # time at which its unbonding ends (chain clock); 0 likewise
    pools: Count = 0  # number of unbonding pools that it has had


@dataclass(frozen=True, slots=True)
class Delegation:
    """A delegator's shares of a validator's tokens. ``locked`` shares came by redelegation and cannot leave yet."""

    delegator: Address
    validator: Address
    shares: Shares
    locked: Shares = 0


@dataclass(frozen=True, slots=True)
class UnbondingPool:
    """Coins that left a validator's tokens at about the same time.

    A fault at a time up to ``last_at`` reaches all coins of the pool. Each entry has claims in them.
    """

    validator: Address
    number: Count
    opened_at: Number
    last_at: Number  # time of the last entry (chain clock)
    tokens: Money
    claims: Shares


@dataclass(frozen=True, slots=True)
class Unbonding:
    """An entry of coins that a delegator undelegated at a height; they are paid at ``completes_at``."""

    delegator: Address
    validator: Address
    height: Number
    pool: Count
    claims: Shares
    initial: Money
    completes_at: Number


@dataclass(frozen=True, slots=True)
class Redelegation:
    """An entry of shares that a delegator moved from one validator to another.

    Until ``completes_at``, faults of ``source`` after ``created_at`` reach the shares, and the shares stay with
    ``target``.
    """

    source: Address
    delegator: Address
    target: Address
    height: Number
    created_at: Number
    completes_at: Number
    initial: Money
    shares: Shares
