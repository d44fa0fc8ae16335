from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.gas import gas_of
from chain.state_machine.market.gas import AUDITOR_GAS
from domain.amount import MONEY_MAX
from domain.errors import (
    BAD_FIELD,
    BAD_PROOF,
    INSUFFICIENT_DEPOSIT,
    INSUFFICIENT_FUNDS,
    OUT_OF_GAS,
    TOO_SLOW_TO_AUDIT,
    UNSUPPORTED,
    Code,
)
from domain.hashing import hash_fields, u32, u64
from domain.ledger.params import LedgerParams
from domain.market.queries import OrdersRequest
from domain.market.records import Conditions, JobTerms, OrderState
from domain.order_params import OrderParams
from domain.params import local_params
from pol.rules.tiers.exact import EXACT
from tests.support.chain_harness import CHAIN_ID, COINS, prove_key, sign
from tests.support.chain_market import ANY, PRICE, Market, make_terms, submit
from tests.support.four_bytes import registered

FLOOR = local_params().of(LedgerParams).min_gas_price_millionths


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
    assert (order.state, order.legs, order.close_reason) == (OrderState.OPEN, 0, 0)
    assert (order.expires_at, order.deadline) == (clock + 100, clock + 1_000)
    assert order.params == local_params().for_order()
    assert market.chain.worth("carol") == COINS - 400_000
    assert found.escrow.depositors[0].locked == 400_000
    opened, unmatched = (
        market.chain.seen("order.opened")[-1],
        market.chain.seen("order.unmatched")[-1],
    )
    assert (opened.get("work"), opened.get("deposit")) == ("160000000", "400000")
    assert unmatched.number > opened.number


def test_two_orders_in_one_transaction_have_two_ids(market: Market) -> None:
    result = market.chain.ok(market.chain.tx(submit(), submit()))
    ids = [found for _, found in result.tx_results[0].responses]
    assert len(set(ids)) == 2
    assert len(market.chain.ask(OrdersRequest("carol", "", 0, 0, b"")).orders) == 2


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
    market.chain.refused(BAD_FIELD, submit(terms=make_terms(segment_steps=3)), field="terms.segment_steps")


def test_what_this_chain_does_not_run_is_refused(market: Market) -> None:
    market.chain.refused(UNSUPPORTED, submit(terms=make_terms(executor_version=2)))


@pytest.mark.parametrize(
    ("tiers", "code", "field"),
    [
        (("attested",), UNSUPPORTED, "conditions.tiers[0]"),
        (("exact", "attested"), UNSUPPORTED, "conditions.tiers[1]"),
        (("exact", "exact"), BAD_FIELD, "conditions.tiers"),
        (("",), BAD_FIELD, "conditions.tiers[0]"),
        (("x" * 33,), BAD_FIELD, "conditions.tiers[0]"),
        (tuple(f"t{number:02}" for number in range(17)), BAD_FIELD, "conditions.tiers"),
    ],
)
def test_tiers_are_different_ones_that_this_chain_runs(
    market: Market, tiers: tuple[str, ...], code: Code, field: str
) -> None:
    market.chain.refused(code, submit(conditions=Conditions(tiers=tiers)), field=field)


def test_the_deposit_holds_the_audits_of_the_dearest_tier(market: Market) -> None:
    def dear(terms: JobTerms, price_limit: int, params: OrderParams) -> int:
        return 3 * EXACT.floor(terms, price_limit, params)

    with registered(replace(EXACT, name="dear", floor=dear)):
        for tiers in (("exact", "dear"), ("dear",), ()):
            asked = Conditions(tiers=tiers)
            market.chain.refused(INSUFFICIENT_DEPOSIT, submit(deposit=713_199, conditions=asked))
            market.chain.ok(submit(deposit=713_200, conditions=asked))
        market.chain.ok(submit(deposit=344_400, conditions=Conditions(tiers=("exact",))))


def test_the_deposit_pays_all_work_at_the_limit(market: Market) -> None:
    market.chain.refused(INSUFFICIENT_DEPOSIT, submit(deposit=159_999))
    market.chain.ok(submit(deposit=344_400))
    # 160,000,000 FLOPs at 10^12 + 1 per PFLOP cost a little more than 160,000, rounded up.
    market.chain.refused(INSUFFICIENT_DEPOSIT, submit(deposit=344_400, price_limit=PRICE + 1))
    market.chain.refused(INSUFFICIENT_FUNDS, submit(deposit=COINS))


def test_the_order_key_is_proven(market: Market) -> None:
    market.chain.refused(BAD_PROOF, submit(key_proof=bytes(64)), field="key_proof")
    market.chain.refused(BAD_PROOF, replace(submit(), key_proof=sign(bytes(33), b"another")))


def test_a_key_that_was_proven_for_one_order_serves_no_second_one(market: Market) -> None:
    """The proof is seen by everybody; with the same job, consumer and key it holds for one sequence only."""
    tx = market.chain.tx(submit())
    market.chain.ok(tx)
    market.chain.refused(BAD_PROOF, tx.messages[0], field="key_proof")
    one = prove_key(submit(), market.chain.sequence("carol"), 0)
    (result,) = market.chain.block(market.chain.tx(one, one)).tx_results
    assert result.code == BAD_PROOF.number


def test_an_order_is_not_too_small_to_be_worth_an_auction() -> None:
    market = Market(local_params().replace(order_min=350_000), bidders=())
    refused = market.chain.refused(INSUFFICIENT_DEPOSIT, submit(deposit=349_999), field="deposit")
    assert "deposit at least 350000" in refused.log
    market.chain.ok(submit(deposit=350_000))


def test_an_order_does_not_wait_for_ever() -> None:
    market = Market(local_params().replace(ttl_max=500), bidders=())
    market.chain.refused(BAD_FIELD, submit(time_to_live=501), field="time_to_live")
    market.chain.ok(submit(time_to_live=500))


@pytest.mark.parametrize(
    "terms",
    [
        # 10^10 FLOP/s and 10^9 bytes/s are promised, and a window of 600 s leaves 30 s for an audit.
        make_terms(round_steps=3_000, segment_steps=1_500, step_work=10**9),
        make_terms(step_work=10**12),
        make_terms(data_bytes=31 * 10**9),
        make_terms(outer_work=301 * 10**9),
    ],
)
def test_auditors_could_recompute_in_time(market: Market, terms: JobTerms) -> None:
    too_much = submit(terms=terms, deposit=10**11)
    refused = market.chain.refused(TOO_SLOW_TO_AUDIT, too_much, field="terms.segment_steps")
    assert "`assay quote` names the largest number" in refused.log


def test_the_window_is_twenty_times_what_an_audit_takes(market: Market) -> None:
    slow = make_terms(step_work=5 * 10**9)
    order_id = market.submit(submit(terms=slow, price_limit=10**9, deposit=10**8))
    order = market.order(order_id)
    assert order.audit_ms == 2_008
    assert order.window == 41


def test_an_order_needs_two_validators_who_could_audit_it() -> None:
    market = Market(validators=1)
    market.chain.refused(TOO_SLOW_TO_AUDIT, submit(), field="terms")
    Market(local_params().replace(auditors=0), validators=1).submit()


def test_the_deposit_holds_the_least_audit_fees_beside_the_work(market: Market) -> None:
    """Audits of a job that costs next to nothing were not worth their gas (B11)."""
    floor = 2 * (46_000 + 100)
    needed = 160_000 + 2 * floor
    refused = market.chain.refused(INSUFFICIENT_DEPOSIT, submit(deposit=needed - 1))
    assert f"deposit at least {needed}" in refused.log
    market.chain.ok(submit(deposit=needed))


@pytest.mark.parametrize("validators", [4, 9])
def test_the_list_of_auditors_that_an_order_keeps_has_its_gas(validators: int) -> None:
    """An order of a chain with many validators writes more, so it needs more gas and costs a larger fee."""
    market = Market(validators=validators, bidders=())
    tx = market.chain.tx(submit())
    assert market.chain.simulate(tx).gas_used == gas_of(tx) + validators * AUDITOR_GAS
    short = market.chain.tx(submit(), gas_limit=gas_of(tx) + validators * AUDITOR_GAS - 1)
    market.chain.refused(OUT_OF_GAS, short, field="fee.gas_limit")
    order_id = market.submit()
    assert market.order_fee(order_id) == (gas_of(tx) + validators * AUDITOR_GAS) * FLOOR // 1_000_000
