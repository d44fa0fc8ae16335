"""Panels that keep auditors busy for nothing.

Three orders with a price limit of 1 uassay per PFLOP used to hold all audit room for eleven hours each, for 0.03 ASSAY.
"""

from domain.params import local_params
from tests.support.chain_market import PRICE, Market, bid, slow_auditors, submit


def test_auditors_are_paid_the_least_price_whatever_the_orders_limit() -> None:
    params = local_params().replace(audit_price_min=PRICE, order_min=0, payload_fee=0)
    market = Market(params, bidders=(), validators=6)
    market.chain.ok(bid("v0", price=1))
    order_id = market.run(submit(price_limit=1, deposit=200_000))
    market.train_round(order_id)
    before = {name: market.chain.worth(name) for name in market.validators if name != "v0"}
    market.answer_all(order_id, 0)
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    assert market.round(order_id, 0).verified
    earned = [market.chain.worth(name) - worth for name, worth in before.items()]
    assert sorted(earned)[-2:] == [46_100] * 2


def test_a_seat_that_waits_for_the_last_second_holds_no_room_meanwhile() -> None:
    params = local_params().replace(audit_room_bps=1, window_max=2_000, progress_base=300)
    market = Market(params, validators=6)
    slow_auditors(market)
    idle, other = (market.run(submit(deadline=100_000)) for _ in range(2))
    market.train_round(idle)
    market.wait_stage(idle)
    market.train_round(other)
    assert market.panel(other, 0).stage == 0
    ends = market.panel(idle, 0).commits_end
    market.wait_stage(other)
    # The slowest needs 46 s for the places; the friendly seat has 336 s to commit.
    assert market.chain.clock < ends - 200
