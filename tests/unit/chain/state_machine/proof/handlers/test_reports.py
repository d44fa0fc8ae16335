"""Reporting a provider, objecting, and what becomes of the bond."""

from dataclasses import replace
from typing import Any

import pytest

from domain.errors import (
    BAD_FIELD,
    BAD_PROOF,
    DEADLINE_PASSED,
    NOT_FOUND,
    NOT_YOURS,
    WRONG_STATE,
)
from domain.messages import MsgObjectReport, MsgStopOrder
from domain.reasons import CloseReason, ShareReason
from domain.records import OrderState, ReportState, ShareRef, ShareState
from pol.rules.commitment import update_claim
from tests.support.chain_harness import COINS
from tests.support.chain_market import BOND, Market, Trace, submit

VALUE = 40_000  # of half a round


@pytest.fixture
def market() -> Market:
    return Market()


@pytest.fixture
def order_id(market: Market) -> bytes:
    return market.run()


@pytest.fixture
def trace(market: Market, order_id: bytes) -> Trace:
    trace = market.trace(order_id, 0, 0, 8)
    market.commit(order_id, trace)
    return trace


def objection(order_id: bytes, **changes: Any) -> MsgObjectReport:
    return replace(MsgObjectReport("v0p0", order_id, 1, 0, ShareRef(0, 1)), **changes)


@pytest.mark.parametrize(
    ("segment", "reason"),
    [
        (0, ShareReason.SEGMENT_MISMATCH),
        (1, ShareReason.SEGMENT_MISMATCH),
        (2, ShareReason.UPDATE_MISMATCH),
    ],
)
def test_a_reported_share_is_rejected_at_once(
    market: Market, order_id: bytes, trace: Trace, segment: int, reason: ShareReason
) -> None:
    market.chain.ok(market.report_message(order_id, trace, segment))
    (share,) = market.shares(order_id)
    assert (share.state, share.reason) == (ShareState.REPORTED, reason)
    (report,) = market.all_of(order_id).reports
    assert (report.state, report.provider, report.bond) == (ReportState.OPEN, "v0p0", VALUE)
    assert report.deadline == market.chain.clock + 10
    assert market.chain.bond("v0p0") == BOND - VALUE
    market.commit(order_id, market.trace(order_id, 0, 0, 8, issue=2, provider="v0p1"))
    assert market.skipped() == []


def test_silence_cuts_the_bond_when_the_window_is_over(
    market: Market, order_id: bytes, trace: Trace
) -> None:
    market.chain.ok(market.report_message(order_id, trace))
    deadline = market.all_of(order_id).reports[0].deadline
    market.chain.pass_until(deadline - 1)
    assert market.chain.worth("carol") == COINS - 200_000
    market.chain.block()
    assert market.all_of(order_id).reports[0].state is ReportState.CUT
    assert market.chain.worth("carol") == COINS - 200_000 + VALUE // 2
    kinds = [(p.kind, p.amount) for p in market.all_of(order_id).payments]
    assert kinds == [("compensation", VALUE // 2), ("burn", VALUE // 2)]
    market.chain.refused(WRONG_STATE, objection(order_id))


def test_an_objection_keeps_the_bond_until_the_order_closes(
    market: Market, order_id: bytes, trace: Trace
) -> None:
    market.chain.ok(market.report_message(order_id, trace))
    market.chain.ok(objection(order_id))
    assert market.all_of(order_id).reports[0].state is ReportState.OBJECTED
    market.chain.pass_time(15)
    assert market.chain.bond("v0p0") == BOND - VALUE
    market.chain.ok(MsgStopOrder("v0", order_id, 1))
    assert market.chain.bond("v0p0") == BOND - VALUE
    market.chain.pass_time(120)
    assert market.order(order_id).close_reason == CloseReason.EXPIRED
    assert market.chain.bond("v0p0") == BOND


def test_an_objection_is_the_providers_in_time_and_once(
    market: Market, order_id: bytes, trace: Trace
) -> None:
    market.chain.ok(market.report_message(order_id, trace))
    market.chain.refused(NOT_YOURS, objection(order_id, provider="v0p1"))
    market.chain.refused(NOT_FOUND, objection(order_id, ref=ShareRef(0, 2)))
    market.chain.refused(BAD_FIELD, replace(objection(order_id), order_id=b""))
    market.chain.ok(objection(order_id))
    market.chain.refused(WRONG_STATE, objection(order_id))


@pytest.mark.parametrize(("early", "holds"), [(2, True), (1, False)])
def test_the_report_window_at_its_edge(
    market: Market, order_id: bytes, trace: Trace, early: int, holds: bool
) -> None:
    market.chain.ok(market.report_message(order_id, trace))
    market.chain.pass_until(market.all_of(order_id).reports[0].deadline - early)
    if holds:
        market.chain.ok(objection(order_id))
    else:
        market.chain.refused(WRONG_STATE, objection(order_id))


def test_the_window_counts_even_before_the_queue_acts(
    market: Market, order_id: bytes, trace: Trace
) -> None:
    market.chain.ok(market.report_message(order_id, trace))
    market.chain.drop_queue()
    market.chain.pass_time(10)
    market.chain.refused(DEADLINE_PASSED, objection(order_id))


def test_evidence_that_does_not_hold(market: Market, order_id: bytes, trace: Trace) -> None:
    good = market.report_message(order_id, trace, 0)
    chain = market.chain
    claimed = trace.leaves[1].boundary_root
    chain.refused(BAD_PROOF, replace(good, replayed_root=claimed), field="replayed_root")
    chain.refused(BAD_PROOF, replace(good, leaves=good.leaves[::-1]), field="leaves")
    forged = replace(good.leaves[1], boundary_root=bytes(32))
    chain.refused(BAD_PROOF, replace(good, leaves=(good.leaves[0], forged)), field="leaves")
    longer = replace(good.leaves[1], path=(*good.leaves[1].path, bytes(32)))
    chain.refused(BAD_PROOF, replace(good, leaves=(good.leaves[0], longer)))
    huge = replace(good.leaves[1], path=(bytes(32),) * 65)
    chain.refused(BAD_FIELD, replace(good, leaves=(good.leaves[0], huge)))
    chain.refused(BAD_FIELD, replace(good, leaves=good.leaves[:1]), field="leaves")
    chain.refused(BAD_FIELD, replace(good, segment=3), field="segment")
    update = market.report_message(order_id, trace, 2)
    claim = trace.claim
    right = update_claim(claim.update_root, claim.local_out)
    chain.refused(BAD_PROOF, replace(update, replayed_root=right))
    other = market.trace(order_id, 1, 8, 8)
    market.commit(order_id, other)
    chain.refused(BAD_PROOF, replace(good, leaves=other.leaves[:2]), field="leaves")


def test_only_standing_shares_of_ones_own_order_are_reported(
    market: Market, order_id: bytes, trace: Trace
) -> None:
    good = market.report_message(order_id, trace)
    market.chain.refused(NOT_YOURS, replace(good, validator="v1"))
    market.chain.refused(NOT_FOUND, replace(good, ref=ShareRef(3, 1)))
    market.chain.refused(WRONG_STATE, replace(good, round=1))
    market.chain.ok(good)
    market.chain.refused(WRONG_STATE, good)


def test_an_order_waits_for_its_open_reports() -> None:
    market = Market(bidders=("v0",))
    order_id = market.run(submit(rematch=False))
    trace = market.trace(order_id)
    market.commit(order_id, trace)
    market.chain.ok(market.report_message(order_id, trace))
    market.chain.ok(MsgStopOrder("v0", order_id, 1))
    assert market.order(order_id).state is OrderState.RUNNING
    market.chain.refused(WRONG_STATE, market.commit_message(order_id, trace))
    market.chain.pass_time(10)
    order = market.order(order_id)
    assert (order.state, order.close_reason) == (OrderState.CLOSED, CloseReason.FAILED)
    # The deposit, the job bond, and half the value of the share.
    assert market.chain.worth("carol") == COINS + 16_000 + VALUE


def test_an_order_that_waits_for_reports_leaves_the_book() -> None:
    market = Market(bidders=("v0",))
    order_id = market.run(submit(time_to_live=5))
    trace = market.trace(order_id)
    market.commit(order_id, trace)
    market.chain.ok(market.report_message(order_id, trace), MsgStopOrder("v0", order_id, 1))
    assert market.order(order_id).state is OrderState.OPEN
    market.chain.pass_time(6)
    assert market.order(order_id).state is OrderState.OPEN
    from tests.support.chain_market import bid

    market.chain.ok(bid("v1"))
    assert market.order(order_id).attempt == 1
    market.chain.pass_time(5)
    assert market.order(order_id).close_reason == CloseReason.EXPIRED
