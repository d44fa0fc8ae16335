"""Votes, and the running count of the shares that they speak for.

A delegator's vote takes its shares from its validator's vote. The count follows each change of a delegation, so a share
counts once, wherever it is when the votes are counted. The count is in shares, and the tally in tokens: so a slash
lowers the votes of all who lose by it.
"""

from dataclasses import replace
from types import MappingProxyType

from chain.state_machine.context import Context
from chain.state_machine.gov.gas import FOLLOW_GAS
from chain.state_machine.gov.tables import VOTED_SHARES, VOTES, VOTING
from chain.state_machine.ledger.tables import POTS
from chain.state_machine.staking.tables import DELEGATIONS, DELEGATIONS_OF, VALIDATOR_STAKES, bonded_operators
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of
from domain.gov.params import GovParams
from domain.gov.records import Tally, Vote, VotedShares, VoteOption
from domain.staking.moves import STAKES_POT
from domain.staking.records import ONE

_NAMES = MappingProxyType({option: option.name.lower() for option in VoteOption})


def list_voting(store: Overlay) -> list[int]:
    """Return the proposals that are voted on, ascending."""
    return [number_of(key) for (key,) in VOTING.keys(store)]


def set_vote(ctx: Context, vote: Vote) -> None:
    """Store a vote, and count the voter's shares for it."""
    before = VOTES.get(ctx.store, vote.proposal, vote.voter)
    for _, operator in list(DELEGATIONS_OF.keys(ctx.store, vote.voter)):
        validator = operator.decode()
        shares = DELEGATIONS.must(ctx.store, validator, vote.voter).shares
        if before is not None:
            _count(ctx.store, before, validator, -shares)
        _count(ctx.store, vote, validator, shares)
    VOTES.put(ctx.store, vote)


def count_delegations(store: Overlay, voter: str) -> int:
    """Return the number of delegations that a vote of an account speaks for."""
    return sum(1 for _ in DELEGATIONS_OF.keys(store, voter))


def weigh_following(ctx: Context, delegator: str) -> int:
    """Return the gas with which the counts follow a change of a delegation: for each vote of the delegator."""
    voted = sum(VOTES.has(ctx.store, proposal, delegator) for proposal in list_voting(ctx.store))
    return FOLLOW_GAS * voted


def on_changing(ctx: Context, delegator: str, validator: str) -> None:
    """Take the shares of a delegation out of the count, before they change."""
    _follow(ctx, delegator, validator, -1)


def on_changed(ctx: Context, delegator: str, validator: str) -> None:
    """Add the shares of a delegation to the count, after they changed."""
    _follow(ctx, delegator, validator, 1)


def _follow(ctx: Context, delegator: str, validator: str, sign: int) -> None:
    proposals = list_voting(ctx.store)
    delegation = DELEGATIONS.get(ctx.store, validator, delegator) if proposals else None
    if delegation is None:
        return
    for proposal in proposals:
        vote = VOTES.get(ctx.store, proposal, delegator)
        if vote is not None:
            _count(ctx.store, vote, validator, sign * delegation.shares)


def _count(store: Overlay, vote: Vote, validator: str, shares: int) -> None:
    voted = VOTED_SHARES.get(store, vote.proposal, validator) or VotedShares(vote.proposal, validator)
    changes = {_NAMES[part.option]: shares * part.weight for part in vote.options}
    changed = replace(
        voted,
        shares=voted.shares + shares,
        **{name: getattr(voted, name) + change for name, change in changes.items()},
    )
    if changed.shares:
        VOTED_SHARES.put(store, changed)
    else:
        VOTED_SHARES.delete(store, vote.proposal, validator)


# --- the tally -----------------------------------------------------------------------------------


def compute_tally(store: Overlay, proposal: int) -> Tally:
    """Return the tokens of the validator set that are for each option now.

    A validator votes for the shares whose delegators do not vote.
    """
    sums = dict.fromkeys(VoteOption, 0)
    for operator in bonded_operators(store):
        stake = VALIDATOR_STAKES.must(store, operator)
        voted = VOTED_SHARES.get(store, proposal, operator) or VotedShares(proposal, operator)
        own = VOTES.get(store, proposal, operator)
        votes = {option: getattr(voted, name) for option, name in _NAMES.items()}
        for part in own.options if own is not None else ():
            votes[part.option] += (stake.shares - voted.shares) * part.weight
        for option, products in votes.items():
            if products:
                sums[option] += stake.tokens * products // (stake.shares * ONE)
    return Tally(**{_NAMES[option]: amount for option, amount in sums.items()})


def decide(tally: Tally, bonded: int, params: GovParams) -> tuple[bool, bool]:
    """Return whether a proposal passes, and whether its deposits are burnt; ``bonded`` is all stake that could vote."""
    total = tally.total
    if not total or total * ONE < params.quorum * bonded:
        return False, True
    if tally.no_with_veto * ONE > params.veto_threshold * total:
        return False, True
    return tally.yes * ONE > params.threshold * (total - tally.abstain), False


def get_bonded(store: Overlay) -> int:
    """Return the tokens of the validator set."""
    return POTS.get(store, STAKES_POT.name)
