"""An order names who may challenge its rounds and for how long; neither stalls it, nor lets a cheat hurry."""

import pytest

from chain.state_machine.ledger.tables import BOND_ACCOUNTS
from domain.disputes.messages import MsgWaive
from domain.disputes.records import DisputeState
from domain.errors import BAD_FIELD, NOT_YOURS, WRONG_STATE
from domain.ledger.messages import MsgDepositBond
from domain.legs.records import LegState
from domain.market.records import ChallengeTerms
from tests.support.chain_market import BOND, CONSUMER, Market, make_terms, submit
from tests.unit.chain.state_machine.disputes.test_challenges import (
    commit,
    dispute,
    found_wrong,
    missed,
    opening,
    params,
    verified_by_lot,
)

WAIT = 400


def waiting_round(
    challenges: ChallengeTerms, *, rounds: int = 1, validators: int = 9, **changes: int
) -> tuple[Market, bytes]:
    """An order that waits for challenges, with a closed round whose panel has found everything right."""
    market = Market(params(**changes), validators=validators)
    terms = make_terms(round_steps=64, slots=1, rounds=rounds)
    message = submit(terms=terms, deposit=2_000_000 * rounds, challenges=challenges, deadline=10_000)
    order_id = market.run(message)
    market.chain.ok(MsgDepositBond(CONSUMER, BOND))
    market.train_round(order_id)
    return market, order_id


def pass_window(market: Market, order_id: bytes, round: int = 0) -> None:
    market.chain.pass_until(market.round(order_id, round).window_ends)
    market.chain.pass_time(2)


def waive_all(market: Market, order_id: bytes, *besides: str, round: int = 0) -> None:
    for name in (CONSUMER, *market.validators):
        if name not in besides:
            market.chain.ok(MsgWaive(name, order_id, 1, round), seconds=0)


def test_only_those_whom_the_order_names_challenge_besides_parties_and_validators() -> None:
    market, order_id = waiting_round(ChallengeTerms(addresses=("v8p1",)))
    place = missed(market, order_id)
    market.chain.refused(NOT_YOURS, commit(market, order_id, place, name="v7p1"), field="challenger")
    market.chain.ok(commit(market, order_id, place, name="v8p1"), commit(market, order_id, place, name="v7"))
    market.chain.ok(commit(market, order_id, place))


def test_nobody_but_parties_and_validators_challenges_if_the_order_names_none() -> None:
    market, order_id = waiting_round(ChallengeTerms())
    place = missed(market, order_id)
    market.chain.refused(NOT_YOURS, commit(market, order_id, place, name="v0p1"), field="challenger")
    market.chain.ok(commit(market, order_id, place, name="v3"))


def test_a_made_up_segment_is_found_after_the_window_while_the_round_waits() -> None:
    market, order_id = waiting_round(ChallengeTerms(wait=WAIT))
    place = missed(market, order_id)
    verified_by_lot(market, order_id)
    pass_window(market, order_id)
    assert not market.round(order_id, 0).verified
    before = BOND_ACCOUNTS.must(market.chain.overlay(), CONSUMER).free
    market.chain.ok(commit(market, order_id, place))
    market.chain.ok(opening(order_id, place))
    market.about = 1
    market.say_all(order_id, lambda: found_wrong(market, order_id))
    market.chain.pass_time(5)
    assert market.round_of(order_id, 1, 0).void
    assert dispute(market, order_id).state is DisputeState.UPHELD
    assert BOND_ACCOUNTS.must(market.chain.overlay(), CONSUMER).free == before


def test_the_wait_is_no_part_of_the_window_and_ends_by_itself() -> None:
    market, order_id = waiting_round(ChallengeTerms(wait=WAIT))
    verified_by_lot(market, order_id)
    closed = market.round(order_id, 0)
    assert closed.window_ends - closed.closed_at == market.order(order_id).window
    market.chain.pass_until(closed.challenges_end - 2)
    assert not market.round(order_id, 0).verified
    market.chain.pass_time(4)
    assert market.round(order_id, 0).verified


def test_rounds_that_wait_only_for_challenges_do_not_stop_the_training() -> None:
    market, order_id = waiting_round(ChallengeTerms(wait=5_000), rounds=3, rounds_ahead=1)
    verified_by_lot(market, order_id)
    assert market.leg(order_id).uncleared == 1
    pass_window(market, order_id)
    leg = market.leg(order_id)
    assert (leg.cleared, leg.verified, leg.uncleared) == (1, 0, 0)
    assert leg.state is LegState.RUNNING
    assert leg.progress_deadline > market.chain.clock
    market.train_round(order_id)
    market.answer_all(order_id, 1)
    assert market.leg(order_id).uncleared == 1


def test_a_validator_that_stops_fails_in_its_own_time_while_a_round_waits() -> None:
    market, order_id = waiting_round(ChallengeTerms(wait=5_000), rounds=3)
    verified_by_lot(market, order_id)
    deadline = market.leg(order_id).progress_deadline
    market.chain.pass_until(deadline + 2)
    assert market.leg(order_id).state is LegState.FAILED
    assert not market.round(order_id, 0).verified


def test_the_wait_ends_when_all_who_may_challenge_have_waived() -> None:
    market, order_id = waiting_round(ChallengeTerms(wait=WAIT, addresses=("v8p1",)))
    verified_by_lot(market, order_id)
    waive_all(market, order_id)
    pass_window(market, order_id)
    # The named account may still find something.
    assert not market.round(order_id, 0).verified
    market.chain.ok(MsgWaive("v8p1", order_id, 1, 0))
    market.chain.pass_time(2)
    assert market.round(order_id, 0).verified
    assert market.chain.clock < market.round(order_id, 0).challenges_end


def test_waivers_of_all_but_one_honest_validator_hurry_nothing() -> None:
    market, order_id = waiting_round(ChallengeTerms(wait=WAIT))
    place = missed(market, order_id)
    verified_by_lot(market, order_id)
    waive_all(market, order_id, "v5")
    pass_window(market, order_id)
    assert not market.round(order_id, 0).verified
    market.chain.ok(commit(market, order_id, place, name="v5"))
    market.chain.ok(opening(order_id, place, name="v5"))
    # A waiver does not release the hold of an open challenge.
    market.chain.ok(MsgWaive("v5", order_id, 1, 0))
    market.chain.pass_time(2)
    assert not market.round(order_id, 0).verified


def test_waivers_end_no_window() -> None:
    market, order_id = waiting_round(ChallengeTerms(wait=WAIT))
    verified_by_lot(market, order_id)
    waive_all(market, order_id)
    market.chain.pass_until(market.round(order_id, 0).window_ends - 2)
    assert not market.round(order_id, 0).verified
    market.chain.pass_time(4)
    assert market.round(order_id, 0).verified


def test_an_account_waives_all_rounds_of_a_leg_at_once() -> None:
    market, order_id = waiting_round(ChallengeTerms(wait=WAIT), rounds=2)
    verified_by_lot(market, order_id)
    waive_all(market, order_id, round=1)
    assert market.leg(order_id).waived == 2
    market.train_round(order_id)
    market.answer_all(order_id, 1)
    pass_window(market, order_id, 1)
    assert all(market.round(order_id, number).verified for number in (0, 1))


@pytest.mark.parametrize("what", ["stranger", "no wait", "anyone", "again", "beyond", "other leg"])
def test_refused_waivers(what: str) -> None:
    terms = {"no wait": ChallengeTerms(), "anyone": ChallengeTerms(anyone=True, wait=WAIT)}
    market, order_id = waiting_round(terms.get(what, ChallengeTerms(wait=WAIT)))
    mine = MsgWaive(CONSUMER, order_id, 1, 0)
    if what == "stranger":
        market.chain.refused(NOT_YOURS, MsgWaive("v7p1", order_id, 1, 0), field="sender")
    elif what in ("no wait", "anyone"):
        market.chain.refused(WRONG_STATE, mine, field="order_id")
    elif what == "again":
        market.chain.ok(mine)
        market.chain.refused(BAD_FIELD, mine, field="round")
    elif what == "beyond":
        market.chain.refused(BAD_FIELD, MsgWaive(CONSUMER, order_id, 1, 1), field="round")
    else:
        market.chain.refused(WRONG_STATE, MsgWaive(CONSUMER, order_id, 2, 0), field="leg")


def test_an_order_lists_each_challenger_once_and_in_order() -> None:
    market = Market(params(), validators=9)
    for addresses in (("v8p1", "v7p1"), ("v8p1", "v8p1")):
        wrong = submit(challenges=ChallengeTerms(addresses=addresses))
        market.chain.refused(BAD_FIELD, wrong, field="challenges.addresses")
