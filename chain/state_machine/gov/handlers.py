"""Handlers of governance: proposals, deposits, votes, and changes of parameters."""

from chain.state_machine.context import Context
from chain.state_machine.gov.changes import apply_spend, apply_update, check_spend, check_update
from chain.state_machine.gov.contents import pack_messages
from chain.state_machine.gov.gas import VOTE_GAS
from chain.state_machine.gov.proposals import VOTING_MAX, add_deposit, apply_messages, begins_voting
from chain.state_machine.gov.tables import LAST_PROPOSAL, PROPOSAL_DUE, PROPOSALS
from chain.state_machine.gov.votes import count_delegations, list_voting, set_vote
from chain.state_machine.handler import Handler
from chain.state_machine.ledger.balances import check_funds
from chain.state_machine.queue import schedule
from chain.state_machine.store import Overlay
from domain.amount import ceil_div, in_assay
from domain.distribution.messages import MsgCommunityPoolSpend
from domain.errors import BAD_FIELD, DEADLINE_PASSED, INVALID_COINS, LIMIT_REACHED, UNAUTHORIZED, WRONG_STATE, Refusal
from domain.gov.events import ProposalSubmitted, ProposalVoted
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
from domain.gov.moves import GOV_POT
from domain.gov.params import GovParams
from domain.gov.records import Proposal, ProposalStatus, Vote, VoteOption, WeightedOption
from domain.hashing import u64
from domain.ledger.records import Coin
from domain.messages import signer_of
from domain.staking.records import ONE

AnyDeposit = MsgDeposit | OldMsgDeposit
AnyVote = MsgVote | OldMsgVote
AnyVoteWeighted = MsgVoteWeighted | OldMsgVoteWeighted

LEAST_PART = 100
"""A deposit is at least this part of ``min_deposit``, so that returning the deposits of a proposal is little work."""


def _amount(ctx: Context, coins: tuple[Coin, ...], field: str) -> int:
    (coin,) = coins
    if coin.denom != ctx.block.denom:
        reason = f"{coin.denom} is not the coin of this chain"
        raise Refusal(INVALID_COINS, f"{field}[0].denom", reason, f"use {ctx.block.denom}")
    return coin.amount


# --- MsgSubmitProposal ---------------------------------------------------------------------------


def check_submit_fields(message: MsgSubmitProposal) -> None:
    """Check that all messages are those of governance, and that the proposal asks for no shorter voting."""
    for at, inner in enumerate(message.messages):
        if inner.SIGNER != "authority":
            reason = f"{inner.URL} is not a message of governance"
            raise Refusal(BAD_FIELD, f"messages[{at}]", reason, "use messages with the field authority")
        if signer_of(inner) != GOV_POT.address:
            reason = f"is not the account of governance: expected {GOV_POT.address}, got {signer_of(inner)}"
            raise Refusal(UNAUTHORIZED, f"messages[{at}].authority", reason, f"use {GOV_POT.address}")
    if message.expedited:
        raise Refusal(BAD_FIELD, "expedited", "is not part of this chain", "leave it out")


def check_submit(ctx: Context, message: MsgSubmitProposal) -> Proposal:
    """Return the proposal; refuse messages that would fail now, and an initial deposit that is too small."""
    params = ctx.block.params.of(GovParams)
    amount = _amount(ctx, message.initial_deposit, "initial_deposit")
    least = max(1, ceil_div(params.min_deposit * params.min_initial_deposit_ratio, ONE))
    if amount < least:
        reason = f"is below {in_assay(least)}: minimum deposit is too small"
        raise Refusal(INVALID_COINS, "initial_deposit", reason, f"deposit at least {in_assay(least)}")
    check_funds(ctx, message.proposer, amount)
    proposal = Proposal(
        id=LAST_PROPOSAL.get(ctx.store) + 1,
        proposer=message.proposer,
        title=message.title,
        summary=message.summary,
        metadata=message.metadata,
        messages=pack_messages(message.messages),
        submitted_at=ctx.clock,
        deposit_until=ctx.clock + params.max_deposit_period,
    )
    _check_room(ctx, proposal, amount)
    _try_messages(ctx, message, proposal)
    return proposal


def _check_room(ctx: Context, proposal: Proposal, amount: int) -> None:
    if begins_voting(ctx, proposal, amount) and len(list_voting(ctx.store)) >= VOTING_MAX:
        reason = f"{VOTING_MAX} proposals are voted on, so no other voting can begin"
        raise Refusal(LIMIT_REACHED, "amount", reason, "deposit less, or wait until a voting ends")


def _try_messages(ctx: Context, message: MsgSubmitProposal, proposal: Proposal) -> None:
    """Apply the messages, and drop all changes."""
    store, events, next_event = ctx.store, ctx.events, ctx.next_event
    ctx.store, ctx.events = Overlay(store), []
    try:
        apply_messages(ctx, message.messages, proposal.id)
    finally:
        ctx.store, ctx.events, ctx.next_event = store, events, next_event


def apply_submit(ctx: Context, message: MsgSubmitProposal, proposal: Proposal) -> None:
    """Store the proposal, and take its first deposit."""
    LAST_PROPOSAL.set(ctx.store, proposal.id)
    PROPOSALS.put(ctx.store, proposal)
    schedule(ctx, proposal.deposit_until, PROPOSAL_DUE, proposal.id)
    ctx.emit(
        ProposalSubmitted(
            proposal=proposal.id,
            proposer=proposal.proposer,
            title=proposal.title,
            text=proposal.summary,
            metadata=proposal.metadata,
            messages=proposal.messages,
            submitted_at=proposal.submitted_at,
            deposit_until=proposal.deposit_until,
        )
    )
    ctx.note("submit_proposal", ("proposal_id", str(proposal.id)), ("proposal_proposer", proposal.proposer))
    ctx.responses.append(("proposal_id", u64(proposal.id)))
    add_deposit(ctx, proposal, message.proposer, message.initial_deposit[0].amount)


# --- MsgDeposit ----------------------------------------------------------------------------------


def check_deposit(ctx: Context, message: AnyDeposit) -> Proposal:
    """Return the proposal; refuse a proposal that is over, and a deposit that is too small."""
    proposal = PROPOSALS.need(ctx.store, message.proposal_id)
    is_open = {
        ProposalStatus.DEPOSIT_PERIOD: ctx.clock < proposal.deposit_until,
        ProposalStatus.VOTING_PERIOD: ctx.clock < proposal.voting_until,
    }
    if not is_open.get(proposal.status, False):
        reason = f"{proposal.id}: inactive proposal"
        raise Refusal(WRONG_STATE, "proposal_id", reason, "name a proposal whose deposit period or voting lasts")
    amount = _amount(ctx, message.amount, "amount")
    least = ceil_div(ctx.block.params.of(GovParams).min_deposit, LEAST_PART)
    if amount < least:
        reason = f"is below {in_assay(least)}: minimum deposit is too small"
        raise Refusal(INVALID_COINS, "amount", reason, f"deposit at least {in_assay(least)}")
    check_funds(ctx, message.depositor, amount)
    _check_room(ctx, proposal, amount)
    return proposal


def apply_deposit(ctx: Context, message: AnyDeposit, proposal: Proposal) -> None:
    """Take the deposit."""
    add_deposit(ctx, proposal, message.depositor, message.amount[0].amount)


# --- votes ---------------------------------------------------------------------------------------


def check_vote(ctx: Context, message: AnyVote) -> Vote:
    """Return the vote; refuse a proposal that is not voted on."""
    _check_voting(ctx, message.proposal_id)
    options = (WeightedOption(VoteOption(message.option), ONE),)
    metadata = getattr(message, "metadata", "")
    return Vote(proposal=message.proposal_id, voter=message.voter, options=options, metadata=metadata)


def check_vote_weighted(ctx: Context, message: AnyVoteWeighted) -> Vote:
    """Return the vote; refuse options that come twice, and weights that do not add up to 1."""
    _check_voting(ctx, message.proposal_id)
    options = tuple(WeightedOption(VoteOption(part.option), read_weight(part.weight)) for part in message.options)
    if len({part.option for part in options}) < len(options):
        raise Refusal(BAD_FIELD, "options", "has an option twice", "name each option once")
    if not all(part.weight for part in options):
        raise Refusal(BAD_FIELD, "options", "has an option without weight", "leave the option out")
    total = sum(part.weight for part in options)
    if total != ONE:
        raise Refusal(BAD_FIELD, "options", "has weights that do not add up to 1", "use weights whose sum is 1")
    metadata = getattr(message, "metadata", "")
    return Vote(proposal=message.proposal_id, voter=message.voter, options=options, metadata=metadata)


def read_weight(weight: str | int) -> int:
    """Return a weight in units of 10^-18."""
    if isinstance(weight, int):
        return weight
    whole, _, part = weight.partition(".")
    return int(whole) * ONE + int(part.ljust(18, "0"))


def _check_voting(ctx: Context, number: int) -> None:
    proposal = PROPOSALS.need(ctx.store, number)
    if proposal.status is not ProposalStatus.VOTING_PERIOD:
        reason = f"{number}: inactive proposal"
        raise Refusal(WRONG_STATE, "proposal_id", reason, "name a proposal that is voted on")
    if ctx.clock >= proposal.voting_until:
        reason = f"{number}: inactive proposal, because its voting has ended"
        raise Refusal(DEADLINE_PASSED, "proposal_id", reason, "name a proposal that is voted on")


def weigh_vote(ctx: Context, message: AnyVote | AnyVoteWeighted, vote: Vote) -> int:
    """Return the gas of counting the voter's delegations."""
    return VOTE_GAS * count_delegations(ctx.store, vote.voter)


def apply_vote(ctx: Context, message: AnyVote | AnyVoteWeighted, vote: Vote) -> None:
    """Store and count the vote."""
    set_vote(ctx, vote)
    ctx.emit(
        ProposalVoted(
            proposal=vote.proposal,
            voter=vote.voter,
            options=tuple(int(part.option) for part in vote.options),
            weights=tuple(part.weight for part in vote.options),
            metadata=vote.metadata,
        )
    )
    ctx.note("proposal_vote", ("voter", vote.voter), ("proposal_id", str(vote.proposal)))


HANDLERS = (
    Handler(message=MsgSubmitProposal, check_state=check_submit, apply=apply_submit, check_fields=check_submit_fields),
    Handler(message=MsgDeposit, check_state=check_deposit, apply=apply_deposit),
    Handler(message=MsgVote, check_state=check_vote, apply=apply_vote, weight=weigh_vote),
    Handler(message=MsgVoteWeighted, check_state=check_vote_weighted, apply=apply_vote, weight=weigh_vote),
    Handler(message=OldMsgDeposit, check_state=check_deposit, apply=apply_deposit),
    Handler(message=OldMsgVote, check_state=check_vote, apply=apply_vote, weight=weigh_vote),
    Handler(message=OldMsgVoteWeighted, check_state=check_vote_weighted, apply=apply_vote, weight=weigh_vote),
    Handler(message=MsgUpdateParams, check_state=check_update, apply=apply_update),
    Handler(message=MsgCommunityPoolSpend, check_state=check_spend, apply=apply_spend),
)
