"""Parameters of the distribution component."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Range
from domain.readable import Readable
from domain.staking.records import ONE, Rate


@dataclass(frozen=True, slots=True)
class DistributionParams(Readable):
    """The division of fees, with the defaults of a public network. Rates are in units of 10^-18.

    Example::

        print(assay.Params().of(assay.DistributionParams).community_tax)
    """

    # Part of the fees that goes to the community pool.
    community_tax: Rate = ONE // 50
    # Part of the rest that the block's proposer gets.
    base_proposer_reward: Rate = ONE // 100
    # Further part of the rest that the proposer gets if no validator is absent.
    bonus_proposer_reward: Rate = ONE // 25
    # 1 if delegators may have their rewards paid to another account, otherwise 0.
    withdraw_addr_enabled: Annotated[int, Range(0, 1)] = 1


LOCAL = DistributionParams()
"""The values of a local network."""
