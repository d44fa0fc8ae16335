"""Tables of governance: proposals, deposits, and votes with the shares that they speak for."""

from chain.state_machine.kinds import Due
from chain.state_machine.tables import KeySet, Numbers, Table
from domain.gov.records import Deposit, Proposal, Vote, VotedShares

PROPOSALS = Table(0x70, "proposal", Proposal, lambda r: (r.id,))
VOTES = Table(0x71, "vote", Vote, lambda r: (r.proposal, r.voter))
DEPOSITS = Table(0x72, "deposit of a proposal", Deposit, lambda r: (r.proposal, r.depositor))
# Key: proposal that is voted on.
VOTING = KeySet(0x73, "proposal in voting")
VOTED_SHARES = Table(0x74, "voted shares", VotedShares, lambda r: (r.proposal, r.validator))
# Number of the last proposal.
LAST_PROPOSAL = Numbers(0x75, "number of the last proposal")

# Parts of both: proposal.
PROPOSAL_DUE = Due("proposal", 33, lane=2)
CLEANING_DUE = Due("ended proposal", 34, lane=2)
