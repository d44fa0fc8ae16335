"""The second books of governance, as the genesis and the events tell them."""

from dataclasses import replace
from functools import singledispatchmethod
from typing import Any

from domain.genesis import Genesis
from domain.gov.events import (
    DepositReturned,
    ParameterChanged,
    ProposalDeposited,
    ProposalDropped,
    ProposalEnded,
    ProposalSubmitted,
    ProposalVoted,
    VotesRemoved,
    VotingStarted,
)
from domain.gov.records import Deposit, Proposal, ProposalStatus, Vote, VoteOption, WeightedOption
from domain.params import RECORDS

GovChange = (
    ProposalSubmitted
    | ProposalDeposited
    | VotingStarted
    | ProposalVoted
    | ProposalEnded
    | DepositReturned
    | VotesRemoved
    | ProposalDropped
    | ParameterChanged
)


class GovBooks:
    """The records of governance by the parts of their keys. ``take`` returns the coins that were burnt."""

    def __init__(self, genesis: Genesis) -> None:
        self.proposals: dict[int, Proposal] = {}
        self.deposits: dict[tuple[int, str], Deposit] = {}
        self.votes: dict[tuple[int, str], Vote] = {}
        self.params: dict[str, Any] = {name: genesis.params.of(cls) for name, cls in RECORDS.items()}
        self._dropped: set[int] = set()

    @singledispatchmethod
    def take(self, change: Any) -> int:
        """Change the books as an event tells."""
        raise AssertionError(f"the books of governance have no row for {type(change).__name__}")

    def _proposal(self, number: int, **changes: Any) -> int:
        self.proposals[number] = replace(self.proposals[number], **changes)
        return 0

    @take.register
    def _(self, change: ProposalSubmitted) -> int:
        self.proposals[change.proposal] = Proposal(
            id=change.proposal,
            proposer=change.proposer,
            title=change.title,
            summary=change.text,
            metadata=change.metadata,
            messages=change.messages,
            submitted_at=change.submitted_at,
            deposit_until=change.deposit_until,
        )
        return 0

    @take.register
    def _(self, change: ProposalDeposited) -> int:
        key = (change.proposal, change.depositor)
        old = self.deposits.get(key) or Deposit(*key, 0)
        self.deposits[key] = replace(old, amount=old.amount + change.amount)
        return self._proposal(change.proposal, deposit=self.proposals[change.proposal].deposit + change.amount)

    @take.register
    def _(self, change: VotingStarted) -> int:
        return self._proposal(
            change.proposal,
            status=ProposalStatus.VOTING_PERIOD,
            voting_from=change.voting_from,
            voting_until=change.voting_until,
        )

    @take.register
    def _(self, change: ProposalVoted) -> int:
        parts = zip(change.options, change.weights, strict=True)
        options = tuple(WeightedOption(VoteOption(option), weight) for option, weight in parts)
        self.votes[change.proposal, change.voter] = Vote(
            proposal=change.proposal, voter=change.voter, options=options, metadata=change.metadata
        )
        return 0

    @take.register
    def _(self, change: ProposalEnded) -> int:
        status = ProposalStatus(change.status)
        return self._proposal(
            change.proposal, status=status, tally=change.tally, burns=change.burns, reason=change.reason
        )

    @take.register
    def _(self, change: DepositReturned) -> int:
        del self.deposits[change.proposal, change.depositor]
        left = any(proposal == change.proposal for proposal, _ in self.deposits)
        if change.proposal in self._dropped and not left:
            del self.proposals[change.proposal]
        return change.amount if change.burnt else 0

    @take.register
    def _(self, change: VotesRemoved) -> int:
        for voter in change.voters:
            del self.votes[change.proposal, voter]
        return 0

    @take.register
    def _(self, change: ProposalDropped) -> int:
        self._dropped.add(change.proposal)
        return 0

    @take.register
    def _(self, change: ParameterChanged) -> int:
        self.params[change.component] = replace(self.params[change.component], **{change.name: change.value})
        return 0
