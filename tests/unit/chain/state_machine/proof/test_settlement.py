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
from domain.events import Event
from domain.params import local_params
from domain.reasons import CloseReason
from domain.records import BondKind, BondRow, OrderState
from escrow.moves import Move, Transfer
from tests.support.chain_harness import CHAIN_ID, COINS, verify
from tests.support.chain_market import BOND, Market, make_terms, submit


def context(market: Market) -> Context:
    info = BlockInfo(CHAIN_ID, "uassay", 9, 5, local_params(), b"", b"")
    return Context(market.chain.overlay(), info, verify, 1)


def test_many_rounds_that_become_ready_at_once_are_verified_one_by_one() -> None:
    rounds = 16
    # One entry of a lane in a block.
    market = Market(replace(local_params(), auditors=0, due_gas=1))
    order_id = market.run(submit(terms=make_terms(rounds=rounds), deposit=rounds * 180_000))
    for _ in range(rounds):
        market.train_round(order_id)
        market.chain.drop_queue()  # nothing happens by itself
    market.chain.pass_time(10)
    market.prove(order_id)
    verified = []
    for _ in range(2 * rounds):  # their bonds return in between
        verified.append(market.order(order_id).work_verified // 80_000_000)
        market.chain.block()
    assert sorted(set(verified)) == list(range(1, rounds + 1))
    market.chain.pass_time(rounds)
    order = market.order(order_id)
    assert (order.state, order.close_reason) == (OrderState.CLOSED, CloseReason.SETTLED)
    assert market.chain.worth("carol") == COINS - rounds * 80_000


def test_a_proven_order_runs_out_its_windows_whatever_its_deadline() -> None:
    """The consumer took its time with the payload: what was done in time is paid all the same."""
    market = Market(replace(local_params(), round_window=20))
    order_id = market.run(submit(terms=make_terms(rounds=3), deposit=540_000))
    for number in range(3):
        market.train_round(order_id)
        market.answer_all(order_id, number)
    market.prove(order_id)
    assert market.order(order_id).work_verified < 240_000_000
    market.move_deadline(order_id, market.chain.clock + 3)
    market.chain.pass_until(market.order(order_id).deadline + 1)
    assert market.order(order_id).state is OrderState.PROVEN
    market.chain.pass_time(20)
    order = market.order(order_id)
    assert (order.work_verified, order.close_reason) == (240_000_000, CloseReason.SETTLED)


def test_the_bonds_of_a_round_return_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settlement, "BONDS_PER_CALL", 3)
    slots = 8
    market = Market(replace(local_params(), auditors=0, due_gas=1))
    terms = make_terms(slots=slots, rounds=2)
    order_id = market.run(submit(terms=terms, deposit=10**6))
    market.train_round(order_id)
    assert returned_in_blocks(market, 25) == [3, 3, 2]
    assert market.order(order_id).work_verified > 0


def returned_in_blocks(market: Market, blocks: int) -> list[int]:
    """Make blocks, and return how many bonds returned in each of those that returned some."""
    found = []
    for _ in range(blocks):
        before = len(returned_bonds(market))
        market.chain.block()
        found.append(len(returned_bonds(market)) - before)
    return [number for number in found if number]


def returned_bonds(market: Market) -> list[Event]:
    return [event for event in market.chain.seen("payment") if event.get("kind") == "bond_return"]


def test_a_block_returns_a_bounded_number_of_bonds_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two rounds of two shares are four bonds; the order closes with the last of them."""
    monkeypatch.setattr(orders, "BONDS_PER_CALL", 2)
    market = Market(replace(local_params(), round_window=100, due_gas=1))
    chain = market.chain
    order_id = market.run(submit(rematch=False))
    for _ in range(2):
        market.train_round(order_id)
    market.prove(order_id)
    market.fault_round(order_id)
    assert returned_in_blocks(market, 9) == [4]  # two steps in different lanes
    assert market.order(order_id).close_reason == CloseReason.FAILED
    assert chain.worth("carol") == COINS
    assert [chain.bond(name) for name in ("v0p0", "v0p1")] == [BOND] * 2
    assert chain.seen("order.closed")[-1].get("refunded") == "400000"


def test_a_block_returns_a_bounded_number_of_bonds_before_an_order_opens_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(orders, "BONDS_PER_CALL", 1)
    market = Market(replace(local_params(), due_gas=1))
    order_id = market.run()
    rejected = market.trace(order_id, 0)
    market.commit(order_id, rejected, market.trace(order_id, 1))
    again = market.trace(order_id, 0, issue=2, provider="v0p1")
    market.commit(order_id, again, reject=[(rejected.ref, 10_105)])
    market.wait_drawn(order_id)
    market.chain.ok(market.close_message(order_id))
    market.fault_round(order_id)
    assert market.order(order_id).state is OrderState.RUNNING
    returned = returned_in_blocks(market, 8)
    assert market.order(order_id).state is OrderState.OPEN
    assert returned == [1, 1, 1]
    assert [market.chain.bond(name) for name in ("v0p0", "v0p1")] == [BOND, BOND]


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
            ctx, first, [Transfer(Move.REFUND, first.hex(), "carol", 500_000)]
        )


def test_a_bond_never_pays_more_than_it_has_and_keeps_the_rest() -> None:
    market = Market()
    order_id = market.run()
    trace = market.trace(order_id)
    market.commit(order_id, trace)
    ctx = context(market)
    row = order_money.get_share_bond(ctx, trace.claim.key)
    assert row is not None
    burn = Transfer(Move.BURN, order_id.hex(), "", 38_001)
    with pytest.raises(LedgerBroken, match="cannot pay"):
        order_money.cut_bond(ctx, order_id, row, [burn])
    order_money.cut_bond(ctx, order_id, row, [replace(burn, amount=38_000 - 1)])
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
    market = Market(replace(local_params(), job_bond_bps=0, payload_fee=0))
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
