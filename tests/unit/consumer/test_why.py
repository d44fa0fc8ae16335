"""Why an order waits, and at which price it would not."""

from typing import Any, TypeVar, cast

import pytest

from chain.client.client import ChainClient
from consumer.why import ask_why
from domain.disputes.queries import DisputesRequest, DisputesResponse
from domain.market.queries import (
    BidsRequest,
    BidsResponse,
    SimulateMatchRequest,
    SimulateMatchResponse,
    ValidatorBacking,
)
from domain.market.records import Bid, Offer, OrderState
from domain.node.queries import StatusRequest, StatusResponse
from domain.proof.queries import OrderRequest, OrderResponse
from domain.queries import Query
from tests.unit.compute_provider import support as s

R = TypeVar("R")
LIMIT = s.order().order.price_limit


class Node(ChainClient):
    """Has one order, and a book with one bid or none; the clock stands a minute before the order's deadline."""

    def __init__(self, answer: OrderResponse, asks: int) -> None:
        super().__init__("127.0.0.1:1")
        self.answer, self.asks = answer, asks
        self.simulated: list[SimulateMatchRequest] = []
        self.stake = 0

    def query(self, request: Query[R]) -> R:
        asked: object = request
        answer: object
        match asked:
            case OrderRequest():
                answer = self.answer
            case StatusRequest():
                clock = self.answer.order.deadline - 60
                answer = StatusResponse("assay-test", 1, 0, clock, 1, b"", False, 1_000)
            case SimulateMatchRequest():
                self.simulated.append(asked)
                offer = Offer(price=self.asks, slot_speed=1, slots=1)
                bid = Bid(b"\x01" * 32, "assay1v", offer, 1, 1, 1)
                answer = SimulateMatchResponse((bid,) if self.asks else (), ())
            case BidsRequest():
                bid = Bid(b"\x01" * 32, "assay1v", Offer(price=LIMIT, slot_speed=1), 1, 1, 1)
                answer = BidsResponse((bid,), (ValidatorBacking("assay1v", self.stake, 0),))
            case DisputesRequest():
                answer = DisputesResponse(())
            case _:
                raise AssertionError(request)
        return cast(R, answer)


def waiting() -> Any:
    return s.with_order(s.order(), state=OrderState.OPEN, opened_at=40, unmatched=(("price", 1), ("tier", 2)))


@pytest.mark.parametrize(("asks", "is_said"), [(2 * LIMIT, True), (LIMIT, False), (0, False)])
def test_an_order_that_waits_tells_the_price_that_it_lacks(asks: int, is_said: bool) -> None:
    node = Node(waiting(), asks)
    found = ask_why(node, s.ORDER_ID)
    order = waiting().order
    assert node.simulated == [SimulateMatchRequest(order.conditions, 0, 60, order.terms)]
    assert (found.cheapest, found.price_limit) == (asks, LIMIT)
    (told,) = str(found).splitlines()
    assert told.startswith("the order is open, and waits for a bid for ")
    assert ": 1 bid asks more, 2 bids verify in other tiers; " in told
    assert ("; price_limit=2000000000000 would match a bid; " in told) == is_said
    assert ("; allow more tiers, or name none; " in told) != is_said


def test_an_order_that_no_stake_backs_says_how_much_is_backed() -> None:
    stakes = s.with_order(waiting(), unmatched=(("stake", 1),))
    node = Node(stakes, 0)
    node.stake = 1
    told = str(ask_why(node, s.ORDER_ID))
    assert "1 bid has too little stake behind it (its stake backs 1,000 FLOP at the bid's price" in told
    assert "order a smaller job, or wait for a bid with more stake" in told


def test_the_book_is_not_asked_for_an_order_that_does_not_wait_for_it() -> None:
    node = Node(s.with_order(s.order(), state=OrderState.RUNNING), LIMIT)
    assert ask_why(node, s.ORDER_ID).cheapest == 0
    assert not node.simulated
