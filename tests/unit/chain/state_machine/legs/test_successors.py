"""Legs of one order that follow each other: messages name one of them, and deadlines are theirs alone."""

from dataclasses import replace

import pytest

from chain.state_machine.legs.tables import LEGS
from domain.errors import NOT_YOURS, WRONG_STATE
from domain.legs.messages import MsgAcceptOrder, MsgDeclineOrder, MsgStopOrder
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.market.records import OrderState
from domain.params import local_params
from domain.proof.messages import MsgCloseRound, MsgCommitTraces
from tests.support.chain_market import Market, digest

PARAMS = local_params().replace(auditors=0, round_window=20, progress_base=60)


def market_of_two() -> Market:
    return Market(PARAMS, bidders=("v0", "v1"))


def succeeded(market: Market) -> bytes:
    """Return an order whose first leg stopped without a verified round, and whose second leg is matched."""
    order_id = market.run()
    first = market.leg(order_id).validator
    market.chain.ok(MsgStopOrder(first, order_id, 1))
    for _ in range(5):
        if market.order(order_id).state is OrderState.MATCHED:
            return order_id
        market.chain.block()
    raise AssertionError("the order found no second match")


@pytest.mark.parametrize("leg", [0, 2, 3, 2**32 - 1])
def test_a_leg_that_does_not_exist_has_no_messages(leg: int) -> None:
    market = market_of_two()
    order_id = market.submit()
    name = market.leg(order_id).validator
    market.chain.refused(WRONG_STATE, MsgAcceptOrder(name, order_id, leg), field="leg")
    decline = MsgDeclineOrder(name, order_id, leg, int(LegEnd.DECLINED_BY_CHOICE))
    market.chain.refused(WRONG_STATE, decline, field="leg")
    market.accept(order_id)
    market.chain.refused(WRONG_STATE, MsgStopOrder(name, order_id, leg), field="leg")
    commit = market.commit_message(order_id, *market.traces_of_round(order_id))
    market.chain.refused(WRONG_STATE, replace(commit, leg=leg), field="leg")
    market.chain.ok(commit)
    market.wait_drawn(order_id)
    for message in market.close_messages(order_id):
        market.chain.refused(WRONG_STATE, replace(message, leg=leg), field="leg")
        market.chain.ok(message)


def test_the_validator_of_an_old_leg_has_no_say_in_the_next() -> None:
    market = market_of_two()
    order_id = succeeded(market)
    old, new = (leg.validator for leg in market.all_of(order_id).legs)
    assert old != new
    for number, code in ((1, WRONG_STATE), (2, NOT_YOURS)):
        market.chain.refused(code, MsgAcceptOrder(old, order_id, number))
    market.chain.ok(MsgAcceptOrder(new, order_id, 2))
    for number, code in ((1, WRONG_STATE), (2, NOT_YOURS)):
        market.chain.refused(code, MsgStopOrder(old, order_id, number))
        commit = MsgCommitTraces(old, order_id, number, 0, (), (market.trace(order_id, 0).signed,))
        market.chain.refused(code, commit)
        close = MsgCloseRound(old, order_id, number, 0, digest("next"), b"")
        market.chain.refused(code, close)
    assert market.leg(order_id).state is LegState.RUNNING


def test_a_share_of_an_old_leg_cannot_be_committed_in_the_next() -> None:
    """Its signature names the old leg, so the next validator cannot use it."""
    market = market_of_two()
    order_id = market.run()
    first, old = market.leg(order_id).validator, market.trace(order_id, 0)
    market.chain.ok(MsgStopOrder(first, order_id, 1))
    market.chain.pass_time(2)
    market.accept(order_id)
    assert market.leg(order_id).number == 2
    market.commit(order_id, old)
    assert market.shares(order_id) == ()


def test_deadlines_of_an_old_leg_leave_the_next_alone() -> None:
    """Those to accept and to progress of leg 1 pass, and leg 2 goes on until its own."""
    market = market_of_two()
    order_id = succeeded(market)
    old, new = market.all_of(order_id).legs
    assert old.progress_deadline > market.chain.clock
    market.chain.pass_until(new.accept_deadline - 2)
    market.accept(order_id)
    market.chain.pass_until(max(old.accept_deadline, old.progress_deadline) + 1)
    new = market.leg(order_id)
    assert (new.number, new.state) == (2, LegState.RUNNING)
    assert new.progress_deadline > market.chain.clock
    market.chain.pass_until(new.progress_deadline)
    assert market.all_of(order_id).legs[1].end_reason == LegEnd.NO_PROGRESS


def test_a_second_leg_counts_and_pays_its_own_rounds() -> None:
    """A leg with a void round leaves nothing behind in the counts of the next one."""
    market = Market(local_params().replace(round_window=20), bidders=("v0", "v1"), validators=6)
    order_id = market.run()
    market.train_round(order_id)
    market.fault_round(order_id)
    market.chain.pass_time(2)
    if market.order(order_id).state is OrderState.OPEN:
        market.chain.pass_time(2)
    market.accept(order_id)
    second = market.leg(order_id)
    assert (second.number, second.verified, second.void) == (2, 0, 0)
    market.settle(order_id)
    first, second = LEGS.scan(market.chain.overlay(), order_id)
    assert (first.verified, first.void) == (0, 1)
    assert (second.verified, second.void, second.state) == (2, 0, LegState.DONE)
