"""The component of governance: proposals that change parameters, voted on by those who stake."""

from chain.state_machine.component import Component
from chain.state_machine.gov import gas
from chain.state_machine.gov.handlers import HANDLERS
from chain.state_machine.gov.invariants import INVARIANTS
from chain.state_machine.gov.proposals import on_cleaning, on_proposal, weigh_cleaning, weigh_proposal
from chain.state_machine.gov.tables import (
    CLEANING_DUE,
    DEPOSITS,
    LAST_PROPOSAL,
    PROPOSAL_DUE,
    PROPOSALS,
    VOTED_SHARES,
    VOTES,
    VOTING,
)
from chain.state_machine.gov.votes import on_changed, on_changing, weigh_following
from chain.state_machine.queue import Effect
from chain.state_machine.staking.hooks import DELEGATION_CHANGED, DELEGATION_CHANGING, DELEGATION_GAS

COMPONENT = Component(
    name="gov",
    tables=(PROPOSALS, VOTES, DEPOSITS, VOTING, VOTED_SHARES, LAST_PROPOSAL),
    handlers=HANDLERS,
    effects=(
        Effect(PROPOSAL_DUE, on_proposal, weigh_proposal),
        Effect(CLEANING_DUE, on_cleaning, weigh_cleaning),
    ),
    hooks=(
        DELEGATION_CHANGING.to(on_changing),
        DELEGATION_CHANGED.to(on_changed),
        DELEGATION_GAS.to(weigh_following),
    ),
    invariants=INVARIANTS,
    gas={
        "VOTE_GAS": gas.VOTE_GAS,
        "FOLLOW_GAS": gas.FOLLOW_GAS,
        "TALLY_GAS": gas.TALLY_GAS,
        "CLEANING_GAS": gas.CLEANING_GAS,
        "EXECUTION_GAS": gas.EXECUTION_GAS,
    },
)
