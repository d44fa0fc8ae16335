"""Bids that leave providers nothing, and legs that let unpaid shares pile up: a provider sets limits for both."""

from dataclasses import replace

from compute_provider.decide import claims
from domain.ledger.records import BondKind
from link.types import TrainTask
from tests.support.chain_market import PRICE, Market, bid
from tests.unit.compute_provider.support import task


def task_of(market: Market, order_id: bytes) -> TrainTask:
    """Return a task of the order's open round; only its key matters here."""
    return replace(task(), key=market.leg(order_id).open_round.share(0, 1))


def test_a_leg_that_pays_its_providers_nothing_is_not_trained_for() -> None:
    market = Market(bidders=())
    market.chain.ok(bid("v0", providers_bps=0))
    order_id = market.run()
    wanted = task_of(market, order_id)
    assert claims.income_problem(wanted, market.all_of(order_id), 0) == ""
    refused = claims.income_problem(wanted, market.all_of(order_id), 1)
    assert refused.startswith("the leg pays its providers 0ASSAY per PFLOP")


def test_the_income_of_a_leg_is_after_its_fees() -> None:
    market = Market()
    order_id = market.run()
    paid = PRICE * 96 // 100 * 7 // 10  # 1 % to the protocol, 3 % to auditors, 70 % of the rest to providers
    wanted, order = task_of(market, order_id), market.all_of(order_id)
    assert claims.income(order, order.legs[-1]) == paid
    assert claims.income_problem(wanted, order, paid) == ""
    assert claims.income_problem(wanted, order, paid + 1)


def test_shares_count_as_unpaid_until_their_round_is_verified() -> None:
    market = Market()
    order_id = market.run()

    def unpaid() -> int:
        return claims.exposure([market.all_of(order_id)], "v0p0")

    assert unpaid() == 0
    market.train_round(order_id)
    assert unpaid() == 38_000
    assert any(row.kind is BondKind.JOB for row in market.all_of(order_id).escrow.bonds)
    market.answer_all(order_id, 0)
    market.chain.pass_time(market.order(order_id).window + 2)
    assert unpaid() == 0
