"""Attacks on governance: the same stake votes twice, stake that is gone votes, and proposals that should not pass."""

import pytest

from chain.state_machine.context import PARAMS
from chain.state_machine.gov.gas import FOLLOW_GAS
from chain.state_machine.gov.tables import VOTED_SHARES
from domain.amount import ASSAY
from domain.authz.messages import GenericAuthorization, Grant, MsgExec, MsgGrant
from domain.errors import UNAUTHORIZED
from domain.gov.messages import MsgUpdateParams, MsgVoteWeighted, ParamChange, WeightedVoteOption
from domain.gov.records import ProposalStatus, Tally
from domain.ledger.messages import MsgSend
from domain.legs.params import LegsParams
from domain.market.params import MarketParams
from domain.staking.messages import MsgBeginRedelegate
from domain.staking.params import StakingParams
from tests.support.chain_harness import COINS, STAKE, Chain
from tests.support.chain_market import Market
from tests.support.proposals import (
    NO,
    VALIDATORS,
    VETO,
    YES,
    change,
    end_voting,
    found,
    in_force,
    make_chain,
    pass_proposal,
    propose,
    tally_of,
    vote,
)
from tests.support.stakes import cancel, coin, delegate, jail, redelegate, slash, undelegate

PART = 5 * ASSAY


@pytest.fixture
def chain() -> Chain:
    """Return a chain with a proposal that is voted on. Bob delegates to v0, and votes for it."""
    chain = make_chain()
    chain.ok(delegate("bob", "v0", PART))
    chain.ok(propose())
    chain.ok(vote("bob"))
    return chain


# --- stake that moves ----------------------------------------------------------------------------


def test_redelegated_stake_votes_once(chain: Chain) -> None:
    chain.ok(vote("v1", NO))
    assert tally_of(chain) == Tally(yes=PART, no=STAKE)
    chain.ok(redelegate("bob", "v0", "v1", PART))
    assert tally_of(chain) == Tally(yes=PART, no=STAKE)
    chain.ok(redelegate("v0", "v0", "v1", 2 * PART))
    assert tally_of(chain) == Tally(yes=PART, no=STAKE + 2 * PART)


def test_stake_that_leaves_after_its_vote_does_not_vote(chain: Chain) -> None:
    chain.ok(undelegate("bob", "v0", PART - ASSAY))
    assert tally_of(chain) == Tally(yes=ASSAY)
    chain.ok(undelegate("bob", "v0", ASSAY))
    assert tally_of(chain) == Tally()
    assert not VOTED_SHARES.scan(chain.overlay())
    chain.ok(cancel("bob", "v0", ASSAY, chain.height))
    assert tally_of(chain) == Tally(yes=ASSAY)


def test_stake_that_comes_after_the_vote_votes_too(chain: Chain) -> None:
    chain.ok(vote("carol", NO))
    assert tally_of(chain) == Tally(yes=PART)
    chain.ok(delegate("carol", "v2", PART), delegate("bob", "v2", PART))
    assert tally_of(chain) == Tally(yes=2 * PART, no=PART)


def test_an_accomplice_cannot_vote_with_the_same_coins(chain: Chain) -> None:
    chain.ok(undelegate("bob", "v0", PART))
    chain.ok(delegate("carol", "v0", PART), vote("carol", NO))
    assert tally_of(chain) == Tally(no=PART)


def test_voting_again_replaces_the_vote(chain: Chain) -> None:
    for option in (NO, VETO, YES, YES):
        chain.ok(vote("bob", option))
    assert tally_of(chain) == Tally(yes=PART)
    chain.ok(MsgVoteWeighted(1, "bob", (WeightedVoteOption(NO, "0.2"), WeightedVoteOption(VETO, "0.8")), ""))
    assert tally_of(chain) == Tally(no=ASSAY, no_with_veto=4 * ASSAY)


# --- stake that is gone --------------------------------------------------------------------------


def test_slashed_stake_votes_with_what_is_left(chain: Chain) -> None:
    chain.ok(vote("v0", NO))
    slash(chain, "v0", (STAKE + PART) // 2)
    assert tally_of(chain) == Tally(yes=PART // 2, no=STAKE // 2)
    slash(chain, "v0", (STAKE + PART) // 2)
    assert tally_of(chain) == Tally()


def test_stake_outside_the_set_does_not_vote(chain: Chain) -> None:
    chain.ok(vote("v0"))
    jail(chain, "v0")
    chain.block()
    assert tally_of(chain) == Tally()
    jail(chain, "v0", jailed=False)
    chain.block()
    assert tally_of(chain) == Tally(yes=STAKE + PART)


def test_coins_without_stake_do_not_vote(chain: Chain) -> None:
    before = tally_of(chain)
    chain.ok(vote("alice", VETO), vote("carol", VETO))
    assert tally_of(chain) == before


# --- proposals -----------------------------------------------------------------------------------


def test_no_one_changes_parameters_without_a_proposal() -> None:
    chain = make_chain()
    changes = (ParamChange("staking", "max_entries", 1),)
    chain.refused(UNAUTHORIZED, MsgUpdateParams("alice", changes), field="authority")
    chain.refused(UNAUTHORIZED, propose(MsgUpdateParams("alice", changes)), field="messages[0].authority")
    assert in_force(chain).of(StakingParams).max_entries == 7


def test_filling_all_votings_costs_the_deposits() -> None:
    chain = make_chain()
    chain.ok(*(propose() for _ in range(8)))
    end_voting(chain)
    chain.pass_time(5)
    assert chain.worth("alice") == COINS - 80 * ASSAY


def test_a_proposal_that_fails_changes_nothing() -> None:
    """Two proposals pass at the same time. After the first, a part of the second would break a rule."""
    chain = make_chain()
    pass_proposal(chain, change("market", "order_min", 100_000))
    first = change("market", "order_min", 5_000)
    parts = ParamChange("market", "ttl_max", 77), ParamChange("legs", "payload_fee", 10_000)
    chain.ok(
        propose(first),
        propose(MsgUpdateParams(first.authority, parts[:1]), MsgUpdateParams(first.authority, parts[1:])),
    )
    chain.ok(*(vote(name, YES, proposal) for name in VALIDATORS for proposal in (2, 3)))
    end_voting(chain, 2)
    params = in_force(chain)
    assert (params.of(MarketParams).order_min, params.of(LegsParams).payload_fee) == (5_000, 500)
    assert params.of(MarketParams).ttl_max != 77
    assert (found(chain, 2).status, found(chain, 3).status) == (ProposalStatus.PASSED, ProposalStatus.FAILED)
    assert found(chain, 3).reason.startswith("params.market.order_min")
    numbers = [event.number for event in chain.events]
    assert numbers == list(range(1, len(numbers) + 1))
    chain.pass_time(3)
    assert chain.worth("alice") == COINS
    chain.check_books()


def test_all_messages_of_a_proposal_change_their_parameters() -> None:
    chain = make_chain()
    pass_proposal(chain, change("market", "ttl_max", 77), change("staking", "max_entries", 3))
    params = in_force(chain)
    assert (params.of(MarketParams).ttl_max, params.of(StakingParams).max_entries) == (77, 3)


def test_the_deposit_of_a_proposal_cannot_be_sent_to_governance() -> None:
    chain = make_chain()
    result = chain.block(MsgSend("alice", found_account(), (coin(1),)))
    assert result.tx_results[0].code


def found_account() -> str:
    return change("market", "ttl_max", 1).authority


def test_a_smaller_set_is_chosen_in_the_next_block() -> None:
    chain = make_chain()
    pass_proposal(chain, change("staking", "max_validators", 2))
    chain.block()
    assert PARAMS.get(chain.overlay()).of(StakingParams).max_validators == 2
    assert sorted(chain.sets[2].values(), reverse=True)[:3].count(STAKE // ASSAY) == 2


# --- orders that run -----------------------------------------------------------------------------

OF_ORDERS = {
    "proof": {"stand_wait": 7, "stand_segments": 1, "appeal_wait": 7, "include_wait": 7, "show_wait": 7},
    "disputes": {"challenge_reward_bps": 9_999},
    "legs": {"job_bond_bps": 9_999, "max_attempts": 1, "payload_fee": 1},
}


def test_an_order_keeps_the_parameters_of_its_beginning() -> None:
    """All its waits change to a second while it runs. It still ends as if they had not."""
    market = Market(consumers=("carol", "dave"))
    order_id = market.run()
    before = market.order(order_id).params
    changes = tuple(
        ParamChange(component, name, value) for component, values in OF_ORDERS.items() for name, value in values.items()
    )
    market.chain.ok(propose(change("", "", 0, changes=changes), proposer="carol"))
    market.chain.ok(*(vote(name) for name in market.validators))
    end_voting(market.chain)
    after = in_force(market.chain).for_order()
    for values in OF_ORDERS.values():
        for name, value in values.items():
            assert getattr(after, name) == value != getattr(before, name)
    assert market.order(order_id).params == before
    market.settle(order_id)
    assert market.order(order_id).params == before


def test_who_votes_pays_for_counts_that_follow_a_delegation() -> None:
    """Each change of a delegation changes the counts of all proposals that the delegator voted on."""
    chain = make_chain()
    allowed = Grant(GenericAuthorization(MsgBeginRedelegate.URL), None)
    chain.ok(MsgGrant("bob", "carol", allowed))
    chain.ok(delegate("bob", "v0", PART), delegate("bob", "v1", PART), undelegate("bob", "v1", 7))
    messages = (
        delegate("bob", "v0", PART),
        redelegate("bob", "v0", "v1", PART),
        undelegate("bob", "v0", PART),
        cancel("bob", "v1", 7, chain.height),
        MsgExec("carol", (redelegate("bob", "v0", "v1", PART),)),
    )

    def needed() -> list[int]:
        return [chain.simulate(chain.tx(message)).gas_used for message in messages]

    before = needed()
    for number in range(1, 4):
        chain.ok(propose(), vote("bob", proposal=number))
    assert [late - early for early, late in zip(before, needed(), strict=True)] == [
        count * 3 * FOLLOW_GAS for count in (1, 2, 1, 1, 2)
    ]
