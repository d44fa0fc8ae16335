"""Cancelling, accepting, declining and stopping orders."""

from typing import Any

import pytest

from chain.state_machine.legs.ends import BLAMES_JOB
from domain.errors import BAD_FIELD, DEADLINE_PASSED, NOT_FOUND, NOT_YOURS, WRONG_STATE
from domain.legs.messages import MsgAcceptOrder, MsgDeclineOrder, MsgStopOrder
from domain.legs.params import LegsParams
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.market.messages import MsgCancelOrder
from domain.market.queries import BidsRequest
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.params import local_params
from tests.support.chain_harness import COINS
from tests.support.chain_market import BOND, Market, bid, make_terms, submit

PART = 25_728
"""What a round leaves its validator."""
JOB_BOND = 16_000
FEE = 1_600
PAYLOAD_FEE = local_params().of(LegsParams).payload_fee


@pytest.fixture
def market() -> Market:
    return Market()


@pytest.fixture
def matched(market: Market) -> bytes:
    return market.submit()


def close_reason(market: Market, order_id: bytes) -> int:
    order = market.order(order_id)
    assert order.state is OrderState.CLOSED
    return order.close_reason


# --- cancel ---


def test_cancelling_returns_everything() -> None:
    market = Market(bidders=())
    order_id = market.submit()
    market.chain.ok(MsgCancelOrder("carol", order_id))
    assert close_reason(market, order_id) == CloseReason.CANCELLED
    assert market.chain.worth("carol") == COINS
    closed = market.chain.seen("order.closed")[-1]
    assert (closed.get("reason"), closed.get("refunded")) == ("1", "400000")
    market.chain.refused(WRONG_STATE, MsgCancelOrder("carol", order_id))


def test_only_an_open_order_of_ones_own_is_cancelled(market: Market, matched: bytes) -> None:
    market.chain.refused(WRONG_STATE, MsgCancelOrder("carol", matched))
    market.chain.refused(NOT_YOURS, MsgCancelOrder("v1", matched))
    market.chain.refused(NOT_FOUND, MsgCancelOrder("carol", bytes(32)))
    market.chain.refused(BAD_FIELD, MsgCancelOrder("carol", b"x"))


def test_an_order_in_the_block_of_its_cancelling_is_not_matched() -> None:
    market = Market(bidders=())
    order_id = market.submit()
    market.chain.ok(bid("v0"), MsgCancelOrder("carol", order_id))
    assert close_reason(market, order_id) == CloseReason.CANCELLED


# --- accept ---


def test_accepting_starts_the_first_round(market: Market, matched: bytes) -> None:
    market.accept(matched)
    leg = market.leg(matched)
    assert leg.state is LegState.RUNNING
    # 30 s and three times 42,000,000 FLOPs at 10^9 FLOP/s, rounded up to a second.
    assert leg.progress_deadline == market.chain.clock + 183
    assert leg.global_in == market.order(matched).terms.global_root


@pytest.mark.parametrize(
    ("payload", "data", "seconds"),
    [(10**7, 1, 63), (1, 10**7, 63), (10**8, 10**8, 81), (1, 1, 62)],
)
def test_the_time_to_accept_grows_with_all_that_is_delivered(
    market: Market, payload: int, data: int, seconds: int
) -> None:
    terms = make_terms(payload_bytes=payload, data_bytes=data)
    order_id = market.submit(submit(terms=terms))
    assert market.leg(order_id).accept_deadline == market.chain.clock + seconds


@pytest.mark.parametrize("cls", [MsgAcceptOrder, MsgStopOrder])
def test_only_the_matched_validator_acts(market: Market, matched: bytes, cls: Any) -> None:
    market.chain.refused(NOT_YOURS, cls("v1", matched, 1))
    market.chain.refused(WRONG_STATE, cls("v0", matched, 2))
    market.chain.refused(WRONG_STATE, cls("v0", matched, 0))
    market.chain.refused(NOT_FOUND, cls("v0", bytes(32), 1))
    market.chain.refused(BAD_FIELD, cls("v0", b"x", 1))
    market.chain.refused(BAD_FIELD, cls("v0", matched, -1), field="leg")


def test_accepting_twice_is_refused(market: Market, matched: bytes) -> None:
    market.accept(matched)
    market.chain.refused(WRONG_STATE, MsgAcceptOrder("v0", matched, 1))


def test_accepting_works_to_the_last_second(market: Market, matched: bytes) -> None:
    deadline = market.leg(matched).accept_deadline
    # 60 s, 1 MB at 10 MB/s, and twice 23,000,000 FLOPs at 10^9 FLOP/s, each rounded up.
    assert deadline == market.chain.clock + 62
    market.chain.pass_until(deadline - 2)
    market.accept(matched)  # at deadline - 1
    assert market.order(matched).state is OrderState.RUNNING


def test_accepting_at_the_deadline_is_too_late(market: Market, matched: bytes) -> None:
    deadline = market.leg(matched).accept_deadline
    market.chain.pass_until(deadline - 1)
    market.chain.refused(WRONG_STATE, MsgAcceptOrder("v0", matched, 1))
    assert market.order(matched).state is OrderState.OPEN


def test_a_missed_accept_burns_the_job_bond_but_for_what_the_order_cost(market: Market, matched: bytes) -> None:
    """A consumer gets its fee back and earns nothing by a validator's failure."""
    cost = market.order_fee(matched)
    assert 0 < cost <= market.chain.fees["carol"]
    market.chain.pass_time(62)
    order = market.order(matched)
    assert (order.state, order.failures, order.excluded) == (OrderState.OPEN, 1, ("v0",))
    assert market.chain.worth("carol") == COINS - 400_000 + cost
    assert market.chain.bond("v0") == BOND - JOB_BOND
    assert [(p.kind, p.amount) for p in market.all_of(matched).payments] == [
        ("compensation", cost),
        ("burn", JOB_BOND - cost),
    ]
    assert market.chain.ask(BidsRequest("", 0, b"")).bids == ()
    assert market.leg(matched).end_reason == LegEnd.NOT_ACCEPTED
    assert market.chain.seen("order.failed")[-1].get("reason") == "10011"


def test_after_legs_max_the_order_is_unserved_and_its_fee_compensated_once() -> None:
    """Three who do not accept cost the consumer one fee: a job that nobody accepts earns it nothing."""
    market = Market(bidders=("v0", "v1", "v2"))
    order_id = market.submit()
    cost = market.order_fee(order_id)
    market.chain.pass_time(190)
    assert close_reason(market, order_id) == CloseReason.UNSERVED
    assert market.chain.worth("carol") == COINS + cost


# --- decline ---


def decline(order_id: bytes, reason: LegEnd, validator: str = "v0") -> MsgDeclineOrder:
    return MsgDeclineOrder(validator, order_id, 1, int(reason))


def test_declining_costs_a_fee_and_opens_the_order_for_others(market: Market, matched: bytes) -> None:
    market.chain.ok(decline(matched, LegEnd.DECLINED_BY_CHOICE))
    order = market.order(matched)
    assert (order.state, order.failures, order.excluded) == (OrderState.OPEN, 0, ("v0",))
    assert order.expires_at == market.chain.clock + 100
    assert market.chain.bond("v0") == BOND - FEE
    assert market.chain.worth("carol") == COINS - 400_000
    assert [p.kind for p in market.all_of(matched).payments] == ["decline_fee", "bond_return"]
    market.chain.ok(bid("v0"), bid("v1"))
    assert market.leg(matched).validator == "v1"


@pytest.mark.parametrize("reason", sorted(BLAMES_JOB))
def test_where_nobody_can_tell_whose_fault_it_was_both_lose_and_nobody_gains(
    market: Market, matched: bytes, reason: LegEnd
) -> None:
    market.chain.ok(decline(matched, reason))
    assert market.order(matched).failures == 1
    assert market.chain.bond("v0") == BOND - PAYLOAD_FEE
    assert market.all_of(matched).escrow.depositors[0].locked == 400_000 - PAYLOAD_FEE
    kinds = [p.kind for p in market.all_of(matched).payments]
    assert sorted(kinds) == ["bond_return", "burn", "deposit_burn"]


def test_an_order_that_is_blamed_often_closes() -> None:
    """Three of four equal validators hold more than a tenth of the stake."""
    market = Market(bidders=("v0", "v1", "v2", "v3"))
    order_id = market.submit()
    for number in (1, 2, 3):
        assert market.order(order_id).state is OrderState.MATCHED
        name, reason = market.leg(order_id).validator, LegEnd.PAYLOAD_NOT_DELIVERED
        market.chain.ok(MsgDeclineOrder(name, order_id, number, int(reason)))
        market.auction()
    assert close_reason(market, order_id) == CloseReason.UNSERVED
    assert market.chain.worth("carol") == COINS - 3 * PAYLOAD_FEE


def test_one_order_that_is_never_delivered_does_not_empty_the_book() -> None:
    """Every validator declines, and every bid is there for the next order."""
    market = Market(bidders=("v0", "v1", "v2", "v3"))
    order_id = market.submit(submit())
    for number in (1, 2, 3, 4):
        name = market.leg(order_id).validator
        reason = int(LegEnd.DECLINED_BY_CHOICE)
        market.chain.ok(MsgDeclineOrder(name, order_id, number, reason))
        market.auction()
    assert market.order(order_id).unmatched == (("excluded", 4),)
    assert len(market.chain.ask(BidsRequest("", 0, b"")).bids) == 4
    assert market.order(market.submit()).state is OrderState.MATCHED


def test_who_has_no_capacity_takes_its_bid_back(market: Market, matched: bytes) -> None:
    market.chain.ok(decline(matched, LegEnd.DECLINED_NO_CAPACITY))
    assert market.chain.ask(BidsRequest("", 0, b"")).bids == ()
    assert market.chain.bond("v0") == BOND - FEE


def test_a_payload_that_takes_years_finds_no_match() -> None:
    market = Market(local_params().replace(auditors=0))
    order_id = market.submit(submit(terms=make_terms(data_bytes=2**48), deadline=10**7))
    assert market.order(order_id).unmatched == (("accept", 1), ("deadline", 1))
    small = Market(bidders=())
    small.chain.ok(bid("v0", max_payload=999_999))
    assert small.order(small.submit()).unmatched == (("max_payload", 1),)


def test_what_is_left_after_burning_bounds_the_price() -> None:
    market = Market(bidders=("v0",))
    order_id = market.submit(submit(deposit=344_400))
    market.chain.ok(decline(order_id, LegEnd.PAYLOAD_NOT_DELIVERED))
    market.chain.ok(bid("v1"))
    assert market.order(order_id).unmatched == (("excluded", 1), ("price", 2))
    market.chain.ok(bid("v2", price=996_875 * 10**6))  # 159,500 is left for 160,000,000 FLOPs
    assert market.leg(order_id).validator == "v2"


def test_a_decline_has_a_known_reason_and_a_match(market: Market, matched: bytes) -> None:
    market.chain.refused(BAD_FIELD, decline(matched, LegEnd.NO_PROGRESS), field="reason")
    market.chain.refused(NOT_YOURS, decline(matched, LegEnd.DECLINED_NO_CAPACITY, "v1"))
    market.chain.refused(NOT_FOUND, decline(bytes(32), LegEnd.DECLINED_NO_CAPACITY))
    market.accept(matched)
    market.chain.refused(WRONG_STATE, decline(matched, LegEnd.DECLINED_WORK_MISMATCH))


def test_the_orders_deadline_before_the_accept_deadline_is_a_missed_acceptance(market: Market, matched: bytes) -> None:
    """It cannot be matched so; if it were, the validator would not get away for nothing."""
    market.move_deadline(matched, market.chain.clock + 5)
    market.chain.pass_time(5)
    assert market.leg(matched).end_reason == LegEnd.NOT_ACCEPTED
    assert close_reason(market, matched) == CloseReason.DEADLINE
    assert market.chain.bond("v0") == BOND - JOB_BOND


# --- stop ---


def test_stopping_pays_for_what_was_not_done(market: Market, matched: bytes) -> None:
    market.accept(matched)
    market.train_round(matched)
    market.chain.ok(MsgStopOrder("v0", matched, 1))
    cost = JOB_BOND // 2 - burnt(market, matched)
    assert 0 < cost < 200
    assert market.chain.worth("carol") == COINS - 400_000 + cost
    assert market.leg(matched).end_reason == LegEnd.STOPPED_BY_VALIDATOR
    # The closed round runs through its window.
    assert market.order(matched).state is OrderState.RUNNING
    market.answer_all(matched, 0)
    market.chain.pass_time(10)
    # The order goes on with the second round; no other bid stands, so its time to live ends it.
    order = market.order(matched)
    assert (order.state, order.next_round, order.work_verified) == (OrderState.OPEN, 1, 80_000_000)
    assert market.chain.bond("v0") == BOND - JOB_BOND // 2
    market.chain.pass_until(order.expires_at + 1)
    assert close_reason(market, matched) == CloseReason.EXPIRED
    # The part of the round is paid after the time to fetch its states.
    assert market.chain.worth("carol") == COINS - 169_800 + cost


def test_stopping_before_anything_is_done_opens_the_order_again(market: Market, matched: bytes) -> None:
    market.accept(matched)
    market.commit(matched, market.trace(matched))
    market.chain.ok(MsgStopOrder("v0", matched, 1))
    market.chain.block(seconds=0)  # after the shares of the leg are dropped
    assert market.order(matched).state is OrderState.OPEN
    assert market.order(matched).failures == 1
    assert market.chain.bond("v0") == BOND - JOB_BOND
    assert market.chain.bond("v0p0") == BOND
    market.chain.ok(bid("v1"))
    market.accept(matched)
    market.settle(matched)
    # The provider of the first leg may stand for its share.
    market.chain.pass_until(market.all_of(matched).legs[0].left_at + 60)
    market.chain.block()
    assert close_reason(market, matched) == CloseReason.SETTLED


def test_without_rematching_a_stopped_order_fails() -> None:
    market = Market(bidders=("v0", "v1"))
    order_id = market.run(submit(rematch=False))
    validator = market.leg(order_id).validator
    cost = market.order_fee(order_id)
    market.chain.ok(MsgStopOrder(validator, order_id, 1))
    assert close_reason(market, order_id) == CloseReason.FAILED
    assert market.chain.worth("carol") == COINS + cost
    assert burnt(market, order_id) == JOB_BOND - cost


def test_what_a_failed_leg_was_paid_comes_back_from_its_bond() -> None:
    """A verified round of a leg that fails is the consumer's loss, as far as the cut of the bond goes."""
    market = Market(local_params().replace(job_bond_bps=10_000, progress_base=100))
    order_id = market.run(submit(rematch=False))
    market.train_round(order_id)
    market.answer_all(order_id, 0)
    market.chain.pass_until(market.round(order_id, 0).window_ends + 1)
    assert market.order(order_id).work_verified == 80_000_000
    market.chain.ok(MsgStopOrder("v0", order_id, 1))
    # Half of the bond of 160,000 is cut, for the round that was not done; the round that was had cost more.
    assert market.chain.bond("v0") == BOND - 80_000
    assert burnt(market, order_id) == 0
    market.pass_handover(order_id)
    assert market.chain.worth("carol") == COINS - 169_800 + 80_000


def burnt(market: Market, order_id: bytes) -> int:
    return sum(p.amount for p in market.all_of(order_id).payments if p.kind == "burn")


def test_no_message_helps_after_a_deadline_that_the_queue_has_not_reached(market: Market, matched: bytes) -> None:
    market.chain.drop_queue()
    market.chain.pass_time(62)
    market.chain.refused(DEADLINE_PASSED, MsgAcceptOrder("v0", matched, 1))
    market.chain.refused(DEADLINE_PASSED, decline(matched, LegEnd.DECLINED_BAD_JOB))
