"""A consumer that fetches its result, and then keeps the round from being verified.

A round used to be handed over when it was closed. Its consumer fetched the result and filled blocks until all stages
had passed in silence. The round was unverified, so nobody was paid, and the whole deposit came back. Now a round is
handed over when it is verified. Whoever takes it earlier gives up the refund of all the work in it.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from domain.errors import ALREADY_EXISTS, NOT_FOUND, NOT_YOURS, WRONG_STATE
from domain.legs.messages import MsgStopOrder
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.params import local_params
from domain.proof.messages import MsgTakeEarly
from pol.rules.fees import compute_round_cost
from tests.support.chain_harness import COINS
from tests.support.chain_market import CONSUMER, Market, make_terms, submit
from tests.support.handed_over import HandoverMarket, order_with_key
from tests.unit.chain.attacks.test_noise_is_not_paid_as_a_result import all_noise

DEPOSIT = 600_000


def started(rounds: int = 1, **changes: int) -> tuple[Market, bytes]:
    """Return a market with an accepted order of so many rounds, each of which is a hand-over round."""
    params = local_params().replace(**{"round_window": 200, "progress_base": 300, "handover_every": 1, **changes})
    market = Market(params, validators=8)
    message = submit(terms=make_terms(rounds=rounds), deposit=DEPOSIT, deadline=10**5, rematch=False)
    return market, market.run(message)


def take(market: Market, order_id: bytes, round: int) -> MsgTakeEarly:
    """Return the message with which the consumer takes a round early."""
    return MsgTakeEarly(CONSUMER, order_id, market.order(order_id).legs, round)


def silence(market: Market, order_id: bytes, round: int = 0) -> None:
    """Let all seats of all stages be silent, as in blocks that are full of something else."""
    leg = market.order(order_id).legs
    for stage in range(1, 7):
        market.wait_stage(order_id, round, stage)
        market.say(order_id, {}, round)
        panel = market.all_of(order_id).panel(leg, round)
        if panel is None or panel.is_settled:
            return


def close(market: Market, order_id: bytes) -> None:
    """Let blocks pass until the order is closed."""
    while market.order(order_id).state is not OrderState.CLOSED:
        market.chain.pass_time(10)


def burnt(market: Market, order_id: bytes) -> Counter[int]:
    """Return the refunds that were burnt, by round."""
    found: Counter[int] = Counter()
    for payment in market.all_of(order_id).payments:
        if payment.kind == "refund_burn":
            found[payment.round] += payment.amount
    return found


def cost(market: Market, order_id: bytes) -> int:
    return compute_round_cost(market.order(order_id), market.leg(order_id))


def test_a_consumer_that_silences_its_panel_has_paid_for_what_it_took() -> None:
    market, order_id = started()
    market.train_round(order_id)
    market.chain.ok(take(market, order_id, 0))
    silence(market, order_id)
    close(market, order_id)
    assert market.order(order_id).close_reason == CloseReason.UNVERIFIED
    price = cost(market, order_id)
    assert price >= 80_000
    assert burnt(market, order_id) == {0: price}
    assert COINS - market.chain.worth(CONSUMER) >= price
    # Nobody who could have caused it gains.
    assert {payment.kind for payment in market.all_of(order_id).payments} == {"refund_burn", "refund", "bond_return"}


def test_who_takes_nothing_has_its_deposit_back() -> None:
    market, order_id = started()
    market.train_round(order_id)
    silence(market, order_id)
    close(market, order_id)
    assert not burnt(market, order_id)
    (row,) = market.all_of(order_id).escrow.depositors
    assert row.refunded == DEPOSIT


def test_it_costs_no_less_than_a_round_that_is_verified() -> None:
    """What is given up must never be the cheaper way."""
    market, order_id = started()
    market.train_round(order_id)
    market.answer_all(order_id, 0)
    close(market, order_id)
    assert market.order(order_id).close_reason == CloseReason.SETTLED
    (row,) = market.all_of(order_id).escrow.depositors
    assert row.paid <= cost(market, order_id)


def test_the_state_after_a_round_holds_the_work_of_all_rounds_before() -> None:
    """Who takes the last of three unverified rounds has all of them, and pays for all of them."""
    market, order_id = started(3)
    for _ in range(3):
        market.train_round(order_id)
    market.chain.ok(take(market, order_id, 2))
    (event,) = market.chain.seen("handover.taken")
    assert int(event.get("refund")) == 3 * cost(market, order_id)
    silence(market, order_id)
    close(market, order_id)
    assert burnt(market, order_id) == dict.fromkeys(range(3), cost(market, order_id))


def test_later_rounds_and_verified_ones_are_not_given_up() -> None:
    market, order_id = started(3)
    for round in range(3):
        market.train_round(order_id)
        if round < 1:
            market.answer_all(order_id, round)
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    assert market.round(order_id, 0).verified
    market.chain.ok(take(market, order_id, 1))
    silence(market, order_id, 1)
    close(market, order_id)
    assert burnt(market, order_id) == {1: cost(market, order_id)}


def test_a_round_that_is_verified_in_the_end_is_paid_once() -> None:
    market, order_id = started()
    market.train_round(order_id)
    market.chain.ok(take(market, order_id, 0))
    market.answer_all(order_id, 0)
    close(market, order_id)
    assert market.order(order_id).close_reason == CloseReason.SETTLED
    assert not burnt(market, order_id)
    (row,) = market.all_of(order_id).escrow.depositors
    assert row.paid <= cost(market, order_id)


def test_a_stopped_leg_gives_no_refund_back() -> None:
    """The leg of an accomplice that stops behind the hand-over fails, and its closed rounds go on."""
    market, order_id = started(2)
    market.train_round(order_id)
    market.chain.ok(take(market, order_id, 0))
    leg = market.leg(order_id)
    market.chain.ok(MsgStopOrder(leg.validator, order_id, leg.number))
    silence(market, order_id)
    close(market, order_id)
    assert burnt(market, order_id) == {0: cost(market, order_id)}


def test_a_ruling_against_the_validator_gives_no_refund_back() -> None:
    """Consumer and validator of one owner would else pay a job bond for the training."""
    market, order_id = started(2)
    for _ in range(2):
        market.train_round(order_id)
    market.chain.ok(take(market, order_id, 1))
    market.fault_round(order_id)
    close(market, order_id)
    assert LegEnd(market.leg(order_id).end_reason) is LegEnd.WRONG_ROUND
    assert burnt(market, order_id) == dict.fromkeys(range(2), cost(market, order_id))
    # The job bond makes good the fee of ordering, but not what the consumer gave up.
    made_good = sum(p.amount for p in market.all_of(order_id).payments if p.kind == "compensation")
    assert made_good < 1_000


def test_a_proven_complaint_gives_no_refund_back() -> None:
    market = HandoverMarket(local_params().replace(round_window=200, progress_base=300))
    market.spoil = all_noise
    order_id = market.run(order_with_key(deposit=DEPOSIT, rematch=False))
    for _ in range(2):
        market.train_round(order_id)
    market.chain.ok(take(market, order_id, 1))
    market.chain.ok(market.complaint(order_id, 1, 4))
    silence(market, order_id)
    close(market, order_id)
    assert LegEnd(market.leg(order_id).end_reason) is LegEnd.WRONG_HANDOVER
    assert burnt(market, order_id) == dict.fromkeys(range(2), cost(market, order_id))


def test_an_order_ends_if_its_deposit_no_longer_pays_a_leg() -> None:
    """A burnt refund leaves less than the audits of another leg cost, so the order does not open again."""
    params = local_params().replace(round_window=200, progress_base=300)
    market = Market(params, validators=8, bidders=("v0", "v1"))
    order_id = market.run(submit(terms=make_terms(rounds=1), deposit=180_000, deadline=10**5))
    first = market.leg(order_id)
    market.train_round(order_id)
    market.chain.ok(take(market, order_id, 0))
    silence(market, order_id)
    market.chain.pass_time(3)
    order = market.order(order_id)
    assert burnt(market, order_id) == {0: compute_round_cost(order, first)}
    assert (order.state, order.legs) == (OrderState.CLOSED, 1)
    assert order.close_reason == CloseReason.UNVERIFIED


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"consumer": "v0"}, NOT_YOURS, "consumer"),
        ({"leg": 2}, WRONG_STATE, "leg"),
        ({"leg": 0}, WRONG_STATE, "leg"),
        ({"round": 1}, NOT_FOUND, "round"),
        ({"order_id": bytes(32)}, NOT_FOUND, "order"),
    ],
)
def test_only_a_closed_round_of_the_own_order_can_be_taken(changes: dict[str, Any], code: Any, field: str) -> None:
    market, order_id = started(2)
    market.train_round(order_id)
    market.chain.refused(code, replace(take(market, order_id, 0), **changes), field=field)


def test_what_is_there_anyway_costs_nothing() -> None:
    market, order_id = started(2, handover_every=10)
    market.train_round(order_id)
    market.chain.refused(NOT_FOUND, take(market, order_id, 0), field="round")  # no hand-over round
    market.train_round(order_id)
    market.chain.ok(take(market, order_id, 1))
    market.chain.refused(ALREADY_EXISTS, take(market, order_id, 1), field="round")
    for round in range(2):
        market.answer_all(order_id, round)
    market.chain.pass_until(market.round(order_id, 1).window_ends)
    assert market.leg(order_id).state is LegState.PROVEN
    market.chain.refused(WRONG_STATE, take(market, order_id, 1), field="round")  # verified


def test_a_failed_leg_hands_nothing_over_early() -> None:
    market, order_id = started(2)
    market.train_round(order_id)
    leg = market.leg(order_id)
    market.chain.ok(MsgStopOrder(leg.validator, order_id, leg.number))
    market.chain.refused(WRONG_STATE, take(market, order_id, 0), field="order_id")
