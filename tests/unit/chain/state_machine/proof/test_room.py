"""Audit room: panels that wait their turn, training that goes on meanwhile, and deadlines that move by the wait."""

from dataclasses import replace

import pytest

from chain.state_machine.market.tables import BIDS
from chain.state_machine.proof.tables import AUDIT_LOAD
from domain.legs.reasons import LegEnd
from domain.market.messages import MsgWithdrawBid
from domain.market.records import OrderState
from domain.params import Params, local_params
from pol.rules.panels import panel_fee
from tests.support.chain_market import PRICE, Market, bid, make_terms, slow_auditors, submit

LONG = submit(deadline=100_000)


def narrow(**changes: int) -> Params:
    """Parameters under which the auditors have room for one panel at a time."""
    made = local_params().replace(audit_room_bps=1, window_max=2_000, progress_base=300)
    return made.replace(**changes)


def crowded(params: Params | None = None, validators: int = 6) -> Market:
    """A market whose auditors need some seconds for a panel, so that it holds its room for that long."""
    market = Market(params or narrow(), validators=validators)
    slow_auditors(market)
    return market


def stages(market: Market, *order_ids: bytes, round: int = 0) -> list[int]:
    return [market.panel(order_id, round).stage for order_id in order_ids]


def close_together(market: Market, *order_ids: bytes) -> None:
    """Close the open round of each order in one block."""
    for order_id in order_ids:
        market.commit(order_id, *market.traces_of_round(order_id))
    for order_id in order_ids:
        market.wait_drawn(order_id)
    market.chain.ok(*(each for order_id in order_ids for each in market.close_messages(order_id)))


def test_rounds_that_close_in_one_block_do_not_seat_more_than_there_is_room_for() -> None:
    market = crowded()
    orders = [market.run(LONG) for _ in range(3)]
    close_together(market, *orders)
    market.chain.pass_time(20)
    assert sorted(stages(market, *orders)) == [0, 0, 1]
    assert len(market.chain.seen("panel.waits")) == 2


def test_who_pays_auditors_most_for_their_work_is_next() -> None:
    """Auditors are paid at the price at which the order was sold."""
    market = crowded()
    first = market.run(LONG)
    cheap = market.run(LONG)
    (standing,) = BIDS.scan(market.chain.overlay())
    market.chain.ok(MsgWithdrawBid("v0", standing.id), bid("v0", price=2 * PRICE))
    # By name the dear one comes last.
    dear_order = replace(LONG, deposit=900_000, price_limit=2 * PRICE)
    dear = next(order_id for _ in range(20) if (order_id := market.run(dear_order)) > cheap)
    market.train_round(first)
    market.wait_stage(first)
    close_together(market, cheap, dear)
    market.answer_all(first, 0)
    market.wait_stage(dear)
    assert stages(market, cheap, dear) == [0, 1]
    market.answer_all(dear, 0)
    market.wait_stage(cheap)


def test_a_panel_that_is_larger_than_all_room_begins_alone() -> None:
    market = Market(narrow(), validators=3)
    order_id = market.run(LONG)
    market.train_round(order_id)
    panel = market.wait_stage(order_id)
    assert AUDIT_LOAD.get(market.chain.overlay()) == panel.load == 2
    market.answer_all(order_id, 0)
    assert AUDIT_LOAD.get(market.chain.overlay()) == 0


def test_training_goes_on_while_a_panel_waits_and_then_stands_still_without_harm() -> None:
    market = crowded(narrow(rounds_ahead=2, progress_base=30))
    first, order_id = market.run(LONG), market.run(replace(LONG, terms=make_terms(rounds=3), deposit=600_000))
    market.train_round(first)
    market.wait_stage(first)
    market.train_round(order_id)
    market.train_round(order_id)
    assert stages(market, order_id) == [0]
    market.chain.pass_time(100)
    assert market.order(order_id).state is OrderState.RUNNING


def test_what_an_order_waits_for_room_is_added_to_its_deadline() -> None:
    market = crowded()
    first, order_id = market.run(LONG), market.run(replace(LONG, terms=make_terms(rounds=3), deposit=600_000))
    market.train_round(first)
    market.wait_stage(first)
    market.train_round(order_id)
    since, deadline = market.chain.clock, market.chain.clock + 30
    market.move_deadline(order_id, deadline)
    market.chain.pass_time(40)
    assert market.order(order_id).state is OrderState.RUNNING
    market.commit(order_id, *market.traces_of_round(order_id))
    market.answer_all(first, 0)
    # The room was free with the last commitment, one block before.
    begun = market.chain.clock - 1
    assert market.order(order_id).deadline == deadline + begun - since
    (moved,) = market.chain.seen("order.deadline_moved")
    assert moved.get("deadline") == str(deadline + begun - since)
    market.chain.pass_until(deadline + begun - since)
    (ended,) = market.all_of(order_id).legs
    assert ended.end_reason == LegEnd.ORDER_DEADLINE


@pytest.mark.parametrize("round", [0, 1])
def test_a_void_round_gives_back_its_room_and_its_place_among_those_who_wait(round: int) -> None:
    market = crowded()
    order_id, other = market.run(replace(LONG, rematch=False)), market.run(LONG)
    market.train_round(order_id)
    market.train_round(order_id)
    market.train_round(other)
    assert stages(market, order_id, round=1) == [0]
    market.fault_round(order_id, 0)
    assert market.round_of(order_id, 1, round).void
    market.wait_stage(other)


def test_a_seat_takes_room_until_it_commits() -> None:
    market = crowded(narrow(audit_room_bps=10_000))
    order_id = market.run(LONG)
    market.train_round(order_id)
    market.wait_stage(order_id)
    right = market.answers(order_id)
    for left, name in zip((2, 1), market.seated(order_id), strict=True):
        assert AUDIT_LOAD.get(market.chain.overlay()) == left
        market.chain.ok(market.commit_answer(order_id, 0, name, right))
    assert AUDIT_LOAD.get(market.chain.overlay()) == 0


def test_a_seat_that_waits_holds_no_room_longer_than_its_work_takes_the_slowest() -> None:
    """A friendly seat that acts in the last second used to hold the room for half a window."""
    market = crowded()
    first, other = market.run(LONG), market.run(LONG)
    market.train_round(first)
    market.wait_stage(first)
    market.train_round(other)
    assert stages(market, other) == [0]
    market.chain.pass_time(-(-market.order(first).audit_ms // 1_000))
    market.wait_stage(other)
    assert market.panel(first, 0).is_open
    assert market.panel(first, 0).committed == 0


def test_room_is_a_part_of_the_validators_that_can_audit() -> None:
    market = crowded(narrow(audit_room_bps=6_000), validators=8)
    orders = [market.run(LONG) for _ in range(3)]
    close_together(market, *orders)
    market.chain.pass_time(5)
    # Eight can, so four may be at work: two panels of two seats.
    assert sorted(stages(market, *orders)) == [0, 1, 1]


def test_further_groups_begin_only_while_no_other_panel_waits() -> None:
    params = local_params().replace(audit_bps=5_000, audit_room_bps=10_000, audit_places_max=30, answer_fee=0)
    market = Market(params, validators=14)
    terms = make_terms(round_steps=40)
    first = market.run(replace(LONG, terms=terms, deposit=5_000_000))
    market.train_round(first)
    market.wait_stage(first)
    # 14 validators and two auditors: at most 14 / (3 * 2) groups.
    assert {place.group for place in market.panel(first, 0).places} == {0, 1}
    assert len(market.seated(first)) == len(set(market.seated(first))) == 4
    kinds = [len(seat.places) for seat in market.seats(first, 0)]
    # The first group also has an encrypted chunk of the hand-over.
    assert kinds == [5, 5, 2, 2]
    market.answer_groups(first, 0)
    market.chain.pass_until(market.round(first, 0).window_ends)
    assert market.round(first, 0).verified
    (verified,) = market.chain.seen("round.verified")
    order, leg = market.order(first), market.leg(first)
    assert int(verified.get("audit_fee")) == panel_fee(terms, order.params, leg.price, 2)
