"""The life of an order from its submission to the last coin."""

from domain.legs.records import LegState
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from tests.support.chain_market import BOND, Market


def test_an_order_is_settled_and_every_coin_is_where_it_belongs() -> None:
    market = Market()
    chain = market.chain
    before = {name: chain.worth(name) for name in ("carol", "v0", "v0p0", "v0p1", "v1", "v2", "v3")}

    order_id = market.submit()
    assert market.order(order_id).state is OrderState.MATCHED
    assert chain.bond("v0") == BOND - 16_000  # a tenth of 160,000
    market.accept(order_id)
    assert market.order(order_id).state is OrderState.RUNNING
    market.settle(order_id)

    order = market.order(order_id)
    assert order.state is OrderState.CLOSED
    assert order.close_reason == CloseReason.SETTLED
    assert order.work_verified == 160_000_000
    assert market.leg(order_id).state is LegState.DONE

    # Per round 80,000: protocol 800, audit 2,400, rest 76,800, of it 70 % by work: 38,000 of 80,000 for each share; the
    # providers' part of the aggregation is its validator's. To two seats it pays 46,100 each for all places.
    earned = {name: chain.worth(name) - before[name] for name in before}
    assert earned["carol"] == -2 * 169_800
    assert earned["v0"] == 2 * (23_040 + 2_688)
    assert earned["v0p0"] == earned["v0p1"] == 2 * 25_536
    assert earned["v1"] + earned["v2"] + earned["v3"] == 4 * 46_100
    assert chain.bond("v0") == chain.bond("v0p0") == chain.bond("v0p1") == BOND
    payments = market.all_of(order_id).payments
    assert sum(p.amount for p in payments if p.kind == "protocol") == 2 * 800
    assert sum(p.amount for p in payments if p.kind == "refund") == 60_400
    assert market.all_of(order_id).escrow.bonds == ()
    (escrow,) = market.all_of(order_id).escrow.depositors
    assert (escrow.locked, escrow.paid, escrow.refunded) == (0, 339_600, 60_400)
