"""Every state of an order has a deadline edge; the queue is bounded and ordered."""

from importlib import import_module

import pytest

from chain.state_machine.kinds import LANES, Due
from chain.state_machine.rules import RULES
from domain.ledger.messages import MsgWithdrawBond
from domain.legs.reasons import LegEnd
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.params import local_params
from tests.support.chain_harness import COINS
from tests.support.chain_market import BOND, Market, bid, due_gas, submit


def closed(market: Market, order_id: bytes) -> CloseReason | None:
    order = market.order(order_id)
    return CloseReason(order.close_reason) if order.state is OrderState.CLOSED else None


def test_every_kind_has_an_effect_and_a_lane() -> None:
    modules = [import_module(f"chain.state_machine.{c.name}.tables") for c in RULES.components[1:]]
    declared = [value for m in modules for value in vars(m).values() if isinstance(value, Due)]
    assert {due.number: due for due in declared} == RULES.kinds
    assert {due.lane for due in RULES.kinds.values()} == set(LANES)


@pytest.mark.parametrize(("time_to_live", "reason"), [(5, CloseReason.EXPIRED), (50, CloseReason.DEADLINE)])
def test_an_open_order_ends_with_its_time_to_live_or_deadline(time_to_live: int, reason: CloseReason) -> None:
    market = Market(bidders=())
    order_id = market.submit(submit(time_to_live=time_to_live, deadline=10))
    market.chain.pass_until(market.order(order_id).expires_at - 1)
    assert closed(market, order_id) is None
    market.chain.block()
    assert closed(market, order_id) is reason
    assert market.chain.worth("carol") == COINS


@pytest.mark.parametrize("progress", [0, 1])
def test_no_progress_costs_the_part_that_was_not_done(progress: int) -> None:
    market = Market()
    order_id = market.run(submit(rematch=False))
    cost = market.order_fee(order_id)
    for number in range(progress):
        market.train_round(order_id)
        market.answer_all(order_id, number)
    deadline = market.leg(order_id).progress_deadline
    market.chain.pass_until(deadline - 1)
    assert market.leg(order_id).end_reason == 0
    market.chain.block()
    assert market.leg(order_id).end_reason == LegEnd.NO_PROGRESS
    market.chain.pass_time(12)
    market.pass_handover(order_id)
    assert closed(market, order_id) is CloseReason.FAILED
    cut = 16_000 * (2 - progress) // 2
    # What was paid after the leg had failed is not counted.
    gone = 169_800 * progress
    assert market.chain.worth("carol") == COINS - gone + ((progress and 8_000) or cost)
    assert market.chain.bond("v0") == BOND - cut


def test_progress_restarts_with_each_round() -> None:
    market = Market()
    order_id = market.run()
    first = market.leg(order_id).progress_deadline
    market.chain.pass_time(100)
    market.train_round(order_id)
    market.chain.pass_until(first + 1)
    assert market.order(order_id).state is OrderState.RUNNING
    assert market.leg(order_id).progress_deadline > first


def test_a_running_order_at_its_deadline_pays_what_its_windows_verify() -> None:
    market = Market()
    order_id = market.run()
    market.move_deadline(order_id, market.chain.clock + 25)
    market.chain.pass_until(market.order(order_id).deadline - 8)
    market.train_round(order_id)
    market.chain.pass_until(market.order(order_id).deadline)
    assert market.leg(order_id).end_reason == LegEnd.ORDER_DEADLINE
    assert closed(market, order_id) is None
    market.answer_all(order_id, 0)
    market.chain.pass_time(10)
    market.pass_handover(order_id)
    assert closed(market, order_id) is CloseReason.FAILED
    assert market.order(order_id).work_verified == 80_000_000


def test_a_failed_leg_whose_rounds_are_void_opens_again() -> None:
    market = Market()
    order_id = market.run()
    market.train_round(order_id)
    market.fault_round(order_id)
    market.chain.block()
    order = market.order(order_id)
    assert (order.state, order.failures, order.excluded) == (OrderState.OPEN, 1, ("v0",))
    assert market.chain.bond("v0p0") == BOND
    market.chain.ok(bid("v1"))
    market.accept(order_id)
    market.settle(order_id)
    market.pass_stands(order_id)
    assert closed(market, order_id) is CloseReason.SETTLED
    legs = {closed.leg: closed.verified for closed in market.all_of(order_id).rounds}
    assert legs == {1: False, 2: True}


def test_a_failed_leg_with_a_verified_round_is_not_repeated() -> None:
    market = Market()
    order_id = market.run()
    market.train_round(order_id)
    market.answer_all(order_id, 0)
    market.chain.pass_until(market.leg(order_id).progress_deadline)
    order = market.order(order_id)
    assert (order.state, order.next_round) == (OrderState.OPEN, 1)
    market.chain.ok(bid("v1"))
    market.accept(order_id)
    market.settle(order_id)
    assert closed(market, order_id) is CloseReason.SETTLED
    rounds = {(closed.leg, closed.round): closed.verified for closed in market.all_of(order_id).rounds}
    assert rounds == {(1, 0): True, (2, 1): True}


def test_a_block_handles_a_bounded_number_of_entries_of_each_lane() -> None:
    market = Market(local_params().replace(due_gas=due_gas(entries=3)), bidders=())
    orders = [market.submit(submit(time_to_live=50 - number, deadline=200)) for number in range(5)]
    market.chain.ok(*[MsgWithdrawBond(name, 5) for name in ("v1", "v2")])
    market.chain.time_ns += 0
    while market.chain.clock < 70:
        market.chain.block(seconds=0) if market.chain.clock == 69 else market.chain.block(seconds=1)
        if market.chain.clock == 69:
            break
    ended = sum(closed(market, order_id) is not None for order_id in orders)
    assert ended == 5
    market.chain.pass_time(10)
    assert len(market.chain.seen("bond.released")) == 2


def test_what_a_block_does_not_get_to_is_carried_over() -> None:
    market = Market(local_params().replace(due_gas=due_gas(entries=2)), bidders=())
    market.chain.ok(*[submit(time_to_live=10)] * 5)
    counts = []
    market.chain.pass_time(9)
    for _ in range(4):
        market.chain.block()
        counts.append(len(market.chain.seen("order.closed")))
    assert counts == [2, 4, 5, 5]
