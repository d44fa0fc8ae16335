"""Invariants of governance: deposits, the count of voted shares, and that each proposal ends."""

from collections import defaultdict
from typing import Any

from chain.state_machine.context import NEXT_PARAMS, Running
from chain.state_machine.gov.proposals import VOTING_MAX
from chain.state_machine.gov.tables import (
    CLEANING_DUE,
    DEPOSITS,
    PROPOSAL_DUE,
    PROPOSALS,
    VOTED_SHARES,
    VOTES,
)
from chain.state_machine.gov.votes import list_voting
from chain.state_machine.invariant import Invariants, ensure
from chain.state_machine.ledger.invariants import ensure_pot
from chain.state_machine.queue import get_entries
from chain.state_machine.staking.tables import DELEGATIONS, DELEGATIONS_OF
from chain.state_machine.store import Overlay
from domain.gov.moves import GOV_POT
from domain.gov.records import ProposalStatus, VoteOption


def check_deposits(store: Overlay, _: Running) -> None:
    """Check that the pot has what the deposits say, and that an open proposal has all its deposits."""
    sums: dict[int, int] = defaultdict(int)
    for deposit in DEPOSITS.scan(store):
        ensure(deposit.amount > 0, "a deposit of a proposal is not positive")
        sums[deposit.proposal] += deposit.amount
    ensure_pot(store, GOV_POT, sum(sums.values()))
    voting = list_voting(store)
    ensure(len(voting) <= VOTING_MAX, "too many proposals are voted on")
    due: dict[int, set[int]] = defaultdict(set)
    for entry in get_entries(store):
        if entry.kind in (PROPOSAL_DUE.number, CLEANING_DUE.number):
            due[entry.number(0)].add(entry.kind)
    for proposal in PROPOSALS.scan(store):
        is_voted_on = proposal.status is ProposalStatus.VOTING_PERIOD
        ensure((proposal.id in voting) == is_voted_on, f"proposal {proposal.id} has no place among those voted on")
        kinds = due.pop(proposal.id, set())
        is_dropped = proposal.status is ProposalStatus.DEPOSIT_PERIOD and CLEANING_DUE.number in kinds
        is_open = is_voted_on or (proposal.status is ProposalStatus.DEPOSIT_PERIOD and not is_dropped)
        left = sums.pop(proposal.id, 0)
        ensure(left == proposal.deposit if is_open else left <= proposal.deposit, "deposits of a proposal are missing")
        ensure(not is_open or kinds == {PROPOSAL_DUE.number}, f"proposal {proposal.id} does not end")
        ensure(is_open or not left or CLEANING_DUE.number in kinds, "deposits of a proposal are never returned")
    ensure(not sums, "a deposit has no proposal")
    ensure(not due, "an entry of the queue has no proposal")


def check_votes(store: Overlay, _: Running) -> None:
    """Check that the count of voted shares is that of the delegations of all who voted."""
    voting = list_voting(store)
    counts: dict[tuple[int, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for vote in VOTES.scan(store):
        if vote.proposal not in voting:
            continue
        for *__, operator in DELEGATIONS_OF.keys(store, vote.voter):
            count = counts[vote.proposal, operator.decode()]
            shares = DELEGATIONS.must(store, operator.decode(), vote.voter).shares
            count["shares"] += shares
            for part in vote.options:
                count[part.option.name.lower()] += shares * part.weight
    for voted in VOTED_SHARES.scan(store):
        if voted.proposal not in voting:
            continue
        known: dict[str, Any] = counts.pop((voted.proposal, voted.validator), {})
        names = ("shares", *(option.name.lower() for option in VoteOption))
        is_same = all(getattr(voted, name) == known.get(name, 0) for name in names)
        ensure(is_same, "the voted shares are not those of the voters")
    ensure(not counts, "voted shares are not counted")


def check_next_params(store: Overlay, _: Running) -> None:
    """Check that no parameters wait between two blocks."""
    ensure(NEXT_PARAMS.find(store) is None, "changed parameters do not apply")


INVARIANTS = Invariants(whole=(check_deposits, check_votes, check_next_params))
