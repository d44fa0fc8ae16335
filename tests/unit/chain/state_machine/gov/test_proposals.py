"""The life of a proposal: deposits, voting, the tally, its messages, and the return of its deposits."""

from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.gov.proposals import CLEANED_AT_ONCE, VOTING_MAX
from chain.state_machine.gov.tables import DEPOSITS, PROPOSALS, VOTED_SHARES, VOTES
from chain.state_machine.gov.votes import decide
from chain.state_machine.ledger.tables import POTS
from domain.amount import ASSAY
from domain.distribution.messages import MsgCommunityPoolSpend, MsgFundCommunityPool
from domain.errors import (
    BAD_FIELD,
    DEADLINE_PASSED,
    INSUFFICIENT_FUNDS,
    INVALID_COINS,
    LIMIT_REACHED,
    NOT_FOUND,
    UNAUTHORIZED,
    WRONG_STATE,
    Code,
)
from domain.gov.messages import (
    MsgVoteWeighted,
    OldMsgDeposit,
    OldMsgVote,
    OldMsgVoteWeighted,
    OldWeightedVoteOption,
    WeightedVoteOption,
)
from domain.gov.params import GovParams
from domain.gov.records import ProposalStatus, Tally
from domain.ledger.messages import MsgSend
from domain.ledger.moves import COMMUNITY_POT
from domain.ledger.records import Coin
from domain.staking.params import StakingParams
from domain.staking.records import ONE
from tests.support.chain_harness import COINS, STAKE, Chain
from tests.support.proposals import (
    ABSTAIN,
    GOV,
    MIN_DEPOSIT,
    NO,
    VALIDATORS,
    VETO,
    VOTING,
    YES,
    change,
    deposit,
    end_voting,
    found,
    in_force,
    make_chain,
    pass_proposal,
    propose,
    tally_of,
    vote,
)
from tests.support.stakes import coin, delegate


@pytest.fixture
def chain() -> Chain:
    return make_chain()


def test_a_proposal_begins_with_a_part_of_its_deposit_and_is_voted_on_with_the_whole(chain: Chain) -> None:
    chain.ok(propose(deposit=MIN_DEPOSIT // 4))
    assert found(chain).status is ProposalStatus.DEPOSIT_PERIOD
    assert chain.worth("alice") == COINS - MIN_DEPOSIT // 4
    chain.refused(WRONG_STATE, vote("v0"), field="proposal_id")
    chain.ok(deposit("bob", MIN_DEPOSIT * 3 // 4))
    proposal = found(chain)
    assert proposal.status is ProposalStatus.VOTING_PERIOD
    assert proposal.voting_until == proposal.voting_from + VOTING
    chain.ok(deposit("bob", MIN_DEPOSIT))
    assert found(chain).deposit == 2 * MIN_DEPOSIT


def test_a_proposal_without_its_deposit_is_removed_and_its_deposits_return(chain: Chain) -> None:
    chain.ok(propose(deposit=MIN_DEPOSIT // 4))
    chain.pass_until(found(chain).deposit_until)
    chain.block()
    assert PROPOSALS.get(chain.overlay(), 1) is None
    assert chain.worth("alice") == COINS
    chain.refused(NOT_FOUND, deposit("bob", MIN_DEPOSIT))


def test_a_text_passes_and_its_deposit_returns(chain: Chain) -> None:
    pass_proposal(chain)
    proposal = found(chain)
    assert (proposal.status, proposal.tally) == (ProposalStatus.PASSED, Tally(yes=3 * STAKE))
    assert chain.worth("alice") == COINS
    overlay = chain.overlay()
    assert not DEPOSITS.scan(overlay) + VOTES.scan(overlay) + VOTED_SHARES.scan(overlay)
    chain.refused(WRONG_STATE, vote("v0"))
    chain.refused(WRONG_STATE, deposit("bob", MIN_DEPOSIT))


def test_a_parameter_changes_from_the_block_after_the_voting_on(chain: Chain) -> None:
    chain.ok(propose(change("staking", "max_entries", 3)))
    chain.ok(*(vote(name) for name in ("v0", "v1", "v2")))
    chain.pass_until(found(chain).voting_until - 1)
    assert in_force(chain).of(StakingParams).max_entries == 7
    chain.block()
    chain.block()
    assert found(chain).status is ProposalStatus.PASSED
    assert in_force(chain).of(StakingParams).max_entries == 3


def test_without_a_quorum_the_deposits_are_burnt(chain: Chain) -> None:
    chain.ok(propose(change("staking", "max_entries", 3)))
    end_voting(chain)
    assert (found(chain).status, found(chain).burns) == (ProposalStatus.REJECTED, True)
    assert chain.worth("alice") == COINS - MIN_DEPOSIT
    assert in_force(chain).of(StakingParams).max_entries == 7


def test_a_veto_burns_the_deposits(chain: Chain) -> None:
    chain.ok(propose())
    chain.ok(vote("v0", YES), vote("v1", VETO), vote("v2", VETO))
    end_voting(chain)
    assert (found(chain).status, found(chain).burns) == (ProposalStatus.REJECTED, True)
    assert chain.worth("alice") == COINS - MIN_DEPOSIT


def test_a_majority_against_it_returns_the_deposits(chain: Chain) -> None:
    chain.ok(propose())
    chain.ok(vote("v0", YES), vote("v1", NO), vote("v2", NO))
    end_voting(chain)
    assert (found(chain).status, found(chain).burns) == (ProposalStatus.REJECTED, False)
    assert chain.worth("alice") == COINS


@pytest.mark.parametrize(
    ("tally", "wanted"),
    [
        (Tally(), (False, True)),
        (Tally(yes=333), (False, True)),
        (Tally(yes=334), (True, False)),
        (Tally(yes=500, no=500), (False, False)),
        (Tally(yes=501, no=500), (True, False)),
        (Tally(yes=666, no_with_veto=334), (True, False)),
        (Tally(yes=665, no_with_veto=335), (False, True)),
        (Tally(abstain=1_000), (False, False)),
        (Tally(yes=1, abstain=999), (True, False)),
    ],
    ids=str,
)
def test_quorum_veto_and_threshold_are_compared_exactly(tally: Tally, wanted: tuple[bool, bool]) -> None:
    assert decide(tally, 1_000, GovParams()) == wanted


def test_a_delegator_takes_its_stake_from_its_validators_vote(chain: Chain) -> None:
    chain.ok(delegate("bob", "v0", 5 * ASSAY))
    chain.ok(propose())
    chain.ok(vote("v0", YES))
    assert tally_of(chain) == Tally(yes=STAKE + 5 * ASSAY)
    chain.ok(vote("bob", NO))
    assert tally_of(chain) == Tally(yes=STAKE, no=5 * ASSAY)
    chain.ok(vote("bob", ABSTAIN))
    assert tally_of(chain) == Tally(yes=STAKE, abstain=5 * ASSAY)


def test_a_vote_counts_without_its_validators_vote(chain: Chain) -> None:
    chain.ok(delegate("bob", "v0", 5 * ASSAY))
    chain.ok(propose())
    chain.ok(vote("bob", NO))
    assert tally_of(chain) == Tally(no=5 * ASSAY)


def test_a_divided_vote(chain: Chain) -> None:
    chain.ok(delegate("bob", "v0", 4 * ASSAY))
    chain.ok(propose())
    parts = (WeightedVoteOption(YES, "0.75"), WeightedVoteOption(NO, "0.250000000000000000"))
    chain.ok(MsgVoteWeighted(1, "bob", parts, ""))
    assert tally_of(chain) == Tally(yes=3 * ASSAY, no=ASSAY)
    old = (OldWeightedVoteOption(VETO, ONE // 2), OldWeightedVoteOption(ABSTAIN, ONE // 2))
    chain.ok(OldMsgVoteWeighted(1, "bob", old))
    assert tally_of(chain) == Tally(abstain=2 * ASSAY, no_with_veto=2 * ASSAY)


def test_messages_of_older_wallets(chain: Chain) -> None:
    chain.ok(propose(deposit=MIN_DEPOSIT // 2))
    chain.ok(OldMsgDeposit(1, "bob", (coin(MIN_DEPOSIT // 2),)))
    chain.ok(OldMsgVote(1, "v0", YES))
    assert tally_of(chain) == Tally(yes=STAKE)


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"deposit": MIN_DEPOSIT // 4 - 1}, INVALID_COINS, "initial_deposit"),
        ({"initial_deposit": (Coin("other", MIN_DEPOSIT),)}, INVALID_COINS, "initial_deposit[0].denom"),
        ({"deposit": COINS + 1}, INSUFFICIENT_FUNDS, "amount"),
        ({"expedited": True}, BAD_FIELD, "expedited"),
        ({"title": ""}, BAD_FIELD, "title"),
        ({"messages": (MsgSend(GOV, "alice", (coin(1),)),)}, BAD_FIELD, "messages[0]"),
        (
            {"messages": (change("staking", "max_entries", 3, authority="alice"),)},
            UNAUTHORIZED,
            "messages[0].authority",
        ),
        ({"messages": (change("nothing", "max_entries", 3),)}, BAD_FIELD, "changes[0].component"),
        ({"messages": (change("staking", "denom", 3),)}, BAD_FIELD, "changes[0].name"),
        ({"messages": (change("staking", "max_entries", 0),)}, BAD_FIELD, "params.staking.max_entries"),
        ({"messages": (change("staking", "max_entries", 2**64 - 1),)}, BAD_FIELD, "params.staking.max_entries"),
        ({"messages": (change("market", "order_min", 0),)}, BAD_FIELD, "params.market.order_min"),
    ],
    ids=lambda value: getattr(value, "name", str(value)[:30]),
)
def test_what_a_proposal_cannot_be(chain: Chain, changes: dict[str, Any], code: Code, field: str) -> None:
    chain.refused(code, propose(**changes), field=field)
    assert not PROPOSALS.scan(chain.overlay())


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ([(YES, "0.5"), (YES, "0.5")], "options"),
        ([(YES, "0.5"), (NO, "0.4")], "options"),
        ([(YES, "1"), (NO, "0.0")], "options"),
        ([(YES, "1.1")], "options[0].weight"),
        ([(YES, "-1")], "options[0].weight"),
        ([(YES, ".5"), (NO, ".5")], "options[0].weight"),
    ],
)
def test_weights_that_are_refused(chain: Chain, parts: Any, field: str) -> None:
    chain.ok(propose())
    options = tuple(WeightedVoteOption(option, weight) for option, weight in parts)
    chain.refused(BAD_FIELD, MsgVoteWeighted(1, "v0", options, ""), field=field)


def test_a_small_deposit_and_a_late_vote_are_refused(chain: Chain) -> None:
    chain.ok(propose())
    chain.refused(INVALID_COINS, deposit("bob", MIN_DEPOSIT // 100 - 1), field="amount")
    chain.ok(deposit("bob", MIN_DEPOSIT // 100))
    chain.drop_queue()
    chain.pass_until(found(chain).voting_until)
    chain.refused(DEADLINE_PASSED, vote("v0"), field="proposal_id")
    chain.refused(WRONG_STATE, deposit("bob", MIN_DEPOSIT), field="proposal_id")


def test_the_number_of_votings_is_bounded(chain: Chain) -> None:
    for _ in range(VOTING_MAX):
        chain.ok(propose())
    chain.refused(LIMIT_REACHED, propose(), field="amount")
    chain.ok(propose(deposit=MIN_DEPOSIT // 2))
    chain.refused(LIMIT_REACHED, deposit("bob", MIN_DEPOSIT // 2, VOTING_MAX + 1), field="amount")
    chain.pass_time(VOTING)
    chain.block()
    chain.ok(deposit("bob", MIN_DEPOSIT // 2, VOTING_MAX + 1))


def test_many_deposits_return_in_steps(chain: Chain) -> None:
    chain.ok(propose())
    chain.ok(vote("v0"), vote("v1"))
    names = [f"d{number}" for number in range(CLEANED_AT_ONCE)]
    for name in names:
        chain.ok(MsgSend("bob", name, (coin(2 * ASSAY),)))
        chain.ok(deposit(name, ASSAY))
    end_voting(chain)
    chain.block()
    assert not DEPOSITS.scan(chain.overlay())
    assert all(chain.worth(name) == 2 * ASSAY for name in names)


# --- the community pool --------------------------------------------------------------------------


def spend(recipient: str, amount: int, authority: str = GOV) -> MsgCommunityPoolSpend:
    return MsgCommunityPoolSpend(authority, recipient, (coin(amount),))


def test_a_proposal_spends_coins_of_the_community_pool(chain: Chain) -> None:
    chain.ok(MsgFundCommunityPool((coin(5 * ASSAY),), "carol"))
    before = chain.worth("bob")
    pass_proposal(chain, spend("bob", 3 * ASSAY))
    assert found(chain).status is ProposalStatus.PASSED
    assert chain.worth("bob") == before + 3 * ASSAY


def test_two_proposals_cannot_spend_the_same_coins(chain: Chain) -> None:
    held = POTS.get(chain.overlay(), COMMUNITY_POT.name)
    chain.ok(MsgFundCommunityPool((coin(5 * ASSAY),), "carol"))
    chain.ok(propose(spend("bob", held + 5 * ASSAY)), propose(spend("alice", held + 5 * ASSAY), proposer="bob"))
    chain.ok(*(vote(name, YES, number) for name in ("v0", "v1", "v2") for number in (1, 2)))
    end_voting(chain, 1)
    end_voting(chain, 2)
    assert found(chain, 1).status is ProposalStatus.PASSED
    assert found(chain, 2).status is ProposalStatus.FAILED


def test_proposals_that_fail_end_in_one_block(chain: Chain) -> None:
    """Their messages take no gas, so that many of them do not hold up the housekeeping of many blocks."""
    count = 4
    for _ in range(count):
        chain.ok(propose(change("market", "ttl_max", 77)), seconds=0)
    chain.pass_until(found(chain).voting_until)
    chain.block()
    assert [found(chain, number).status for number in range(1, count + 1)] == [ProposalStatus.REJECTED] * count


def test_nobody_else_spends_the_community_pool(chain: Chain) -> None:
    chain.ok(MsgFundCommunityPool((coin(5 * ASSAY),), "carol"))
    chain.refused(UNAUTHORIZED, spend("alice", 1, "alice"), field="authority")
    chain.refused(UNAUTHORIZED, propose(spend("alice", 1, "alice")), field="messages[0].authority")


def test_a_message_that_newer_rules_lack_fails_with_its_proposal(chain: Chain) -> None:
    chain.ok(propose(change("gov", "voting_period", 120)))
    known = found(chain)
    text = known.messages.replace("MsgUpdateParams", "MsgOfThePast")
    chain.change(lambda store: PROPOSALS.put(store, replace(known, messages=text)))
    chain.ok(*(vote(name) for name in VALIDATORS))
    end_voting(chain)
    assert found(chain).status is ProposalStatus.FAILED
    assert "MsgOfThePast" in found(chain).reason
