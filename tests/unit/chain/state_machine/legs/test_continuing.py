"""Only a provider was at fault: the same validator goes on at the same price, without an auction."""

from dataclasses import replace
from functools import partial

from chain.state_machine.legs.ends import CONTINUED_MAX
from chain.state_machine.market.tables import BIDS
from chain.state_machine.proof.tables import SHARES
from chain.state_machine.store import Overlay
from domain.errors import WRONG_STATE
from domain.legs.messages import MsgAckState
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.market.messages import MsgWithdrawBid
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.params import local_params
from domain.proof.records import AuditKind
from tests.support.chain_market import Market, make_terms, submit

STEPS = 12


def faulty(market: Market, order_id: bytes) -> bool:
    """Close the open round, and let its panel find a segment wrong for which the provider alone answers.

    Return False if no such segment was drawn; the round is then right.
    """
    leg = market.leg(order_id)
    round = leg.round
    market.train_round(order_id)
    market.wait_stage(order_id, round)
    panel = market.panel(order_id, round)
    for number, place in enumerate(panel.places):
        where = place.place
        if where.kind is AuditKind.SEGMENT:
            share = SHARES.must(market.chain.overlay(), *panel.round_key.share(where.slot, where.issue))
            if where.segment not in share.drawn:
                market.say_all(order_id, partial(market.wrong_at, order_id, round, number), round)
                return True
    market.answer_all(order_id, round)
    return False


def started(rounds: int = 12, *, rematch: bool = True) -> tuple[Market, bytes]:
    market = Market(local_params().replace(duty_segments=1, round_window=20), validators=6, bidders=("v0", "v1"))
    terms = make_terms(rounds=rounds, round_steps=STEPS)
    return market, market.run(submit(terms=terms, deposit=rounds * 1_000_000, deadline=100_000, rematch=rematch))


def until_faulty(market: Market, order_id: bytes) -> None:
    for _ in range(12):
        if faulty(market, order_id):
            market.chain.pass_time(2)
            market.chain.pass_time(market.order(order_id).window)
            return
    raise AssertionError("no beacon drew a segment outside the duty")


def test_the_validator_continues_from_the_last_verified_round() -> None:
    market, order_id = started(rematch=False)
    until_faulty(market, order_id)
    first, second = market.all_of(order_id).legs
    assert (first.state, first.end_reason) == (LegState.FAILED, LegEnd.WRONG_SHARE)
    assert (second.validator, second.price, second.bid_id) == (first.validator, first.price, first.bid_id)
    assert second.first_round == first.next_round
    assert second.state is LegState.RUNNING
    order = market.order(order_id)
    assert (order.state, order.failures, order.excluded) == (OrderState.RUNNING, 0, ())


def test_it_does_so_three_times() -> None:
    market, order_id = started(rounds=40)
    for count in range(1, CONTINUED_MAX + 1):
        until_faulty(market, order_id)
        assert (market.leg(order_id).number, market.order(order_id).failures) == (count + 1, 0)
        assert market.leg(order_id).state is LegState.RUNNING
    until_faulty(market, order_id)
    assert market.order(order_id).failures == 1
    assert market.order(order_id).state in (OrderState.OPEN, OrderState.MATCHED)


def test_without_its_bid_the_auction_decides() -> None:
    market, order_id = started()
    leg = market.leg(order_id)
    market.chain.ok(MsgWithdrawBid(leg.validator, leg.bid_id))
    until_faulty(market, order_id)
    assert market.order(order_id).failures == 1
    assert market.order(order_id).state in (OrderState.OPEN, OrderState.MATCHED)


def test_without_its_bond_the_order_ends_if_no_one_else_may_serve_it() -> None:
    market, order_id = started(rematch=False)

    def spend(overlay: Overlay) -> None:
        """Let the bid allow less than the job bond: coins of the bond account cannot vanish."""
        bid = BIDS.must(overlay, market.leg(order_id).bid_id)
        BIDS.update(overlay, bid.id, offer=replace(bid.offer, max_job_bond=1))

    market.chain.change(spend)
    until_faulty(market, order_id)
    market.pass_handover(order_id)
    market.pass_stands(order_id)
    assert market.order(order_id).close_reason == CloseReason.FAILED


def test_a_provider_that_is_sacrificed_does_not_free_the_part() -> None:
    """Its validator would be paid for all verified rounds before the consumer has a result, and could then vanish."""
    market, order_id = started(rounds=12, rematch=False)
    until_faulty(market, order_id)
    while not market.all_of(order_id).legs[0].verified:  # the first round was the wrong one
        market, order_id = started(rounds=12, rematch=False)
        market.chain.pass_time(1)
        market.train_round(order_id)
        market.answer_all(order_id, 0)
        until_faulty(market, order_id)
    first, second = market.all_of(order_id).legs
    assert first.part > 0
    assert second.is_live
    market.chain.refused(WRONG_STATE, MsgAckState("carol", order_id, 1, received=False), field="received")
    while market.chain.clock <= first.part_until:
        market.train_round(order_id)
        market.answer_all(order_id, market.leg(order_id).round - 1)
        market.chain.pass_time(20)
    answer = market.all_of(order_id)
    assert answer.legs[0].part == first.part
    assert not [payment for payment in answer.payments if payment.kind == "validator"]
    if market.leg(order_id).state is LegState.RUNNING:
        market.settle(order_id)
    market.pass_handover(order_id)
    answer = market.all_of(order_id)
    assert answer.order.close_reason == CloseReason.SETTLED
    assert answer.escrow.withheld == 0
    paid = sum(payment.amount for payment in answer.payments if payment.kind == "validator")
    assert paid > first.part
