"""Records that the gov component keeps."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from domain.bounds import Address, Length, Money, Number, Range, Size, Visible
from domain.readable import Readable
from domain.staking.records import SHARES_MAX, Rate, Shares

TITLE_MAX = 255
SUMMARY_MAX = 10_200
METADATA_MAX = 255
REASON_MAX = 500

Title = Annotated[str, Visible(), Size(1, TITLE_MAX)]
Summary = Annotated[str, Visible(lines=True), Size(1, SUMMARY_MAX)]
Metadata = Annotated[str, Visible(), Size(0, METADATA_MAX)]
Contents = Annotated[str, Size(2, 2**22)]
Reason = Annotated[str, Size(0, 4 * REASON_MAX)]
Votes = Annotated[int, Range(0, SHARES_MAX * 10**18)]
"""Shares of a validator times the weight of an option: both have 18 decimal places."""


class VoteOption(IntEnum):
    """The options of a vote."""

    YES = 1
    ABSTAIN = 2
    NO = 3
    NO_WITH_VETO = 4


class ProposalStatus(IntEnum):
    """The status of a proposal."""

    DEPOSIT_PERIOD = 1
    VOTING_PERIOD = 2
    PASSED = 3
    REJECTED = 4
    FAILED = 5


@dataclass(frozen=True, slots=True)
class WeightedOption(Readable):
    """An option, and the part of a voter's stake that is for it (units of 10^-18).

    Example::

        assay.WeightedOption(option=assay.VoteOption.YES, weight=10**18)
    """

    option: VoteOption
    weight: Rate


@dataclass(frozen=True, slots=True)
class Tally(Readable):
    """The stake (uassay) that is for each option.

    Example::

        assay.Tally(yes=700_000_000, no=20_000_000)
    """

    yes: Money = 0
    abstain: Money = 0
    no: Money = 0
    no_with_veto: Money = 0

    @property
    def total(self) -> int:
        """The stake that voted."""
        return self.yes + self.abstain + self.no + self.no_with_veto


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposal. Times are on the chain clock; a time that is not known yet is 0."""

    id: Number
    proposer: Address
    title: Title
    summary: Summary
    metadata: Metadata
    messages: Contents  # canonical JSON of the messages, each with its type url
    submitted_at: Number
    deposit_until: Number  # end of the deposit period
    status: ProposalStatus = ProposalStatus.DEPOSIT_PERIOD
    deposit: Money = 0  # sum of the deposits that were made
    voting_from: Number = 0
    voting_until: Number = 0
    tally: Tally = Tally()
    burns: bool = False  # its deposits are burnt
    reason: Reason = ""  # the reason why its messages failed


@dataclass(frozen=True, slots=True)
class Vote:
    """A vote. While the voting lasts, the stake of the voter counts for its options."""

    proposal: Number
    voter: Address
    options: Annotated[tuple[WeightedOption, ...], Length(1, 4)]
    metadata: Metadata = ""


@dataclass(frozen=True, slots=True)
class Deposit:
    """The sum of an account's deposits for a proposal. It is removed when it is returned or burnt."""

    proposal: Number
    depositor: Address
    amount: Money


@dataclass(frozen=True, slots=True)
class VotedShares:
    """The shares of a validator whose delegators vote themselves, and their votes for each option."""

    proposal: Number
    validator: Address
    shares: Shares = 0
    yes: Votes = 0
    abstain: Votes = 0
    no: Votes = 0
    no_with_veto: Votes = 0
