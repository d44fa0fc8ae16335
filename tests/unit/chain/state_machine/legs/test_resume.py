"""An order goes on after a failed leg: the next leg starts after the last verified round, from the states it left."""

from domain.amount import ceil_div
from domain.errors import BAD_FIELD, NOT_YOURS, WRONG_STATE
from domain.legs.messages import MsgAckState, MsgDeclineOrder, MsgStopOrder
from domain.legs.reasons import LegEnd, PartEnd
from domain.market.messages import MsgCancelOrder
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.params import Params, local_params
from pol.rules.orders import handover_seconds
from pol.rules.schedule import round_work
from tests.support.chain_market import Market, make_terms, submit

ROUNDS = 4
PARAMS = local_params().replace(auditors=0, round_window=20)


def resumed(
    done: int = 2, params: Params = PARAMS, *, alone: bool = False, rematch: bool = True
) -> tuple[Market, bytes]:
    """Return an order whose first leg stopped after ``done`` verified rounds; ``alone``: no one else bids."""
    others = () if alone else tuple(f"v{number}" for number in range(1, 6))
    market = Market(params, validators=6, bidders=("v0", *others))
    terms = make_terms(rounds=ROUNDS)
    order_id = market.run(submit(terms=terms, deposit=ROUNDS * 180_000, deadline=100_000, rematch=rematch))
    for round in range(done):
        market.train_round(order_id)
        if market.order(order_id).params.auditors:
            market.answer_all(order_id, round)
    market.chain.pass_time(market.order(order_id).window + 1)
    leg = market.leg(order_id)
    assert leg.verified == done
    market.chain.ok(MsgStopOrder(leg.validator, order_id, 1))
    return market, order_id


def finish(market: Market, order_id: bytes) -> None:
    """Take the current leg to its end."""
    leg = market.leg(order_id)
    for round in range(leg.round, leg.end_round):
        market.train_round(order_id)
        if market.order(order_id).params.auditors:
            market.answer_all(order_id, round)
    market.chain.pass_time(market.order(order_id).window + 2)
    market.pass_handover(order_id)


def paid(market: Market, order_id: bytes, kind: str) -> int:
    return sum(payment.amount for payment in market.all_of(order_id).payments if payment.kind == kind)


def wait_match(market: Market, order_id: bytes) -> None:
    for _ in range(6):
        if market.order(order_id).state is OrderState.MATCHED:
            return
        market.chain.block()
    raise AssertionError("the order found no match")


def test_the_next_leg_starts_after_the_last_verified_round() -> None:
    market, order_id = resumed()
    first = market.all_of(order_id).legs[0]
    wait_match(market, order_id)
    second = market.leg(order_id)
    assert second.validator != first.validator
    last = market.round_of(order_id, 1, 1)
    assert (second.first_round, second.rounds, second.from_leg) == (2, 2, 1)
    assert second.initial_root == first.verified_root == last.next_root
    assert second.work == 2 * round_work(market.order(order_id).terms)
    answer = market.all_of(order_id)
    left = {key.slot: share.roots.local_out for key in last.share_keys if (share := answer.share(key)) and share.roots}
    assert {start.slot: start.local_root for start in answer.starts if start.leg == 2} == left
    market.accept(order_id)
    finish(market, order_id)
    order = market.order(order_id)
    assert (order.state, order.close_reason) == (OrderState.CLOSED, CloseReason.SETTLED)
    assert [(closed.leg, closed.round) for closed in market.all_of(order_id).rounds] == [(1, 0), (1, 1), (2, 2), (2, 3)]


def test_rounds_that_were_not_verified_are_trained_again() -> None:
    """A share is committed to the states of the last verified round, although later ones were closed."""
    market, order_id = resumed(1, PARAMS.replace(auditors=2))
    wait_match(market, order_id)
    assert market.leg(order_id).first_round == 1
    market.accept(order_id)
    market.train_round(order_id)
    market.fault_round(order_id, 1)
    wait_match(market, order_id)
    third = market.leg(order_id)
    assert (third.number, third.first_round, third.from_leg) == (3, 1, 1)
    assert third.initial_root == market.round_of(order_id, 1, 0).next_root
    market.accept(order_id)
    finish(market, order_id)
    assert market.order(order_id).close_reason == CloseReason.SETTLED


def test_the_rest_is_priced_and_timed_as_what_is_left() -> None:
    market, order_id = resumed()
    wait_match(market, order_id)
    leg = market.leg(order_id)
    order = market.order(order_id)
    first = market.all_of(order_id).legs[0]
    assert leg.job_bond == first.job_bond // 2
    size = order.terms.delivered_bytes + order.terms.result_bytes
    seconds = order.params.accept_base + ceil_div(size, order.params.accept_rate)
    given = leg.accept_deadline - leg.matched_at
    assert seconds <= given < seconds + 5


def test_an_order_that_may_not_be_matched_again_ends() -> None:
    market, order_id = resumed(rematch=False)
    market.chain.block()
    market.pass_handover(order_id)
    order = market.order(order_id)
    assert (order.state, order.close_reason) == (OrderState.CLOSED, CloseReason.FAILED)


def test_after_enough_failures_the_order_ends_and_hands_over_what_is_verified() -> None:
    market, order_id = resumed()
    for _ in range(2):
        wait_match(market, order_id)
        market.accept(order_id)
        leg = market.leg(order_id)
        market.chain.ok(MsgStopOrder(leg.validator, order_id, leg.number))
    market.chain.block()
    market.pass_handover(order_id)
    order = market.order(order_id)
    assert (order.failures, order.close_reason) == (3, CloseReason.FAILED)


# --- the part that waits -----------------------------------------------------------------------


def test_a_part_waits_and_is_paid_when_its_time_is_over() -> None:
    market, order_id = resumed()
    market.chain.block()
    answer = market.all_of(order_id)
    leg = answer.legs[0]
    assert leg.part == answer.escrow.withheld > 0
    wait = handover_seconds(answer.order.terms, answer.order.params, answer.order.window)
    assert leg.part_until <= market.chain.clock + wait
    wait_match(market, order_id)
    market.accept(order_id)
    assert paid(market, order_id, "validator") == 0
    market.chain.pass_until(leg.part_until)
    assert paid(market, order_id, "validator") == leg.part
    ended = market.chain.seen("part.ended")[-1]
    assert (ended.get("validator"), int(ended.get("end"))) == (leg.validator, PartEnd.TIME)
    finish(market, order_id)
    assert market.order(order_id).close_reason == CloseReason.SETTLED


def test_the_consumer_acknowledges_the_states_before() -> None:
    market, order_id = resumed()
    market.chain.block()
    leg = market.all_of(order_id).legs[0]
    market.chain.refused(NOT_YOURS, MsgAckState("v0", order_id, 1, True))
    market.chain.ok(MsgAckState("carol", order_id, 1, True))
    assert paid(market, order_id, "validator") == leg.part
    market.chain.refused(WRONG_STATE, MsgAckState("carol", order_id, 1, False), field="leg")


def test_an_order_does_not_close_while_a_part_waits() -> None:
    market, order_id = resumed(alone=True)
    market.chain.pass_time(1)
    assert market.order(order_id).state is OrderState.OPEN
    market.chain.ok(MsgCancelOrder("carol", order_id))
    leg = market.all_of(order_id).legs[0]
    assert market.order(order_id).state is OrderState.OPEN
    escrow = market.all_of(order_id).escrow
    assert escrow.withheld == sum(row.locked for row in escrow.depositors) == leg.part
    market.chain.pass_until(leg.part_until + 2)
    assert market.order(order_id).close_reason == CloseReason.CANCELLED
    assert paid(market, order_id, "validator") == leg.part


# --- states that cannot be fetched ---------------------------------------------------------------


def test_the_reason_is_only_for_legs_that_start_from_an_earlier_one() -> None:
    market = Market(PARAMS)
    order_id = market.submit()
    decline = MsgDeclineOrder("v0", order_id, 1, int(LegEnd.STATE_UNAVAILABLE))
    market.chain.refused(BAD_FIELD, decline, field="reason")


def decline_state(market: Market, order_id: bytes) -> None:
    wait_match(market, order_id)
    leg = market.leg(order_id)
    decline = MsgDeclineOrder(leg.validator, order_id, leg.number, int(LegEnd.STATE_UNAVAILABLE))
    market.chain.ok(decline)


def test_who_cannot_fetch_the_states_pays_no_more_than_for_a_decline_by_choice() -> None:
    market, order_id = resumed()
    decline_state(market, order_id)
    order, leg = market.order(order_id), market.all_of(order_id).legs[1]
    assert order.failures == 1
    assert paid(market, order_id, "decline_fee") == leg.job_bond * order.params.decline_fee_bps // 10_000
    wait_match(market, order_id)
    third = market.leg(order_id)
    assert (third.first_round, third.from_leg) == (2, 1)
    market.accept(order_id)
    finish(market, order_id)
    assert market.order(order_id).close_reason == CloseReason.SETTLED


def test_if_enough_validators_cannot_fetch_them_the_order_ends_and_the_part_returns() -> None:
    market, order_id = resumed()
    for _ in range(market.order(order_id).params.max_attempts):
        decline_state(market, order_id)
    market.chain.block()
    order = market.order(order_id)
    assert (order.state, order.close_reason) == (OrderState.CLOSED, CloseReason.FAILED)
    assert paid(market, order_id, "validator") == 0
    assert int(market.chain.seen("part.ended")[-1].get("end")) == PartEnd.UNAVAILABLE


def test_a_part_waits_longer_while_no_one_could_fetch_the_states() -> None:
    """Its time would pass while validators try in turn."""
    market, order_id = resumed(params=PARAMS.replace(accept_base=200))
    decline_state(market, order_id)
    until = market.all_of(order_id).legs[0].part_until
    wait_match(market, order_id)
    market.chain.pass_until(until + 1)
    leg = market.all_of(order_id).legs[0]
    assert leg.part > 0
    assert leg.part_until > until
    market.accept(order_id)
    market.chain.pass_until(leg.part_until + 1)
    assert paid(market, order_id, "validator") == leg.part
