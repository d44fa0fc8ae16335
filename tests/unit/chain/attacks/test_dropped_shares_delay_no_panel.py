"""Legs that stop with many shares do not delay the panels of others."""

from chain.state_machine.gas import LANE_PERCENT
from domain.legs.messages import MsgStopOrder
from domain.params import local_params
from domain.proof.records import ShareState
from tests.support.chain_market import Market, make_terms, submit

SLOTS = 12
DUTIES_GAS = 2_000_000
"""Gas for the due work of panels and windows in a block: two rounds of twelve shares could be dropped with it."""


def test_a_stage_ends_in_time_while_shares_are_dropped() -> None:
    """A validator stops six legs just before a stage of a panel ends."""
    params = local_params().replace(due_gas=DUTIES_GAS * 100 // LANE_PERCENT[0])
    market = Market(params, validators=6, providers=6)
    flood = [market.run(submit(terms=make_terms(slots=SLOTS), deposit=3 * 10**6)) for _ in range(6)]
    for order_id in flood:
        market.commit(order_id, *market.traces_of_round(order_id))
    audited = market.run()
    market.train_round(audited)
    panel = market.wait_stage(audited)
    market.chain.pass_until(panel.commits_end - 2)
    market.chain.ok(*(MsgStopOrder("v0", order_id, 1) for order_id in flood))
    assert market.panel(audited, 0).is_open
    market.chain.block()
    assert market.chain.clock == panel.commits_end
    assert not market.panel(audited, 0).is_open
    market.chain.pass_time(10)
    for order_id in flood:
        assert {share.state for share in market.shares(order_id)} == {ShareState.REJECTED}
