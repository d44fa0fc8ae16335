"""What the answer about an order finds in itself, and that every request names its response."""

from dataclasses import replace
from typing import get_args

from domain.proof.queries import OrderResponse
from domain.vocabulary import QUERIES
from tests.unit.compute_provider.support import order
from wire.queries import METHODS


def test_every_request_names_the_response_that_its_service_gives() -> None:
    assert {method.request.__name__ for method in METHODS.values()} == set(QUERIES)
    for method in METHODS.values():
        (base,) = method.request.__orig_bases__  # type: ignore[attr-defined]
        assert get_args(base) == (method.response,)
        assert method.response.__name__ == method.response_proto.DESCRIPTOR.name


def of_three_legs() -> OrderResponse:
    """Return an order whose second of three legs is the current one."""
    one = order()
    (leg,) = one.legs
    return replace(
        one,
        order=replace(one.order, legs=2),
        legs=tuple(replace(leg, number=number) for number in (1, 2, 3)),
    )


def test_an_leg_is_found_by_its_number_and_the_current_one_by_the_orders() -> None:
    response = of_three_legs()
    assert response.current == response.legs[1]
    assert response.leg(3) == response.legs[2]
    assert response.leg(4) is None


def test_what_is_not_there_is_none() -> None:
    response = replace(order(), legs=())
    assert response.current is None
    assert (response.round(1, 0), response.panel(1, 0)) == (None, None)
    assert response.rounds_of(1) == ()
    assert response.shares_of(1, 0) == {}
