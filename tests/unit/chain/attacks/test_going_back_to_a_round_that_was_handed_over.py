"""If the states of the last verified round are lost, the order goes back to its newest hand-over round before it."""

import pytest

from domain.legs.messages import MsgStopOrder
from domain.legs.reasons import LegEnd, PartEnd
from domain.legs.records import Leg, LegState
from domain.market.records import OrderState
from domain.params import local_params
from domain.proof.records import Round, Ruling
from pol.rules.schedule import round_work
from tests.support.chain_market import Market
from tests.support.lost_states import PARAMS, fetched, lack, missing, say, stopped, wait_match

SPARSE = local_params().replace(round_window=20, handover_every=2)
"""Parameters under which every second round is handed over."""


def round_of(market: Market, order_id: bytes, leg: int, round: int) -> Round:
    return next(found for found in market.all_of(order_id).rounds if (found.leg, found.round) == (leg, round))


def lose(market: Market, order_id: bytes) -> Leg:
    """Let the panel about the states of the current leg say that they are lost; return the next leg."""
    panel = say(market, lack(market, order_id), missing)
    assert panel.places[0].ruling is Ruling.WRONG
    return wait_match(market, order_id)


def test_the_next_leg_starts_from_the_states_that_were_handed_over_before() -> None:
    market, order_id = stopped(done=2)
    verified = market.order(order_id).work_verified
    leg = lose(market, order_id)
    left = round_of(market, order_id, 1, 0)
    assert (leg.first_round, leg.rounds, leg.from_leg) == (1, 2, 1)
    assert leg.initial_root == left.next_root
    assert market.order(order_id).next_round == 1
    assert market.order(order_id).work_verified == verified // 2 == round_work(market.order(order_id).terms)


def test_every_slot_starts_from_the_local_state_that_was_handed_over() -> None:
    """The encrypted states of a hand-over round contain the local state of each slot, so no slot starts again."""
    market, order_id = stopped(done=2)
    leg = lose(market, order_id)
    answer = market.all_of(order_id)
    shares = (answer.share(key) for key in round_of(market, order_id, 1, 0).share_keys)
    left = {share.claim.slot: share.roots.local_out for share in shares if share is not None and share.roots}
    later = (answer.share(key) for key in round_of(market, order_id, 1, 1).share_keys)
    lost = {share.claim.slot: share.roots.local_out for share in later if share is not None and share.roots}
    assert len(left) == answer.order.terms.slots
    assert left != lost
    for slot, root in left.items():
        assert answer.opening_local(leg.number, slot) == root


def test_the_order_is_trained_to_its_end_from_there_and_settles() -> None:
    market, order_id = stopped(done=2)
    lose(market, order_id)
    market.accept(order_id)
    market.settle(order_id)
    market.pass_stands(order_id)
    answer = market.all_of(order_id)
    assert answer.order.state is OrderState.CLOSED
    assert answer.legs[-1].state is LegState.DONE
    assert answer.order.work_verified == answer.order.terms.rounds * round_work(answer.order.terms)


def test_if_these_states_are_lost_too_the_order_starts_from_its_payload() -> None:
    """The chain goes back twice at most, so no one can let the community pool pay a panel for each round."""
    market, order_id = stopped(done=2, validators=9, deposit=4 * 3 * 180_000)
    leg = lose(market, order_id)
    assert leg.first_round == 1
    leg = lose(market, order_id)
    assert (leg.first_round, leg.rounds, leg.from_leg) == (0, 3, 0)
    assert leg.initial_root == market.order(order_id).terms.global_root
    assert market.order(order_id).work_verified == 0


def test_if_the_states_of_a_second_round_are_lost_the_order_does_not_go_on_stepping_back() -> None:
    market, order_id = stopped(done=3, rounds=4, validators=9, deposit=4 * 4 * 180_000)
    assert lose(market, order_id).first_round == 2
    assert lose(market, order_id).first_round == 0


def test_an_order_that_was_trained_further_may_go_back_again() -> None:
    market, order_id = stopped(done=2, validators=9, deposit=5 * 3 * 180_000)
    assert lose(market, order_id).first_round == 1
    market.accept(order_id)
    market.train_round(order_id)
    market.answer_all(order_id, 1)
    market.chain.pass_time(market.order(order_id).window + 2)
    market.chain.ok(MsgStopOrder(market.leg(order_id).validator, order_id, market.leg(order_id).number))
    assert wait_match(market, order_id).first_round == 2
    leg = lose(market, order_id)
    assert (leg.first_round, leg.from_leg) == (1, 1)


def test_a_deposit_that_does_not_pay_the_rounds_again_ends_the_order() -> None:
    market, order_id = stopped(deposit=3 * 180_000, done=2)
    say(market, lack(market, order_id), missing)
    market.chain.block()
    order = market.order(order_id)
    assert order.state is OrderState.CLOSED
    # What is verified stays verified, and paid.
    assert order.next_round == 2
    assert market.all_of(order_id).legs[-1].back_root == b""


def test_a_deposit_that_pays_one_round_again_needs_not_pay_all_of_them() -> None:
    """The way back to the payload would cost two rounds more, for which this deposit has nothing."""
    market, order_id = stopped(deposit=4 * 180_000, done=2)
    leg = lose(market, order_id)
    assert leg.first_round == 1


@pytest.mark.parametrize(("done", "first_round"), [(1, 0), (2, 0)])
def test_only_rounds_that_were_handed_over_count(done: int, first_round: int) -> None:
    """Round 1 is the only hand-over round here, and its own states are the lost ones."""
    market, order_id = stopped(done=done, params=SPARSE)
    leg = lose(market, order_id)
    assert leg.first_round == first_round


def test_the_way_back_may_lead_into_an_earlier_leg() -> None:
    market, order_id = stopped(done=1, validators=9, deposit=4 * 3 * 180_000)
    market.accept(order_id)
    market.train_round(order_id)
    market.answer_all(order_id, 1)
    market.chain.pass_time(market.order(order_id).window + 2)
    market.chain.ok(MsgStopOrder(market.leg(order_id).validator, order_id, 2))
    assert wait_match(market, order_id).from_leg == 2
    leg = lose(market, order_id)
    assert (leg.first_round, leg.from_leg) == (1, 1)
    assert leg.initial_root == round_of(market, order_id, 1, 0).next_root


def test_validators_that_lacked_the_lost_states_do_not_count_against_the_earlier_ones() -> None:
    market, order_id = stopped(done=2)
    asker = market.leg(order_id).validator
    leg = lose(market, order_id)
    assert asker not in market.order(order_id).excluded
    # A leg that starts from the earlier states may ask for a panel of its own.
    panel = say(market, lack(market, order_id), fetched)
    assert panel.round == 0
    assert market.leg(order_id).number == leg.number
    assert market.leg(order_id).state is LegState.MATCHED


def test_validators_that_lacked_the_lost_states_do_not_end_the_order_that_goes_back() -> None:
    few = PARAMS.replace(max_attempts=2)
    market, order_id = stopped(done=2, params=few, validators=9, deposit=4 * 3 * 180_000)
    first = lack(market, order_id)
    while market.order(order_id).legs == 2:
        # No seat answers, so the first panel cannot decide.
        market.chain.pass_time(60)
        market.chain.block()
    assert market.all_of(order_id).legs[1].end_reason == LegEnd.STATE_UNAVAILABLE
    assert first.round == 1
    wait_match(market, order_id)
    leg = lose(market, order_id)
    assert leg.first_round == 1


def test_the_validator_that_withholds_its_last_states_loses_its_part_only_once() -> None:
    market, order_id = stopped(done=2, validators=9, deposit=4 * 3 * 180_000)
    part = market.all_of(order_id).legs[0].part
    assert part > 0
    lose(market, order_id)
    lose(market, order_id)
    ended = market.chain.seen("part.ended")
    assert [(int(event.get("end")), int(event.get("amount"))) for event in ended] == [(PartEnd.UNAVAILABLE, part)]
    assert [leg.end_reason for leg in market.all_of(order_id).legs[1:3]] == [LegEnd.STATE_UNAVAILABLE] * 2
