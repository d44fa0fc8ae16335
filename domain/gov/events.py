"""Events that the gov component emits. Amounts are in uassay; weights have 18 decimal places."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change
from domain.gov.records import Tally


@dataclass(frozen=True, slots=True)
class ProposalSubmitted(Change):
    """An account made a proposal; ``text`` is its summary, and ``messages`` the JSON of its messages.

    Its deposit is in the next event.
    """

    KIND: ClassVar[str] = "gov.proposal_submitted"
    proposal: int
    proposer: str
    title: str
    text: str
    metadata: str
    messages: str
    submitted_at: int
    deposit_until: int


@dataclass(frozen=True, slots=True)
class ProposalDeposited(Change):
    """An account made a deposit for a proposal."""

    KIND: ClassVar[str] = "gov.deposited"
    proposal: int
    depositor: str
    amount: int


@dataclass(frozen=True, slots=True)
class VotingStarted(Change):
    """A proposal has its deposits. It can be voted on until ``voting_until`` (chain clock)."""

    KIND: ClassVar[str] = "gov.voting_started"
    proposal: int
    voting_from: int
    voting_until: int


@dataclass(frozen=True, slots=True)
class ProposalVoted(Change):
    """An account voted; ``weights`` are the parts of its stake for the ``options``. An earlier vote is replaced."""

    KIND: ClassVar[str] = "gov.voted"
    proposal: int
    voter: str
    options: tuple[int, ...]
    weights: tuple[int, ...]
    metadata: str


@dataclass(frozen=True, slots=True)
class ProposalEnded(Change):
    """The voting on a proposal is over. ``reason`` says why its messages failed; then they changed nothing."""

    KIND: ClassVar[str] = "gov.proposal_ended"
    proposal: int
    status: int
    tally: Tally
    burns: bool
    reason: str


@dataclass(frozen=True, slots=True)
class DepositReturned(Change):
    """A deposit of a proposal that is over was returned, or burnt."""

    KIND: ClassVar[str] = "gov.deposit_returned"
    proposal: int
    depositor: str
    amount: int
    burnt: bool


@dataclass(frozen=True, slots=True)
class VotesRemoved(Change):
    """Votes on a proposal that is over were removed."""

    KIND: ClassVar[str] = "gov.votes_removed"
    proposal: int
    voters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProposalDropped(Change):
    """A proposal did not get its deposits in time. They are returned, and the proposal is removed."""

    KIND: ClassVar[str] = "gov.proposal_dropped"
    proposal: int


@dataclass(frozen=True, slots=True)
class ParameterChanged(Change):
    """A parameter of a component has another value from the next block on."""

    KIND: ClassVar[str] = "gov.parameter_changed"
    component: str
    name: str
    value: int
