"""Parameters of the gov component; durations in seconds on the chain clock."""

from dataclasses import dataclass
from typing import Annotated

from domain.amount import ASSAY
from domain.bounds import Duration, PositiveMoney, Range
from domain.readable import Readable
from domain.staking.records import ONE, Rate

# With every value in these ranges a majority of the stake can pass a proposal, which may change the values again.
Quorum = Annotated[int, Range(0, ONE * 9 // 10)]
Threshold = Annotated[int, Range(ONE // 2, ONE * 9 // 10)]
VetoThreshold = Annotated[int, Range(ONE // 10, ONE // 2)]


@dataclass(frozen=True, slots=True)
class GovParams(Readable):
    """The rules for proposals, with the defaults of a public network. Rates are in units of 10^-18.

    Example::

        print(assay.Params().of(assay.GovParams).voting_period)
    """

    # Deposits (uassay) with which the voting on a proposal begins.
    min_deposit: PositiveMoney = 500 * ASSAY
    # Part of `min_deposit` that the proposer must deposit.
    min_initial_deposit_ratio: Rate = ONE // 4
    # Longest time in which a proposal must get its deposits.
    max_deposit_period: Duration = 2 * 86_400
    # Time in which a proposal can be voted on.
    voting_period: Duration = 7 * 86_400
    # Least part of the bonded stake that must vote.
    quorum: Quorum = ONE * 334 // 1_000
    # Part of the votes, without those that abstain, that must be exceeded by those for the proposal.
    threshold: Threshold = ONE // 2
    # Part of the votes above which a veto rejects the proposal and burns its deposits.
    veto_threshold: VetoThreshold = ONE * 334 // 1_000


LOCAL = GovParams(min_deposit=10 * ASSAY, max_deposit_period=600, voting_period=60)
"""The values of a local network."""
