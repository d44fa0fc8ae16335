"""Verification in bounded portions, and the guards of the money's way."""

from dataclasses import replace

import pytest

from chain.state_machine.context import BlockInfo, Context
from chain.state_machine.ledger import order_money
from chain.state_machine.ledger.balances import LedgerBroken
from chain.state_machine.market import orders
from chain.state_machine.market.book import return_bond
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof import settlement
from domain.errors import WRONG_STATE
from domain.messages import MsgCancelOrder, MsgStopOrder
from domain.params import local_params
from domain.reasons import CloseReason
from domain.records import BondKind, BondRow, OrderState
from escrow.moves import Move, Transfer
from tests.support.chain_harness import CHAIN_ID, COINS, verify
from tests.support.chain_market import BOND, Market, make_terms, submit


def context(market: Market) -> Context:
    info = BlockInfo(CHAIN_ID, "uassay", 9, 5, local_params(), b"")
    return Context(market.chain.overlay(), info, verify, 1)


def test_many_rounds_that_become_ready_at_once_are_verified_in_portions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settlement, "SHARES_PER_CALL", 20)
    rounds = 16  # of two shares each
    market = Market(replace(local_params(), auditors=0))
    order_id = market.run(submit(terms=make_terms(rounds=rounds), deposit=rounds * 80_000))
    for _ in range(rounds):
        market.chain.drop_queue()  # nothing happens by itself
        market.train_round(order_id)
    market.chain.drop_queue()
    market.chain.pass_time(10)
    market.prove(order_id)
    assert market.order(order_id).work_verified == 10 * 80_000_000
    market.chain.block()
    order = market.order(order_id)
    assert (order.state, order.close_reason) == (OrderState.CLOSED, CloseReason.SETTLED)
    assert market.chain.worth("carol") == COINS - rounds * 80_000


def test_an_order_at_its_deadline_is_paid_for_all_rounds_that_are_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three rounds become ready in the last second, and a block verifies one: the end waits for them."""
    monkeypatch.setattr(settlement, "SHARES_PER_CALL", 1)
    market = Market(replace(local_params(), round_window=20))
    order_id = market.run(submit(terms=make_terms(rounds=3), deposit=240_000, deadline=41))
    for number in range(3):
        market.train_round(order_id)
        if number:
            market.answer_all(order_id, number)
    market.prove(order_id)
    deadline = market.order(order_id).deadline
    market.chain.pass_until(deadline - 2)
    last = market.audit(order_id, 0).seats[-1].validator
    market.chain.ok(market.answer_message(order_id, 0, last))
    assert market.order(order_id).work_verified == 80_000_000
    market.chain.pass_until(deadline)
    market.chain.block()
    order = market.order(order_id)
    assert (order.work_verified, order.close_reason) == (240_000_000, CloseReason.SETTLED)


def test_a_block_returns_a_bounded_number_of_bonds_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two rounds of two shares and a job bond are five bonds; the order closes with the last of them."""
    monkeypatch.setattr(orders, "BONDS_PER_CALL", 2)
    market = Market(replace(local_params(), round_window=100))
    chain = market.chain
    order_id = market.run(submit(deadline=202))
    for _ in range(2):
        market.train_round(order_id)
    market.prove(order_id)
    chain.pass_until(market.order(order_id).deadline)
    returned = []
    for _ in range(3):
        order = market.order(order_id)
        returned.append((len(chain.seen("order.closed")), order.close_reason))
        chain.refused(WRONG_STATE, MsgCancelOrder("carol", order_id))
    assert returned == [(0, 0), (0, 0), (1, CloseReason.UNVERIFIED)]
    assert chain.worth("carol") == COINS
    assert [chain.bond(name) for name in ("v0", "v0p0", "v0p1")] == [BOND] * 3
    assert chain.seen("order.closed")[-1].get("refunded") == "200000"


def test_a_block_returns_a_bounded_number_of_bonds_before_an_order_opens_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(orders, "BONDS_PER_CALL", 1)
    market = Market(validators=1)  # nobody can audit, so every round is void
    order_id = market.run()
    reported = market.trace(order_id, 2, 0, 8)
    market.commit(order_id, reported)
    market.chain.ok(market.report_message(order_id, reported))
    market.train_round(order_id)
    market.chain.ok(MsgStopOrder("v0", order_id, 1))
    assert market.order(order_id).state is OrderState.RUNNING
    market.chain.block()
    assert market.order(order_id).state is OrderState.OPEN
    assert market.chain.bond("v0p1") == BOND
    assert market.chain.bond("v0p0") == BOND - 40_000  # at stake in the report


def test_only_deposits_pay_what_deposits_pay() -> None:
    market = Market()
    order_id = market.run()
    ctx = context(market)
    with pytest.raises(LedgerBroken, match="use up a deposit"):
        order_money.pay_from_deposits(ctx, order_id, [Transfer(Move.BURN, order_id.hex(), "", 1)])
    with pytest.raises(ValueError, match="lacks"):
        order_money.pay_from_deposits(
            ctx, order_id, [Transfer(Move.REFUND, order_id.hex(), "carol", 10**9)]
        )


def test_an_escrow_never_pays_more_than_it_holds() -> None:
    market = Market(consumers=("carol", "dave"))
    first, _ = market.run(), market.run(submit("dave"))
    ctx = context(market)
    with pytest.raises(LedgerBroken, match="more than it held"):
        order_money.apply_payments(
            ctx, first, [Transfer(Move.REFUND, first.hex(), "carol", 300_000)]
        )


def test_a_bond_never_pays_more_than_it_has_and_keeps_the_rest() -> None:
    market = Market()
    order_id = market.run()
    trace = market.trace(order_id)
    market.commit(order_id, trace)
    ctx = context(market)
    row = order_money.get_share_bond(ctx, trace.claim.key)
    assert row is not None
    burn = Transfer(Move.BURN, order_id.hex(), "", 80_001)
    with pytest.raises(LedgerBroken, match="cannot pay"):
        order_money.cut_bond(ctx, order_id, row, [burn])
    order_money.cut_bond(ctx, order_id, row, [replace(burn, amount=80_000 - 1)])
    rest = order_money.get_share_bond(ctx, trace.claim.key)
    assert rest == replace(row, amount=1)
    return_bond(ctx, order_id, rest)
    assert order_money.get_share_bond(ctx, trace.claim.key) is None


def test_a_bond_of_nothing_is_no_bond() -> None:
    market = Market()
    order_id = market.run()
    ctx = context(market)
    order_money.lock_bond(ctx, order_id, BondRow(BondKind.JOB, "v0", 7, 0, 0, 0, 0))
    assert order_money.get_job_bond(ctx, order_id, 7) is None


def test_without_job_bonds_attempts_fail_for_free() -> None:
    market = Market(replace(local_params(), job_bond_bps=0))
    order_id = market.run(submit(rematch=False))
    market.chain.pass_until(market.assignment(order_id).progress_deadline)
    assert market.order(order_id).close_reason == CloseReason.FAILED
    assert market.chain.worth("carol") == COINS
    assert market.chain.bond("v0") == BOND


def test_ids_come_from_transactions() -> None:
    with pytest.raises(LookupError):
        context(Market()).new_id("order")


def test_what_the_state_names_must_be_there() -> None:
    with pytest.raises(LookupError, match="order"):
        ORDERS.must(Market().chain.overlay(), bytes(32))
