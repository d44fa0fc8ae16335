"""The vocabulary of the gov component."""

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
from domain.gov.messages import (
    MsgDeposit,
    MsgSubmitProposal,
    MsgUpdateParams,
    MsgVote,
    MsgVoteWeighted,
    OldMsgDeposit,
    OldMsgVote,
    OldMsgVoteWeighted,
)
from domain.gov.moves import MOVES, POTS
from domain.gov.params import LOCAL, GovParams
from domain.words import Words

WORDS = Words(
    name="gov",
    messages=(
        MsgSubmitProposal,
        MsgDeposit,
        MsgVote,
        MsgVoteWeighted,
        OldMsgDeposit,
        OldMsgVote,
        OldMsgVoteWeighted,
        MsgUpdateParams,
    ),
    events=(
        ProposalSubmitted,
        ProposalDeposited,
        VotingStarted,
        ProposalVoted,
        ProposalEnded,
        DepositReturned,
        VotesRemoved,
        ProposalDropped,
        ParameterChanged,
    ),
    pots=POTS,
    moves=MOVES,
    message_packages=("cosmpy.protos.cosmos.gov.v1", "cosmpy.protos.cosmos.gov.v1beta1", "assay.gov.v1"),
    params=GovParams,
    local_params=LOCAL,
)
