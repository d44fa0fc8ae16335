"""Parameters of the staking component; durations in seconds on the chain clock."""

from dataclasses import dataclass
from typing import Annotated

from domain.amount import ASSAY
from domain.bounds import Duration, PositiveMoney, Range
from domain.readable import Readable
from domain.staking.records import Rate

ENTRIES_MAX = 100
VALIDATORS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class StakingParams(Readable):
    """The rules for stake, with the defaults of a public network.

    Example::

        print(assay.Params().of(assay.StakingParams).unbonding_time)
    """

    # Time from an undelegation until its coins are paid. Until then they can still be slashed.
    unbonding_time: Duration = 21 * 86_400
    # Largest number of bonded validators.
    max_validators: Annotated[int, Range(1, VALIDATORS_MAX)] = 100
    # Largest number of unbonding entries of a delegator with a validator, and of redelegations from one to another.
    max_entries: Annotated[int, Range(1, ENTRIES_MAX)] = 7
    # Least commission rate of a validator, in units of 10^-18.
    min_commission_rate: Rate = 0
    # Least amount (uassay) that a new validator delegates to itself.
    validator_min: PositiveMoney = 100 * ASSAY


LOCAL = StakingParams(unbonding_time=600, validator_min=ASSAY)
"""The values of a local network."""
