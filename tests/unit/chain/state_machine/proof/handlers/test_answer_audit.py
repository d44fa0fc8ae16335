"""Answers of auditors: who may answer what until when, and which answers agree with the chain."""

from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.context import BlockInfo, Context
from chain.state_machine.proof.handlers.answer_audit import agrees_with_chain
from domain.errors import (
    BAD_FIELD,
    DEADLINE_PASSED,
    LIMIT_REACHED,
    NOT_FOUND,
    NOT_YOURS,
    WRONG_STATE,
)
from domain.messages import MsgAnswerAudit
from domain.params import local_params
from domain.reasons import CloseReason
from domain.records import AuditAnswer, AuditKind, Place, TraceLeaf
from tests.support.chain_harness import CHAIN_ID, COINS, verify
from tests.support.chain_market import BOND, Market


@pytest.fixture
def market() -> Market:
    # Half of a round's price pays for two of its four segments, hence for two places.
    return Market(replace(local_params(), audit_bps=5_000))


@pytest.fixture
def order_id(market: Market) -> bytes:
    order_id = market.run()
    market.train_round(order_id)
    market.wait_seats(order_id, 0)
    return order_id


def seats(market: Market, order_id: bytes) -> list[str]:
    return [seat.validator for seat in market.audit(order_id, 0).seats]


def answer(market: Market, order_id: bytes, seat: int = 0, **changes: Any) -> MsgAnswerAudit:
    return replace(market.answer_message(order_id, 0, seats(market, order_id)[seat]), **changes)


def with_answer(message: MsgAnswerAudit, index: int, changed: AuditAnswer) -> MsgAnswerAudit:
    answers = (*message.answers[:index], changed, *message.answers[index + 1 :])
    return replace(message, answers=answers)


def test_both_seats_answer_the_same_places(market: Market, order_id: bytes) -> None:
    audit = market.audit(order_id, 0)
    assert len(audit.seats) == len(audit.places) == 2
    assert "v0" not in seats(market, order_id)
    market.chain.ok(answer(market, order_id, 0))
    assert not market.audit(order_id, 0).agreed
    market.chain.ok(answer(market, order_id, 1))
    assert market.audit(order_id, 0).agreed
    assert market.chain.seen("audit.answered")[-1].get("agrees") == "true"


def test_the_state_keeps_answers_without_their_leaves(market: Market, order_id: bytes) -> None:
    message = answer(market, order_id)
    leaf = TraceLeaf(1, 2, bytes(32), (bytes(32),))
    market.chain.ok(with_answer(message, 0, replace(message.answers[0], leaf=leaf)))
    kept = market.audit(order_id, 0).seats[0].answers
    assert [found.root for found in kept] == [found.root for found in message.answers]
    assert all(found.leaf is None for found in kept)


@pytest.mark.parametrize("root", [b"", bytes(32)])
def test_a_different_root_or_unavailable_voids_the_round(
    market: Market, order_id: bytes, root: bytes
) -> None:
    message = answer(market, order_id)
    market.chain.ok(with_answer(message, 1, replace(message.answers[1], root=root)))
    assert market.round(order_id, 0).void
    assert market.chain.seen("audit.answered")[-1].get("agrees") == "false"
    assert len(market.chain.seen("round.void")) == 1
    market.chain.refused(WRONG_STATE, answer(market, order_id, 1))
    market.chain.pass_time(12)
    assert market.order(order_id).work_verified == 0


@pytest.mark.parametrize("kind", list(AuditKind))
def test_what_agrees_with_the_chain(market: Market, order_id: bytes, kind: AuditKind) -> None:
    info = BlockInfo(CHAIN_ID, "uassay", 1, 0, local_params(), b"", b"")
    ctx = Context(market.chain.overlay(), info, verify, 1)
    closed = market.round(order_id, 0)
    segment = 2 if kind is AuditKind.UPDATE else 1
    place = Place(kind, 1, 1, segment)
    right = market.right_answer(order_id, 0, place)
    assert agrees_with_chain(ctx, closed, place, right)
    wrong = [replace(right, root=b""), replace(right, root=bytes(32))]
    if kind is AuditKind.SEGMENT:
        leaf = right.leaf
        assert leaf is not None
        # The right root without the trace's own leaf of the boundary behind the segment shows nothing.
        forged = replace(leaf, boundary_root=bytes(32))
        wrong.append(AuditAnswer(bytes(32), right.digest, forged))
        bad = (None, replace(leaf, step=99), replace(leaf, path=()), replace(leaf, index=1))
        wrong += [replace(right, leaf=other) for other in bad]
    for given in wrong:
        assert not agrees_with_chain(ctx, closed, place, given)


def test_only_seats_answer_and_each_once(market: Market, order_id: bytes) -> None:
    message = answer(market, order_id)
    (outsider,) = {"v1", "v2", "v3"} - set(seats(market, order_id))
    market.chain.refused(NOT_YOURS, replace(message, auditor=outsider))
    market.chain.refused(NOT_YOURS, replace(message, auditor="v0"))
    market.chain.refused(NOT_FOUND, replace(message, round=1))
    market.chain.ok(message)
    market.chain.refused(WRONG_STATE, message)


def test_every_place_has_an_answer_of_the_right_form(market: Market, order_id: bytes) -> None:
    message = answer(market, order_id)
    first = message.answers[0]
    market.chain.refused(BAD_FIELD, replace(message, answers=message.answers[1:]), field="answers")
    market.chain.refused(BAD_FIELD, with_answer(message, 0, replace(first, root=b"x")))
    market.chain.refused(BAD_FIELD, with_answer(message, 0, replace(first, digest=b"x")))
    market.chain.refused(BAD_FIELD, with_answer(message, 0, AuditAnswer(b"", b"x")))
    market.chain.refused(BAD_FIELD, replace(message, order_id=b""))
    leaf = market.traces[order_id, 1, 0, market.round(order_id, 0).shares[0]].leaves[0]
    huge = replace(first, leaf=replace(leaf, path=(bytes(32),) * 65))
    market.chain.refused(BAD_FIELD, with_answer(message, 0, huge))
    market.chain.refused(LIMIT_REACHED, replace(message, answers=()))
    market.chain.refused(LIMIT_REACHED, replace(message, answers=(first,) * 257))


@pytest.mark.parametrize(("early", "holds"), [(2, True), (1, False)])
def test_the_draws_end_at_its_edge(
    market: Market, order_id: bytes, early: int, holds: bool
) -> None:
    message = answer(market, order_id)
    market.chain.pass_until(market.audit(order_id, 0).draw_ends - early)
    if holds:
        market.chain.ok(message)
    else:
        market.chain.refused(WRONG_STATE, message)


def test_the_draws_end_counts_even_before_the_queue_acts(market: Market, order_id: bytes) -> None:
    message = answer(market, order_id)
    market.chain.drop_queue()
    market.chain.pass_time(5)
    market.chain.refused(DEADLINE_PASSED, message)


def test_a_void_round_ends_a_proven_order_at_once_with_the_deposit_back() -> None:
    """Bonds and the deposit are not held until a deadline that may be a year away."""
    market = Market(replace(local_params(), round_window=100))
    order_id = market.run()
    for _ in range(2):
        market.train_round(order_id)
    market.wait_seats(order_id, 0)
    market.chain.ok(with_answer(answer(market, order_id), 0, AuditAnswer(b"", b"")))
    market.chain.block()
    assert market.order(order_id).close_reason == CloseReason.UNVERIFIED
    assert market.chain.worth("carol") == COINS
    assert market.chain.bond("v0") == market.chain.bond("v0p0") == BOND
