"""Audit room: panels that wait their turn, training that goes on meanwhile, and deadlines that move by the wait."""

import pytest

from chain.state_machine.proof.tables import AUDIT_LOAD
from domain.legs.reasons import LegEnd
from domain.market.records import OrderState
from domain.params import Params, local_params
from pol.rules.panels import panel_load
from tests.support.chain_market import PRICE, Market, make_terms, submit


def narrow(**changes: int) -> Params:
    """Parameters under which the auditors have room for one panel at a time."""
    made = local_params().replace(audit_room_bps=1, round_window=200, progress_base=300)
    return made.replace(**changes)


def stages(market: Market, *order_ids: bytes, round: int = 0) -> list[int]:
    return [market.panel(order_id, round).stage for order_id in order_ids]


def close_together(market: Market, *order_ids: bytes) -> None:
    """Close the open round of each order in one block."""
    for order_id in order_ids:
        market.commit(order_id, *market.traces_of_round(order_id))
    for order_id in order_ids:
        market.wait_drawn(order_id)
    market.chain.ok(*(market.close_message(order_id) for order_id in order_ids))


def test_rounds_that_close_in_one_block_do_not_seat_more_than_there_is_room_for() -> None:
    market = Market(narrow(), validators=6)
    orders = [market.run() for _ in range(3)]
    close_together(market, *orders)
    market.chain.pass_time(20)
    assert sorted(stages(market, *orders)) == [0, 0, 1]
    assert len(market.chain.seen("panel.waits")) == 2


def test_who_pays_auditors_most_for_their_work_is_next() -> None:
    market = Market(narrow(), validators=6)
    first = market.run()
    dear = market.run(submit(deposit=900_000, price_limit=2 * PRICE))
    # By name the cheap one would come first.
    cheap = next(
        order_id for _ in range(20) if (order_id := market.run(submit(deposit=500_000, price_limit=PRICE + 1))) < dear
    )
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
    order_id = market.run()
    market.train_round(order_id)
    panel = market.wait_stage(order_id)
    assert AUDIT_LOAD.get(market.chain.overlay()) == panel.load > 3
    market.answer_all(order_id, 0)
    assert AUDIT_LOAD.get(market.chain.overlay()) == 0


def test_training_goes_on_while_a_panel_waits_and_then_stands_still_without_harm() -> None:
    market = Market(narrow(rounds_ahead=2, progress_base=30), validators=6)
    first, order_id = market.run(), market.run(submit(terms=make_terms(rounds=3), deposit=600_000))
    market.train_round(first)
    market.wait_stage(first)
    market.train_round(order_id)
    market.train_round(order_id)
    assert stages(market, order_id) == [0]
    market.chain.pass_time(100)
    assert market.order(order_id).state is OrderState.RUNNING


def test_what_an_order_waits_for_room_is_added_to_its_deadline() -> None:
    market = Market(narrow(), validators=6)
    first, order_id = market.run(), market.run(submit(terms=make_terms(rounds=3), deposit=600_000))
    market.train_round(first)
    market.wait_stage(first)
    market.train_round(order_id)
    since, deadline = market.chain.clock, market.chain.clock + 30
    market.move_deadline(order_id, deadline)
    market.chain.pass_time(40)
    assert market.order(order_id).state is OrderState.RUNNING
    market.commit(order_id, *market.traces_of_round(order_id))
    market.answer_all(first, 0)
    begun = market.chain.clock
    assert market.order(order_id).deadline == deadline + begun - since
    (moved,) = market.chain.seen("order.deadline_moved")
    assert moved.get("deadline") == str(deadline + begun - since)
    market.chain.pass_until(deadline + begun - since)
    (ended,) = market.all_of(order_id).legs
    assert ended.end_reason == LegEnd.ORDER_DEADLINE


@pytest.mark.parametrize("round", [0, 1])
def test_a_void_round_gives_back_its_room_and_its_place_among_those_who_wait(round: int) -> None:
    market = Market(narrow(), validators=6)
    order_id, other = market.run(submit(rematch=False)), market.run()
    market.train_round(order_id)
    market.train_round(order_id)
    market.train_round(other)
    assert stages(market, order_id, round=1) == [0]
    market.fault_round(order_id, 0)
    assert market.round_of(order_id, 1, round).void
    market.wait_stage(other)


def test_room_is_the_time_of_seats_over_their_time_to_commit() -> None:
    params = local_params().replace(stage_base=24).for_order()
    # Two segments are always drawn; there are 24 s and six times 6 s to commit.
    assert panel_load(make_terms(), params, 2, 3, 6_000) == 3 * 1_000
    assert panel_load(make_terms(), params, 4, 3, 6_000) == 2 * 3 * 1_000
    assert panel_load(make_terms(), params, 2, 1, 1) == 1
