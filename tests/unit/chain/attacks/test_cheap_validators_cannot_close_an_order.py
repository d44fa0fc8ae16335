"""Validators that win with the lowest prices and then blame the job: an honest bid still serves the order."""

from domain.legs.messages import MsgDeclineOrder
from domain.legs.params import LegsParams
from domain.legs.reasons import LegEnd
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.params import Params, local_params
from tests.support.chain_market import BOND, CONSUMER, Market, bid

VALIDATORS = 40  # with equal stakes: three of them hold less than a tenth, and four hold a tenth
FEE = local_params().of(LegsParams).payload_fee


def make_market(liars: int, params: Params | None = None) -> Market:
    """Return a market in which ``liars`` validators bid less than an honest one, which is the last."""
    market = Market(params, validators=VALIDATORS, providers=0, bidders=())
    market.chain.ok(*(bid(f"v{number}", price=10**11) for number in range(liars)), bid(market.validators[-1]))
    return market


def decline_all(market: Market, order_id: bytes, liars: int) -> None:
    """Let the winner decline and blame the job ``liars`` times."""
    for _ in range(liars):
        leg = market.leg(order_id)
        assert leg.price == 10**11
        market.chain.ok(MsgDeclineOrder(leg.validator, order_id, leg.number, int(LegEnd.PAYLOAD_NOT_DELIVERED)))
        market.auction()


def test_three_validators_with_little_stake_do_not_keep_an_honest_bid_from_an_order() -> None:
    market = make_market(liars=3)
    order_id = market.submit()
    decline_all(market, order_id, 3)
    assert market.leg(order_id).validator == market.validators[-1]
    market.accept(order_id)
    assert market.order(order_id).state is OrderState.RUNNING


def test_validators_with_a_tenth_of_the_stake_close_an_order() -> None:
    market = make_market(liars=4)
    before = market.chain.worth(CONSUMER)
    order_id = market.submit()
    decline_all(market, order_id, 4)
    order = market.order(order_id)
    assert (order.state, order.close_reason) == (OrderState.CLOSED, CloseReason.UNSERVED)
    assert market.chain.worth(CONSUMER) == before - 3 * FEE, "a fourth one burns nothing more of the deposit"
    assert [market.chain.bond(f"v{number}") for number in range(4)] == [BOND - FEE] * 4


def test_an_order_that_every_validator_blames_closes() -> None:
    """Two validators are fewer than `max_attempts`, but no other one is left."""
    market = Market(local_params().replace(auditors=0), validators=2, providers=0, bidders=("v0", "v1"))
    order_id = market.submit()
    for _ in range(2):
        leg = market.leg(order_id)
        market.chain.ok(MsgDeclineOrder(leg.validator, order_id, leg.number, int(LegEnd.PAYLOAD_NOT_DELIVERED)))
        market.auction()
    assert market.order(order_id).close_reason == CloseReason.UNSERVED
