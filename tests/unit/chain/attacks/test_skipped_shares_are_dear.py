"""Shares that change nothing cost their validator five times their weight, and do not make other shares fail."""

from dataclasses import replace

from chain.state_machine.gas import ITEM_GAS
from chain.state_machine.proof.gas import SKIP_GAS
from domain.proof.messages import MsgCommitTraces
from domain.proof.records import ShareState
from tests.support.chain_market import Market


def test_a_skipped_share_pays_five_times_its_weight() -> None:
    market = Market()
    order_id = market.run()
    right, wrong = market.traces_of_round(order_id)
    bad = replace(wrong.signed, signature=bytes(64))
    tx = market.chain.tx(market.commit_message(order_id, right, bad))
    before = market.chain.balance("v0")
    result = market.chain.ok(tx)
    weight = MsgCommitTraces.GAS_ITEMS["shares"] * ITEM_GAS
    assert 4 * weight == SKIP_GAS
    assert result.tx_results[0].gas_used <= tx.gas_limit, "it is no gas, so that the other share is committed"
    assert before - market.chain.balance("v0") == tx.fee[0].amount + SKIP_GAS // 1_000
    assert [share.state for share in market.shares(order_id)] == [ShareState.COMMITTED]
    market.chain.check_books()


def test_a_validator_without_coins_pays_what_it_has() -> None:
    market = Market()
    order_id = market.run()
    _, wrong = market.traces_of_round(order_id)
    bad = replace(wrong.signed, signature=bytes(64))
    message = market.commit_message(order_id, bad)
    left = market.chain.balance("v0") - 30
    market.chain.ok(market.chain.tx(message, fee=left))
    assert market.chain.balance("v0") == 0
