"""The life of a proposal: deposits, voting, the tally, its messages, and the return of its deposits."""

from dataclasses import replace
from itertools import islice

from chain.state_machine.context import Context, TxOrigin
from chain.state_machine.gas import message_gas
from chain.state_machine.gov.contents import unpack_messages
from chain.state_machine.gov.gas import CLEANING_GAS, EXECUTION_GAS, TALLY_GAS
from chain.state_machine.gov.tables import (
    CLEANING_DUE,
    DEPOSITS,
    PROPOSAL_DUE,
    PROPOSALS,
    VOTED_SHARES,
    VOTES,
    VOTING,
)
from chain.state_machine.gov.votes import compute_tally, decide, get_bonded
from chain.state_machine.ledger.balances import apply_transfer
from chain.state_machine.queue import QueueEntry, cancel, schedule
from chain.state_machine.staking.tables import count_bonded
from chain.state_machine.store import Overlay
from domain.errors import Refusal
from domain.gov.events import (
    DepositReturned,
    ProposalDeposited,
    ProposalDropped,
    ProposalEnded,
    VotesRemoved,
    VotingStarted,
)
from domain.gov.moves import GOV_POT, PROPOSAL_BURN, PROPOSAL_DEPOSIT, PROPOSAL_REFUND
from domain.gov.params import GovParams
from domain.gov.records import REASON_MAX, Deposit, Proposal, ProposalStatus, Tally
from domain.messages import Message, each_message
from domain.moves import Transfer

VOTING_MAX = 32
"""Largest number of proposals that are voted on at a time, because each change of a delegation looks at them."""
CLEANED_AT_ONCE = 16
"""Number of deposits and votes of a proposal that a step removes."""


def add_deposit(ctx: Context, proposal: Proposal, depositor: str, amount: int) -> None:
    """Take a deposit from an account, and begin the voting if the deposits suffice."""
    apply_transfer(ctx, Transfer(move=PROPOSAL_DEPOSIT, source=depositor, target=depositor, amount=amount))
    old = DEPOSITS.get(ctx.store, proposal.id, depositor) or Deposit(proposal.id, depositor, 0)
    DEPOSITS.put(ctx.store, replace(old, amount=old.amount + amount))
    proposal = PROPOSALS.update(ctx.store, proposal.id, deposit=proposal.deposit + amount)
    ctx.emit(ProposalDeposited(proposal.id, depositor, amount))
    coins = f"{amount}{ctx.block.denom}"
    ctx.note("proposal_deposit", ("depositor", depositor), ("amount", coins), ("proposal_id", str(proposal.id)))
    if begins_voting(ctx, proposal, 0):
        _begin_voting(ctx, proposal)


def begins_voting(ctx: Context, proposal: Proposal, amount: int) -> bool:
    """Return whether a deposit of ``amount`` begins the voting on a proposal."""
    least = ctx.block.params.of(GovParams).min_deposit
    return proposal.status is ProposalStatus.DEPOSIT_PERIOD and proposal.deposit + amount >= least


def _begin_voting(ctx: Context, proposal: Proposal) -> None:
    until = ctx.clock + ctx.block.params.of(GovParams).voting_period
    PROPOSALS.update(
        ctx.store, proposal.id, status=ProposalStatus.VOTING_PERIOD, voting_from=ctx.clock, voting_until=until
    )
    VOTING.mark(ctx.store, proposal.id)
    cancel(ctx, proposal.deposit_until, PROPOSAL_DUE, proposal.id)
    schedule(ctx, until, PROPOSAL_DUE, proposal.id)
    ctx.emit(VotingStarted(proposal.id, ctx.clock, until))
    ctx.note("active_proposal", ("proposal_id", str(proposal.id)))


# --- the end -------------------------------------------------------------------------------------


def on_proposal(ctx: Context, due: QueueEntry) -> None:
    """End the deposit period or the voting of a proposal."""
    proposal = PROPOSALS.must(ctx.store, due.number(0))
    if proposal.status is ProposalStatus.DEPOSIT_PERIOD:
        ctx.emit(ProposalDropped(proposal.id))
        ctx.note("inactive_proposal", ("proposal_id", str(proposal.id)), ("proposal_result", "proposal_dropped"))
    else:
        _end_voting(ctx, proposal)
    schedule(ctx, ctx.clock, CLEANING_DUE, proposal.id)


def weigh_proposal(ctx: Context, due: QueueEntry) -> int:
    """Return the gas of ending a period of a proposal.

    Messages that will not be applied have no gas. So proposals that fail do not each fill the lane of a block.
    """
    proposal = PROPOSALS.must(ctx.store, due.number(0))
    if proposal.status is ProposalStatus.DEPOSIT_PERIOD:
        return 0
    tally = TALLY_GAS * count_bonded(ctx.store)
    if proposal.messages == "[]":
        return tally
    _, passes, _ = _count(ctx, proposal)  # votes are counted here, and again at the end
    return 2 * tally + (EXECUTION_GAS if passes else 0)


def _count(ctx: Context, proposal: Proposal) -> tuple[Tally, bool, bool]:
    """Return the votes on a proposal, whether it passes, and whether its deposits are burnt."""
    tally = compute_tally(ctx.store, proposal.id)
    return tally, *decide(tally, get_bonded(ctx.store), ctx.block.params.of(GovParams))


def _end_voting(ctx: Context, proposal: Proposal) -> None:
    VOTING.delete(ctx.store, proposal.id)
    tally, passes, burns = _count(ctx, proposal)
    status, reason = ProposalStatus.REJECTED, ""
    if passes:
        reason = _execute(ctx, proposal)
        status = ProposalStatus.FAILED if reason else ProposalStatus.PASSED
    PROPOSALS.update(ctx.store, proposal.id, status=status, tally=tally, burns=burns, reason=reason)
    ctx.emit(ProposalEnded(proposal=proposal.id, status=int(status), tally=tally, burns=burns, reason=reason))
    result = f"proposal_{status.name.lower()}"
    ctx.note("active_proposal", ("proposal_id", str(proposal.id)), ("proposal_result", result))


def _execute(ctx: Context, proposal: Proposal) -> str:
    """Apply all messages of a proposal or none of them. Return the reason why they failed; empty if they did not."""
    try:
        messages = unpack_messages(proposal.messages)
    except ValueError as error:  # the rules changed since it was proposed
        return str(error)[:REASON_MAX]
    store, events, first_event = ctx.store, ctx.events, ctx.next_event
    ctx.store, ctx.events = Overlay(store), []
    try:
        apply_messages(ctx, messages, proposal.id)
        ctx.store.merge_into_parent()
        events.extend(ctx.events)
        return ""
    except Refusal as error:
        ctx.next_event = first_event
        return str(error)[:REASON_MAX] or "is refused"
    finally:
        ctx.store, ctx.events = store, events


def apply_messages(ctx: Context, messages: tuple[Message, ...], proposal: int) -> None:
    """Apply messages as the account of governance; raise Refusal for the first that is refused."""
    sender, index, limit, used = ctx.sender, ctx.message_index, ctx.gas_limit, ctx.gas_used
    responses = list(ctx.responses)
    ctx.sender = TxOrigin(address=GOV_POT.address, sequence=proposal, gas=0, payer=GOV_POT.address)
    ctx.gas_limit, ctx.gas_used = EXECUTION_GAS, sum(map(message_gas, messages))
    try:
        for at, message in enumerate(messages):
            ctx.message_index = at
            for each in each_message((message,)):
                ctx.rules.check_message(each, is_bounded=False)
            ctx.rules.apply_message(ctx, message)
    finally:
        ctx.sender, ctx.message_index, ctx.gas_limit, ctx.gas_used = sender, index, limit, used
        ctx.responses = responses


# --- what is left --------------------------------------------------------------------------------


def on_cleaning(ctx: Context, due: QueueEntry) -> None:
    """Return or burn some deposits of a proposal that is over, and remove some votes. Go on until none is left."""
    proposal = PROPOSALS.must(ctx.store, due.number(0))
    for deposit in DEPOSITS.scan(ctx.store, proposal.id, limit=CLEANED_AT_ONCE):
        DEPOSITS.delete(ctx.store, proposal.id, deposit.depositor)
        move = PROPOSAL_BURN if proposal.burns else PROPOSAL_REFUND
        target = "" if proposal.burns else deposit.depositor
        apply_transfer(ctx, Transfer(move=move, source=deposit.depositor, target=target, amount=deposit.amount))
        returned = DepositReturned(
            proposal=proposal.id, depositor=deposit.depositor, amount=deposit.amount, burnt=proposal.burns
        )
        ctx.emit(returned)
    voters = tuple(voter.decode() for _, voter in islice(VOTES.keys(ctx.store, proposal.id), CLEANED_AT_ONCE))
    for voter in voters:
        VOTES.delete(ctx.store, proposal.id, voter)
    if voters:
        ctx.emit(VotesRemoved(proposal.id, voters))
    for _, validator in list(islice(VOTED_SHARES.keys(ctx.store, proposal.id), CLEANED_AT_ONCE)):
        VOTED_SHARES.delete(ctx.store, proposal.id, validator)
    if any(any(True for _ in table.keys(ctx.store, proposal.id)) for table in (DEPOSITS, VOTES, VOTED_SHARES)):
        schedule(ctx, ctx.clock, CLEANING_DUE, proposal.id)
    elif proposal.status is ProposalStatus.DEPOSIT_PERIOD:
        PROPOSALS.delete(ctx.store, proposal.id)


def weigh_cleaning(ctx: Context, due: QueueEntry) -> int:
    """Return the gas of a step."""
    return CLEANING_GAS * 3 * CLEANED_AT_ONCE
