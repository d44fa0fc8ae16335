"""Holds: what they stop, what they move, and that each of them ends."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from chain.state_machine.context import Context
from chain.state_machine.invariant import InvariantBroken
from chain.state_machine.market.holds import HELD_SECONDS_MAX, HOLDS_MAX, drop_holds, hold
from chain.state_machine.market.tables import HELD_TIMES, HOLD_DUE, HOLDS
from chain.state_machine.mempool import next_block
from chain.state_machine.queue import DEADLINES
from chain.state_machine.store import Overlay
from domain.errors import LIMIT_REACHED, WRONG_STATE
from domain.legs.messages import MsgAcceptOrder, MsgDeclineOrder
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.market.messages import MsgCancelOrder
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.params import local_params
from tests.support.chain_harness import COINS, CRYPTO
from tests.support.chain_market import Market, make_terms, slow_auditors, submit
from tests.support.judge import RULEBOOK, JudgedChain, judge


def judged(bidders: tuple[str, ...] = ("v0",)) -> Market:
    return Market(chain=JudgedChain, validators=6, bidders=bidders)


def test_a_held_order_does_not_settle_until_it_is_released() -> None:
    market = judged()
    order_id = market.run()
    for round in range(2):
        market.train_round(order_id)
        market.answer_all(order_id, round)
    market.chain.ok(judge(order_id, 500))
    market.chain.pass_time(100)
    assert market.leg(order_id).verified == 2, "verification asks for the round alone"
    assert market.order(order_id).state is OrderState.PROVEN
    market.chain.ok(judge(order_id, 0))
    market.chain.pass_time(60)
    assert market.order(order_id).close_reason == CloseReason.SETTLED
    assert list(HELD_TIMES.keys(market.chain.overlay())) == []


def test_a_held_round_is_not_verified_and_those_behind_it_wait() -> None:
    market = judged()
    order_id = market.run()
    market.train_round(order_id)
    market.chain.ok(judge(order_id, 500, round=0))
    market.answer_all(order_id, 0)
    market.train_round(order_id)
    market.answer_all(order_id, 1)
    market.chain.pass_time(100)
    assert market.leg(order_id).verified == 0
    market.chain.ok(judge(order_id, 0, round=0))
    market.chain.pass_time(2)
    assert market.leg(order_id).verified == 2
    market.pass_handover(order_id)
    assert market.order(order_id).close_reason == CloseReason.SETTLED


def test_a_failed_leg_of_a_held_order_ends_when_it_is_released() -> None:
    market = judged()
    order_id = market.run(submit(rematch=False))
    market.train_round(order_id)
    market.chain.ok(judge(order_id, 500))
    market.fault_round(order_id)
    market.chain.pass_time(20)
    assert market.leg(order_id).state is LegState.FAILED
    assert market.order(order_id).state is OrderState.RUNNING
    market.chain.ok(judge(order_id, 0))
    market.pass_stands(order_id)
    assert market.order(order_id).close_reason == CloseReason.FAILED


def test_a_hold_that_nobody_takes_off_ends_by_itself() -> None:
    market = judged()
    order_id = market.run()
    until = market.chain.clock + 1 + 50
    market.chain.ok(judge(order_id, 50))
    market.settle(order_id)
    market.chain.pass_until(until - 1)
    assert len(HOLDS.scan(market.chain.overlay())) == 1
    market.chain.pass_until(until)
    assert HOLDS.scan(market.chain.overlay()) == []
    market.chain.pass_time(60)
    assert market.order(order_id).close_reason == CloseReason.SETTLED


def test_held_time_is_added_to_the_deadlines_of_the_order_and_its_running_leg() -> None:
    market = judged()
    order_id = market.run()
    order, leg = market.order(order_id), market.leg(order_id)
    market.chain.ok(judge(order_id, 500))
    since = market.chain.clock
    market.chain.pass_until(leg.progress_deadline + 10)
    assert market.leg(order_id).state is LegState.RUNNING, "the deadline stands still"
    market.chain.ok(judge(order_id, 0))
    held = market.chain.clock - since
    assert market.order(order_id).deadline == order.deadline + held
    assert market.leg(order_id).progress_deadline == leg.progress_deadline + held
    (moved,) = market.chain.seen("leg.deadlines")
    assert moved.get("progress_deadline") == str(leg.progress_deadline + held)
    market.chain.pass_until(leg.progress_deadline + held - 1)
    assert market.leg(order_id).state is LegState.RUNNING
    market.chain.block()
    assert market.leg(order_id).end_reason == LegEnd.NO_PROGRESS


def test_overlapping_holds_count_once() -> None:
    market = judged()
    order_id = market.run()
    before = market.order(order_id).deadline
    market.chain.ok(judge(order_id, 10, "a"))
    market.chain.pass_time(5)
    market.chain.ok(judge(order_id, 10, "b"), judge(order_id, 3, "c", round=0))
    market.chain.pass_time(30)
    assert HOLDS.scan(market.chain.overlay()) == []
    # From the first second of "a" to the last of "b", which began 6 seconds later.
    assert market.order(order_id).deadline == before + 16
    market.chain.ok(judge(order_id, 4, "a"))
    market.chain.pass_time(10)
    assert market.order(order_id).deadline == before + 20


def test_a_hold_of_a_matched_order_moves_the_time_to_accept_and_keeps_the_match() -> None:
    market = judged()
    order_id = market.submit()
    leg = market.leg(order_id)
    market.chain.ok(judge(order_id, 500))
    since = market.chain.clock
    market.chain.pass_until(leg.accept_deadline + 5)
    market.chain.refused(WRONG_STATE, MsgDeclineOrder("v0", order_id, 1, LegEnd.DECLINED_BY_CHOICE))
    market.chain.ok(judge(order_id, 0))
    held = market.chain.clock - since
    assert market.leg(order_id).accept_deadline == leg.accept_deadline + held
    market.chain.ok(MsgAcceptOrder("v0", order_id, 1))
    assert market.leg(order_id).state is LegState.RUNNING


def test_what_begins_while_an_order_is_held_has_its_whole_time_afterwards() -> None:
    """A deadline that starts during a hold stands still for the rest of it, and not for what was before."""
    market = judged()
    order_id = market.submit()
    market.chain.ok(judge(order_id, 500))
    market.chain.pass_time(7)
    market.accept(order_id)
    accepted = market.chain.clock
    market.chain.pass_time(9)
    market.chain.ok(judge(order_id, 0))
    held = market.chain.clock - accepted
    unheld = Market(validators=6)
    other = unheld.run()
    whole = unheld.leg(other).progress_deadline - unheld.chain.clock
    assert market.leg(order_id).progress_deadline == accepted + whole + held


def test_an_open_order_that_is_held_is_not_cancelled_and_does_not_expire() -> None:
    market = judged(bidders=())
    order_id = market.submit(submit(time_to_live=20))
    market.chain.ok(judge(order_id, 40))
    market.chain.refused(WRONG_STATE, MsgCancelOrder("carol", order_id))
    market.chain.pass_time(30)
    assert market.order(order_id).state is OrderState.OPEN
    market.chain.pass_time(12)
    assert market.order(order_id).close_reason == CloseReason.EXPIRED
    assert market.chain.worth("carol") == COINS


@pytest.mark.parametrize("held_first", [False, True])
@pytest.mark.parametrize("released_first", [False, True])
def test_time_in_which_panels_wait_for_room_as_well_counts_once(held_first: bool, released_first: bool) -> None:
    params = local_params().replace(audit_room_bps=1, window_max=2_000)
    market = Market(params, chain=JudgedChain, validators=6)
    slow_auditors(market)
    first = market.run(submit(deadline=100_000))
    order_id = market.run(submit(terms=make_terms(rounds=3), deposit=600_000, deadline=100_000))
    market.train_round(first)
    market.wait_stage(first)
    before = market.order(order_id).deadline
    market.commit(order_id, *market.traces_of_round(order_id))
    market.wait_drawn(order_id)
    if held_first:
        market.chain.ok(judge(order_id, 500))
        begin = market.chain.clock
        market.chain.pass_time(3)
        market.chain.ok(*market.close_messages(order_id))
    else:
        market.chain.ok(*market.close_messages(order_id))
        begin = market.chain.clock
        market.chain.pass_time(3)
        market.chain.ok(judge(order_id, 500))
    assert market.chain.seen("panel.waits")
    market.chain.pass_time(4)
    if released_first:
        market.chain.ok(judge(order_id, 0))
        market.chain.pass_time(2)
        market.answer_all(first, 0)
        # The room is free with the last commitment, one block before the panel is decided.
        end = market.chain.clock - 1
    else:
        market.answer_all(first, 0)
        market.chain.pass_time(2)
        market.chain.ok(judge(order_id, 0))
        end = market.chain.clock
    assert market.order(order_id).deadline == before + end - begin


def test_an_order_is_held_for_a_bounded_time_in_all() -> None:
    market = judged()
    order_id = market.run()
    market.chain.ok(judge(order_id, 10**9))
    (placed,) = HOLDS.scan(market.chain.overlay())
    assert placed.until == market.chain.clock + HELD_SECONDS_MAX
    market.chain.change(lambda store: HELD_TIMES.update(store, order_id, total=HELD_SECONDS_MAX - 30, holds=1))
    market.chain.checked = False  # the end of the first hold is now too late
    market.chain.ok(judge(order_id, 10**9))
    (placed,) = HOLDS.scan(market.chain.overlay())
    assert placed.until <= market.chain.clock + 30
    market.chain.checked = True
    market.chain.pass_time(40)
    assert HOLDS.scan(market.chain.overlay()) == []
    market.chain.refused(LIMIT_REACHED, judge(order_id, 5))


def test_an_order_has_a_bounded_number_of_holds_and_an_ended_one_has_none() -> None:
    market = judged()
    order_id = market.run()
    for number in range(HOLDS_MAX):
        market.chain.ok(judge(order_id, 900, f"reason {number}"))
    market.chain.refused(LIMIT_REACHED, judge(order_id, 5, "another"))
    market.chain.ok(judge(order_id, 800, "reason 0"))
    for number in range(HOLDS_MAX):
        market.chain.ok(judge(order_id, 0, f"reason {number}"))
    market.settle(order_id)
    market.chain.refused(WRONG_STATE, judge(order_id, 5))


def test_a_release_of_nothing_changes_nothing() -> None:
    market = judged()
    order_id = market.run()
    before = market.order(order_id)
    market.chain.ok(judge(order_id, 0), judge(order_id, 0, round=3))
    assert market.order(order_id) == before


def edit(market: Market, change: Callable[[Context], None]) -> None:
    """Change the state with a context as a block has it."""

    def run(store: Overlay) -> None:
        info = replace(next_block(store), clock=market.chain.clock)
        rules = RULEBOOK.at(store, 1)
        change(Context(store, info, CRYPTO, rules, 1))

    market.chain.change(run)


def uncount(store: Overlay, order_id: bytes) -> None:
    HELD_TIMES.delete(store, order_id)


def forget_end(store: Overlay, order_id: bytes) -> None:
    for key in list(store.scan_keys(DEADLINES.key(HOLD_DUE.lane))):
        store.delete(key)


def hold_longer(store: Overlay, order_id: bytes) -> None:
    HELD_TIMES.update(store, order_id, total=HELD_SECONDS_MAX)


@pytest.mark.parametrize(
    ("breaks", "text"),
    [(uncount, "counts of holds are wrong"), (forget_end, "no entry in the queue"), (hold_longer, "for too long")],
)
def test_the_alarm_rings_for_a_hold_that_would_not_end(breaks: Callable[[Overlay, bytes], None], text: str) -> None:
    market = judged()
    order_id = market.run()
    market.chain.ok(judge(order_id, 50))
    market.chain.change(lambda store: breaks(store, order_id))
    with pytest.raises(InvariantBroken, match=text):
        market.chain.check_state()


def test_the_alarm_rings_for_a_hold_of_an_order_that_has_ended() -> None:
    market = judged()
    order_id = market.run()
    market.settle(order_id)
    edit(market, lambda ctx: hold(ctx, order_id, "late", ctx.clock + 5))
    with pytest.raises(InvariantBroken, match="after its end"):
        market.chain.check_state()
    edit(market, lambda ctx: drop_holds(ctx, order_id))
    market.chain.check_state()
