from dataclasses import replace
from typing import Any

import pytest

from domain import queries as q
from domain.amount import MONEY_MAX
from domain.errors import (
    BAD_FIELD,
    BAD_PROOF,
    INSUFFICIENT_DEPOSIT,
    INSUFFICIENT_FUNDS,
    TOO_SLOW_TO_AUDIT,
    UNSUPPORTED,
)
from domain.hashing import hash_fields, u32, u64
from domain.limits import SLOTS_MAX
from domain.params import local_params
from domain.records import Conditions, OrderState
from pol.rules.schedule import segment_samples
from tests.support.chain_harness import CHAIN_ID, COINS
from tests.support.chain_market import ANY, PRICE, Market, make_terms, submit


@pytest.fixture
def market() -> Market:
    return Market(bidders=())


def test_an_order_opens_and_its_deposit_is_locked(market: Market) -> None:
    account = market.chain.account("carol")
    assert account is not None
    order_id = market.submit()
    assert order_id == hash_fields("assay/order", CHAIN_ID, "carol", u64(account.sequence), u32(0))
    found = market.all_of(order_id)
    order, clock = found.order, market.chain.clock
    assert (order.state, order.attempt, order.close_reason) == (OrderState.OPEN, 0, 0)
    assert (order.expires_at, order.deadline) == (clock + 100, clock + 1_000)
    assert order.params == local_params().for_order()
    assert market.chain.worth("carol") == COINS - 200_000
    assert found.escrow.depositors[0].locked == 200_000
    opened, unmatched = (
        market.chain.seen("order.opened")[-1],
        market.chain.seen("order.unmatched")[-1],
    )
    assert (opened.get("work"), opened.get("deposit")) == ("160000000", "200000")
    assert unmatched.number == opened.number + 1


def test_two_orders_in_one_transaction_have_two_ids(market: Market) -> None:
    result = market.chain.ok(market.chain.tx(submit(), submit()))
    ids = [found for _, found in result.tx_results[0].responses]
    assert len(set(ids)) == 2
    assert len(market.chain.ask(q.OrdersRequest("carol", "", 0, 0, b"")).orders) == 2


def test_an_order_keeps_its_own_deadline_within_its_time_to_live(market: Market) -> None:
    order = market.order(market.submit(submit(time_to_live=500, deadline=50)))
    assert order.expires_at == order.deadline


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("order_key", b"\x02" + bytes(31)),
        ("order_key", b"\x05" + bytes(32)),
        ("key_proof", bytes(63)),
        ("price_limit", 0),
        ("price_limit", MONEY_MAX + 1),
        ("deposit", 0),
        ("time_to_live", 0),
        ("deadline", 0),
        ("deadline", 366 * 86_400 + 1),
    ],
)
def test_fields_are_bounded(market: Market, name: str, value: Any) -> None:
    market.chain.refused(BAD_FIELD, submit(**{name: value}), field=name)


@pytest.mark.parametrize(
    ("name", "value"),
    [("device_class", "x" * 33), ("memory", -1), ("regions", ("fr", "de"))],
)
def test_conditions_are_bounded(market: Market, name: str, value: Any) -> None:
    conditions = replace(ANY, **{name: value})
    market.chain.refused(BAD_FIELD, submit(conditions=conditions), field=f"conditions.{name}")


def test_terms_are_checked(market: Market) -> None:
    market.chain.refused(BAD_FIELD, submit(terms=make_terms(rounds=0)), field="terms.rounds")
    market.chain.refused(BAD_FIELD, submit(terms=make_terms(samples_per_round=15)))


def test_what_this_chain_does_not_run_is_refused(market: Market) -> None:
    market.chain.refused(UNSUPPORTED, submit(terms=make_terms(executor_version=2)))
    market.chain.refused(UNSUPPORTED, submit(conditions=Conditions(tier="attested")))


def test_the_deposit_pays_all_work_at_the_limit(market: Market) -> None:
    market.chain.refused(INSUFFICIENT_DEPOSIT, submit(deposit=159_999))
    market.chain.ok(submit(deposit=160_000))
    # 160,000,000 FLOPs at 10^12 + 1 per PFLOP cost a little more than 160,000, rounded up.
    market.chain.refused(INSUFFICIENT_DEPOSIT, submit(deposit=160_000, price_limit=PRICE + 1))
    market.chain.refused(INSUFFICIENT_FUNDS, submit(deposit=COINS))


def test_the_order_key_is_proven(market: Market) -> None:
    market.chain.refused(BAD_PROOF, submit(key_proof=bytes(64)), field="key_proof")
    market.chain.refused(BAD_PROOF, replace(submit(), terms=make_terms(job_id=bytes(32))))


def test_auditors_could_replay_a_segment_in_time(market: Market) -> None:
    # 0.2 GFLOP/s and a window of 10 s: 0.25 GFLOP in an eighth of it. A segment is two steps.
    bound = local_params().for_order().range_work_max
    assert bound == 250_000_000
    slow = make_terms(work_per_step=bound // 2 + 1)
    market.chain.refused(TOO_SLOW_TO_AUDIT, submit(terms=slow, deposit=10**10))
    market.chain.ok(submit(terms=make_terms(work_per_step=bound // 2), deposit=10**10))


def test_a_round_can_be_divided_into_ranges_that_auditors_replay(market: Market) -> None:
    # A segment of two steps that is a whole range: a round has at most SLOTS_MAX of them.
    bound = local_params().for_order().range_work_max
    terms = make_terms(work_per_step=bound // 2, rounds=1)
    segment = segment_samples(terms)
    most = replace(terms, samples_per_round=SLOTS_MAX * segment)
    deposit = 3 * 10**11
    market.chain.refused(
        TOO_SLOW_TO_AUDIT,
        submit(terms=replace(most, samples_per_round=(SLOTS_MAX + 1) * segment), deposit=deposit),
        field="terms.samples_per_round",
    )
    market.chain.ok(submit(terms=most, deposit=deposit))
