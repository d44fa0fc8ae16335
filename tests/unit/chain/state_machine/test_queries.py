from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.ledger.queries import get_account, get_balance, get_balances
from domain.errors import BAD_FIELD, NOT_FOUND, UNKNOWN_REQUEST, Code, Refusal
from domain.genesis import DENOM
from domain.ledger.messages import MsgDepositBond
from domain.ledger.queries import AccountRequest
from domain.ledger.records import Coin
from domain.market.queries import BidsRequest, OrdersRequest, SimulateMatchRequest
from domain.market.records import OrderState
from domain.node.queries import EventsRequest, ParamsRequest, StatusRequest
from domain.params import local_params, read_params
from domain.proof.queries import OrderRequest
from domain.registry.queries import ProvidersRequest, ValidatorsRequest
from tests.support.chain_harness import CHAIN_ID, COINS
from tests.support.chain_market import ANY, Market, make_terms, submit


@pytest.fixture(scope="module")
def market() -> Market:
    market = Market(bidders=("v0", "v1"), consumers=("carol", "dave"))
    for consumer in ("carol", "dave", "carol"):
        market.submit(submit(consumer))
    market.submit(submit("dave", price_limit=1))
    return market


def refused(market: Market, code: Code, request: object) -> None:
    with pytest.raises(Refusal) as caught:
        market.chain.ask(request)
    assert caught.value.code == code


def test_status_and_parameters(market: Market) -> None:
    status = market.chain.ask(StatusRequest())
    assert (status.chain_id, status.height, status.clock) == (
        CHAIN_ID,
        market.chain.height,
        market.chain.clock,
    )
    assert status.next_event == len(market.chain.events) + 1
    assert read_params(market.chain.ask(ParamsRequest())) == local_params()


def test_accounts_and_balances(market: Market) -> None:
    found = market.chain.ask(AccountRequest("v1"))
    assert (found.account.address, found.bond.owner) == ("v1", "v1")
    assert found.balance == market.chain.balance("v1")
    refused(market, NOT_FOUND, AccountRequest("nobody"))
    store = market.chain.store
    assert get_account(store, "nobody") is None
    assert get_balance(store, "nobody", DENOM) == get_balance(store, "carol", "ufoo") == 0
    assert get_balances(store, "carol") == (Coin(DENOM, market.chain.balance("carol")),)
    assert get_balances(store, "nobody") == ()


def test_lists_are_paged_without_gaps(market: Market) -> None:
    for validator, total in (("", 8), ("v1", 2)):
        names: list[str] = []
        after = ""
        while page := market.chain.ask(ProvidersRequest(validator, 1, after)).providers:
            (found,) = page
            names.append(found.address)
            after = found.address
        assert len(names) == total
        assert names == sorted(names)
    for validator, total in (("", 2), ("v1", 1)):
        first = market.chain.ask(BidsRequest(validator, 0, b"")).bids
        assert len(first) == total
        rest = market.chain.ask(BidsRequest(validator, 0, first[0].id)).bids
        assert rest == first[1:]
    assert [v.operator for v in market.chain.ask(ValidatorsRequest()).validators] == list(market.validators)


def test_orders_are_found_by_consumer_validator_and_state(market: Market) -> None:
    def orders(
        consumer: str = "", validator: str = "", state: int = 0, limit: int = 0, after: bytes = b""
    ) -> list[bytes]:
        return [o.id for o in market.chain.ask(OrdersRequest(consumer, validator, state, limit, after)).orders]

    everything = orders()
    assert len(everything) == 4
    assert everything == sorted(everything)
    assert len(orders("carol")) == len(orders("dave")) == 2
    assert len(orders(state=OrderState.OPEN)) == 1
    assert len(orders("dave", state=OrderState.OPEN)) == 1
    by_validator = {name: orders(validator=name) for name in market.validators}
    matched = [order_id for found in by_validator.values() for order_id in found]
    assert sorted(matched) == sorted(set(everything) - set(orders(state=OrderState.OPEN)))
    for name in market.validators:
        assert sorted(orders("carol", name) + orders("dave", name)) == by_validator[name]
    assert orders(limit=1) + orders(after=everything[0]) == everything
    assert orders("carol", limit=1, after=orders("carol")[0]) == orders("carol")[1:]


def test_an_order_comes_with_everything_about_it(market: Market) -> None:
    (order,) = market.chain.ask(OrdersRequest("dave", "", 1, 0, b"")).orders
    found = market.chain.ask(OrderRequest(order.id))
    assert found.order == order
    assert found.legs == found.shares == found.rounds == found.payments == ()
    assert found.escrow.depositors[0].address == "dave"
    refused(market, NOT_FOUND, OrderRequest(bytes(32)))


def test_a_running_order_shows_its_bonds() -> None:
    market = Market()
    order_id = market.run()
    market.commit(order_id, market.trace(order_id))
    kinds = sorted(row.kind for row in market.all_of(order_id).escrow.bonds)
    assert kinds == [1, 2]


@pytest.mark.parametrize(
    "change",
    [
        {"price_limit": -1},
        {"price_limit": 2**63},
        {"deadline": 0},
        {"terms": make_terms(rounds=0)},
        {"terms": make_terms(rounds=100_001)},
        {"terms": make_terms(slots=0)},
        {"terms": make_terms(slots=1_025)},
        {"terms": make_terms(segment_steps=0)},
        {"terms": make_terms(step_work=2**128)},
        {"terms": make_terms(outer_work=-1)},
        {"terms": make_terms(segment_steps=3)},
    ],
)
def test_a_quote_is_about_something_possible(market: Market, change: dict[str, Any]) -> None:
    possible = SimulateMatchRequest(ANY, 1, 1, make_terms())
    assert market.chain.ask(possible).bids == ()
    refused(market, BAD_FIELD, replace(possible, **change))


def test_what_lies_beside_the_state_is_not_answered(market: Market) -> None:
    refused(market, UNKNOWN_REQUEST, EventsRequest(0, 1))


def test_a_query_sees_one_state(market: Market) -> None:
    before = market.chain.balance("carol")
    assert before < COINS
    market.chain.ok(MsgDepositBond("carol", 1))
    assert market.chain.balance("carol") < before
