"""A validator stops a leg with closed rounds and sells its stake again: the stake still answers for those rounds."""

from chain.state_machine.ledger.tables import TALLIES
from domain.amount import price_ceil
from domain.ledger.messages import MsgDepositBond
from domain.legs.messages import MsgStopOrder
from domain.market.records import OrderState
from domain.params import local_params
from pol.rules.schedule import total_work
from tests.support.chain_harness import STAKE
from tests.support.chain_market import BOND, Market, bid, make_terms, submit

PRICE = 50 * 10**12
TERMS = make_terms(step_work=9_000_000_000)
DEPOSIT = 16 * 10**9


def test_the_stake_of_a_stopped_leg_waits_for_its_windows() -> None:
    worth = price_ceil(total_work(TERMS), PRICE)
    assert STAKE // 2 < worth < STAKE, "the stake backs one such order, and not two"
    market = Market(local_params().replace(job_bond_bps=1, auditors=0), bidders=())
    market.chain.ok(bid("v0", price=PRICE), *(MsgDepositBond(name, 10 * BOND) for name in market.clusters["v0"]))
    wanted = submit(terms=TERMS, price_limit=PRICE, deposit=DEPOSIT, rematch=False)
    order_id = market.run(wanted)
    market.train_round(order_id)
    market.chain.ok(MsgStopOrder("v0", order_id, 1))
    assert market.order(order_id).state is not OrderState.CLOSED
    second = market.submit(wanted)
    assert market.order(second).unmatched == (("stake", 1),)
    market.chain.pass_time(market.order(order_id).window + 2)
    assert TALLIES.must(market.chain.overlay(), order_id).ending
    market.auction()
    assert market.leg(second).validator == "v0"
