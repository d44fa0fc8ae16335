"""The auction in the block: who gets an order, what is reserved, and who waits."""

from dataclasses import replace

import pytest

from chain.state_machine.market.tables import ORDERS, SWEEP
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.store import Overlay
from domain import queries as q
from domain.errors import WRONG_STATE
from domain.messages import (
    Message,
    MsgCancelOrder,
    MsgDepositBond,
    MsgObjectReport,
    MsgWithdrawBond,
)
from domain.params import local_params
from domain.records import Conditions, OrderState
from tests.support.chain_market import ANY, BOND, PRICE, Market, bid, make_terms, submit

WORK = 160_000_000


def validator_of(market: Market, order_id: bytes) -> str:
    return market.assignment(order_id).validator


def test_the_cheapest_bid_wins_and_is_the_price() -> None:
    market = Market(bidders=())
    cheap = bid("v2", price=PRICE // 2)
    market.chain.ok(bid("v1"), cheap, bid("v3", price=PRICE * 2))
    order_id = market.submit()
    assignment = market.assignment(order_id)
    assert (assignment.validator, assignment.price, assignment.work) == ("v2", PRICE // 2, WORK)
    assert assignment.job_bond == 8_000
    matched = market.chain.seen("order.matched")[-1]
    assert (matched.get("validator"), matched.get("job_bond")) == ("v2", "8000")


def test_bid_and_order_of_one_block_meet_in_either_order() -> None:
    for flipped in (False, True):
        market = Market(bidders=())
        items: list[Message] = [submit(), bid("v0")]
        result = market.chain.ok(*(items[::-1] if flipped else items))
        ids = dict(found for tx in result.tx_results for found in tx.responses)
        assert validator_of(market, ids["order_id"]) == "v0"


def test_the_order_of_transactions_does_not_matter() -> None:
    outcomes = []
    for flipped in (False, True):
        market = Market(bidders=(), consumers=tuple(f"c{n}" for n in range(6)))
        items: list[Message] = [bid(name, capacity=2 * WORK) for name in market.validators]
        items += [submit(f"c{number}") for number in range(6)]
        market.chain.ok(*(items[::-1] if flipped else items))
        orders = market.chain.ask(q.OrdersRequest("", "", 0, 0, b"")).orders
        outcomes.append({order.consumer: validator_of(market, order.id) for order in orders})
    assert outcomes[0] == outcomes[1]
    assert len(set(outcomes[0].values())) > 1


def test_ties_are_broken_by_the_previous_blocks_hash() -> None:
    winners = set()
    for number in range(8):
        market = Market(bidders=())
        market.chain.ok(bid("v0"), bid("v1"))
        market.chain.block(block_hash=bytes([number]) * 32)
        result = market.chain.block(submit(), block_hash=b"\xff" * 32)
        winners.add(validator_of(market, result.tx_results[0].responses[0][1]))
    assert winners == {"v0", "v1"}


def test_an_unmatched_order_says_why_once_and_again_when_it_changes() -> None:
    market = Market(bidders=())
    order_id = market.submit(submit(conditions=Conditions(device_class="gpu")))
    assert market.order(order_id).unmatched == ()
    assert len(market.chain.seen("order.unmatched")) == 1
    market.chain.ok(bid("v0"))
    assert market.order(order_id).unmatched == (("device_class", 1),)
    market.chain.pass_time(5)
    market.chain.ok(bid("v1", price=PRICE + 1))
    assert market.order(order_id).unmatched == (("price", 1), ("device_class", 2))
    assert len(market.chain.seen("order.unmatched")) == 3
    assert market.chain.seen("order.unmatched")[-1].get("device_class") == "2"
    market.chain.ok(bid("v2", device_class="gpu"))
    assert validator_of(market, order_id) == "v2"


def test_capacity_is_reserved_at_the_match_and_freed_at_the_end() -> None:
    market = Market(bidders=())
    market.chain.ok(bid("v0", capacity=WORK + 1))
    first = market.submit()
    (standing,) = market.chain.ask(q.BidsRequest("", 0, b"")).bids
    assert standing.capacity == 1
    second = market.submit(submit(time_to_live=200))
    assert market.order(second).unmatched == (("capacity", 1),)
    market.accept(first)
    market.settle(first)
    assert market.order(first).state is OrderState.CLOSED
    assert validator_of(market, second) == "v0"


def test_a_job_bond_must_be_free() -> None:
    market = Market(bidders=("v0",))
    market.chain.ok(MsgWithdrawBond("v0", BOND - 15_999))
    order_id = market.submit()
    assert market.order(order_id).unmatched == (("bond", 1),)
    market.chain.ok(MsgDepositBond("v0", 1))
    assert validator_of(market, order_id) == "v0"
    assert market.chain.bond("v0") == 0


def test_a_bond_that_returns_late_lets_the_auction_try_again() -> None:
    """The first order's end waits for a report, and the job bond with it: then the second can be backed."""
    market = Market(replace(local_params(), report_window=500), bidders=("v0",))
    market.chain.ok(MsgWithdrawBond("v0", BOND - 16_000))
    first = market.run()
    second = market.submit(submit(time_to_live=400))
    assert market.order(second).unmatched == (("bond", 1),)
    trace = market.trace(first, 0, 0, 16)
    market.commit(first, trace)
    market.chain.ok(market.report_message(first, trace))
    half = [market.trace(first, slot, 8 * slot, 8, issue=2) for slot in (0, 1)]
    market.commit(first, *half)
    market.wait_drawn(first)
    market.chain.ok(market.close_message(first))
    market.answer_all(first, 0)
    market.settle(first)
    assert market.order(second).state is OrderState.OPEN
    market.chain.ok(MsgObjectReport("v0p0", first, 1, 0, trace.ref))
    assert market.order(first).state is OrderState.CLOSED
    assert validator_of(market, second) == "v0"


def test_who_left_the_validator_set_gets_no_matches() -> None:
    market = Market(bidders=("v0",), stake=10**6)

    def cut(overlay: Overlay) -> None:
        validator = VALIDATORS.must(overlay, "v0")
        VALIDATORS.put(overlay, replace(validator, stake=10**6 - 1))

    market.chain.checked = False
    market.chain.change(cut)
    order_id = market.submit()
    assert market.order(order_id).unmatched == (("jailed", 1),)
    market.chain.refused(WRONG_STATE, bid("v0"), field="validator")


def test_live_assignments_are_never_worth_more_than_the_stake() -> None:
    market = Market(bidders=(), stake=10**6)  # six orders of 160,000 fit
    market.chain.ok(bid("v0"), bid("v0", price=PRICE - 1))
    market.chain.ok(*[submit()] * 8)
    orders = market.chain.ask(q.OrdersRequest("carol", "", 0, 0, b"")).orders
    states = sorted(order.state for order in orders)
    assert states == [OrderState.OPEN] * 2 + [OrderState.MATCHED] * 6
    market.chain.block()
    waiting = market.chain.ask(q.OrdersRequest("carol", "", 1, 0, b"")).orders
    assert all(order.unmatched == (("capacity", 2),) for order in waiting)


@pytest.mark.parametrize(("bond", "stake"), [(BOND, 10**6), (111_999, 10**10)])
def test_what_one_validator_cannot_back_goes_to_the_next_bid_in_the_same_block(
    bond: int, stake: int
) -> None:
    """Seven orders of 160,000 at once, of which six fit its stake, or its bond account."""
    market = Market(bidders=(), stake=stake)
    if bond < BOND:
        market.chain.ok(MsgWithdrawBond("v0", BOND - bond))
    market.chain.ok(bid("v0", price=PRICE - 2), bid("v0", price=PRICE - 1), bid("v1"))
    market.chain.ok(*[submit()] * 7)
    orders = market.chain.ask(q.OrdersRequest("carol", "", 0, 0, b"")).orders
    assert sorted(validator_of(market, order.id) for order in orders) == ["v0"] * 6 + ["v1"]


def test_a_deadline_leaves_two_windows_after_the_expected_end() -> None:
    market = Market(bidders=("v0",))
    # 160,000,000 FLOPs at 10^9 FLOP/s are a second, and two windows are 20 s.
    late, right = market.submit(submit(deadline=20)), market.submit(submit(deadline=21))
    assert market.order(late).unmatched == (("deadline", 1),)
    assert market.order(right).state is OrderState.MATCHED


def test_a_block_tries_a_bounded_number_and_the_oldest_first() -> None:
    market = Market(replace(local_params(), matches_per_block=3), bidders=())
    first = [market.submit() for _ in range(2)]
    market.chain.ok(*[submit()] * 5)
    market.chain.block()
    market.chain.ok(bid("v0"))
    assert [market.order(order_id).state for order_id in first] == [OrderState.MATCHED] * 2

    def matched() -> int:
        return len(market.chain.seen("order.matched"))

    counts = [matched()]
    for _ in range(3):
        market.chain.block()
        counts.append(matched())
    assert counts == [3, 6, 7, 7]


def test_orders_that_nobody_wants_do_not_hold_up_a_new_one() -> None:
    """Ten old orders below every price, and a book that changes in every block: passes without end."""
    market = Market(replace(local_params(), matches_per_block=4), bidders=("v0",))
    for _ in range(10):
        market.submit(submit(price_limit=1))
    for number in range(6):
        market.chain.ok(bid("v1", price=2 * PRICE))
        order_id = market.submit(submit(time_to_live=100 + number))
        assert market.order(order_id).state is OrderState.MATCHED


def test_a_book_that_changes_during_a_pass_is_tried_again_by_all() -> None:
    market = Market(replace(local_params(), matches_per_block=2), bidders=())
    asked = replace(ANY, memory=10)
    for _ in range(5):
        market.submit(submit(conditions=asked))
    market.chain.ok(bid("v0", memory=1))  # fits nobody: a pass of three blocks begins
    market.chain.ok(bid("v1", memory=10))  # in its midst
    market.chain.pass_time(8)
    assert len(market.chain.seen("order.matched")) == 5


def test_changes_of_one_block_are_one_pass() -> None:
    market = Market(replace(local_params(), matches_per_block=2), bidders=())
    for _ in range(4):
        market.submit(submit(conditions=replace(ANY, memory=10)))
    market.chain.ok(bid("v0", memory=1), bid("v1", memory=1))  # two of four are tried
    market.chain.block()
    assert SWEEP.get(market.chain.overlay()) is not None
    market.chain.block()
    assert SWEEP.get(market.chain.overlay()) is None


def test_a_cancelled_or_expired_order_is_not_matched() -> None:
    market = Market(bidders=())
    cancelled, expiring = market.submit(), market.submit(submit(time_to_live=5))
    market.chain.ok(MsgCancelOrder("carol", cancelled))
    market.chain.pass_until(ORDERS.must(market.chain.overlay(), expiring).expires_at - 1)
    market.chain.ok(bid("v0"))
    assert market.order(expiring).state is OrderState.CLOSED


def test_a_quote_is_what_the_auction_does() -> None:
    market = Market(bidders=())
    market.chain.ok(bid("v0"), bid("v1", price=PRICE - 1), bid("v2", device_class="gpu"))
    request = q.SimulateMatchRequest(
        Conditions(device_class="cpu", tier="exact"), WORK, PRICE, 1_000, 2
    )
    quoted = market.chain.ask(request)
    assert [found.validator for found in quoted.bids] == ["v1", "v0"]
    assert quoted.unmatched == (("device_class", 1),)
    order_id = market.submit(
        submit(conditions=Conditions(device_class="cpu", tier="exact"), terms=make_terms())
    )
    assert validator_of(market, order_id) == "v1"
