"""A job that stops in the first segment of nine slots in ten.

Whole segments alone used to be paid: a consumer had almost all of a segment trained in each slot, and paid for a few.
"""

import pytest

from domain.errors import BAD_FIELD
from domain.legs.reasons import LegEnd
from domain.market.reasons import CloseReason
from domain.params import local_params
from domain.proof.records import AnswerKind, AuditKind, AuditPlace, SeatAnswer, ShareState
from tests.support.chain_market import BOND, Market, Trace, digest, make_terms, submit

TERMS = make_terms(rounds=1, slots=10, round_steps=10, segment_steps=10, step_work=2_000_000)
"""Ten shares of one segment of ten steps, each 21 MFLOPs."""
STEPS = 9


def stop(market: Market, steps: int = STEPS) -> bytes:
    """Return an order whose only round was closed: all slots but the first stop in the last step of their segment."""
    order_id = market.run(submit(terms=TERMS, deposit=10**6))
    market.commit(
        order_id, market.trace(order_id, 0), *(stopped(market, order_id, slot, steps) for slot in range(1, 10))
    )
    market.wait_drawn(order_id)
    market.chain.ok(*market.stop_messages(order_id))
    return order_id


def stopped(market: Market, order_id: bytes, slot: int, steps: int) -> Trace:
    return market.trace(order_id, slot, stop=0, steps=steps)


def test_whole_steps_before_a_stop_are_paid() -> None:
    market = Market(local_params().replace(auditors=3), validators=12)
    order_id = stop(market)
    step = TERMS.step_work
    assert market.round(order_id, 0).work == 10 * step + 10**6 + 9 * STEPS * step
    market.answer_all(order_id, 0)
    market.chain.pass_time(market.order(order_id).window + 2)
    market.pass_handover(order_id)
    order = market.all_of(order_id)
    assert order.order.close_reason == CloseReason.STOPPED_BY_JOB
    paid = [payment.amount for payment in order.payments if payment.kind == "provider"]
    # 183 MFLOPs: 1 % and 3 % taken, 70 % of the rest for those who trained.
    assert 0.67 * 183_000 < sum(paid) < 0.68 * 183_000


def test_made_up_steps_are_found_by_the_panel_and_are_the_validators_fault() -> None:
    market = Market(local_params().replace(auditors=3), validators=12)
    order_id = stop(market)
    found = AuditPlace(AuditKind.SEGMENT, 1, 1, 0)
    assert market.wait_stage(order_id).places[0].place == found

    def earlier() -> tuple[SeatAnswer, ...]:
        *before, made = (digest("work", stage + 1) for stage in range(market.panel(order_id, 0).stage))
        true = SeatAnswer(0, AnswerKind.STOPPED, b"", made, STEPS - 1, tuple(before))
        return (true, *market.answers(order_id)[1:])

    market.say_all(order_id, earlier)
    leg = market.all_of(order_id).legs[0]
    assert leg.end_reason == LegEnd.WRONG_ROUND
    assert market.chain.bond("v0") < BOND
    assert all(market.chain.bond(name) == BOND for name in market.clusters["v0"])


@pytest.mark.parametrize("steps", [10, 11])
def test_a_segment_that_stops_has_fewer_steps_than_a_whole_one(steps: int) -> None:
    market = Market()
    order_id = market.run(submit(terms=TERMS, deposit=10**6))
    market.commit(
        order_id, market.trace(order_id, 0), *(stopped(market, order_id, slot, steps) for slot in range(1, 10))
    )
    market.wait_drawn(order_id)
    market.chain.refused(BAD_FIELD, market.accept_message(order_id), field="shares")
    assert all(share.state is ShareState.COMMITTED for share in market.shares(order_id))


def test_the_commitment_binds_the_steps() -> None:
    """A validator cannot cut the steps of its providers, nor add to them."""
    one, other = (stop_commitment(steps) for steps in (STEPS, STEPS - 1))
    assert one != other


def stop_commitment(steps: int) -> bytes:
    market = Market()
    order_id = market.run(submit(terms=TERMS, deposit=10**6))
    return bytes(market.trace(order_id, 1, stop=0, steps=steps).signed.claim.commitment)
