"""Orders and bids are found on every page, and by the first digits of an id."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from chain.client.client import ChainClient
from consumer.errors import ConsumerError, InvalidId
from consumer.lookup import all_orders, all_pages, find_order
from domain.errors import Exit
from domain.limits import QUERY_LIMIT_MAX
from domain.market.queries import OrdersRequest, OrdersResponse
from tests.unit.compute_provider import support as s


@dataclass(frozen=True)
class Item:
    id: bytes


class Node(ChainClient):
    """A node with two orders whose ids begin alike."""

    orders = tuple(replace(s.order().order, id=bytes.fromhex("12345678") + bytes([n] * 28)) for n in (1, 2))

    def __init__(self) -> None:
        super().__init__("127.0.0.1:1")
        self.asked: list[OrdersRequest] = []

    def query(self, request: Any) -> Any:
        self.asked.append(request)
        return OrdersResponse(self.orders)


@pytest.mark.parametrize("count", [0, 1, QUERY_LIMIT_MAX, 2 * QUERY_LIMIT_MAX + 7])
def test_items_on_later_pages_are_found_too(count: int) -> None:
    items = [Item(number.to_bytes(4, "big")) for number in range(1, count + 1)]

    def page(after: bytes) -> list[Item]:
        return [item for item in items if item.id > after][:QUERY_LIMIT_MAX]

    assert list(all_pages(page)) == items


def test_an_order_is_named_by_its_first_digits() -> None:
    node = Node()
    assert find_order(node, "1234567802") == node.orders[1].id
    assert find_order(node, "1234567802".upper()) == node.orders[1].id


def test_a_whole_id_is_taken_without_asking() -> None:
    node = Node()
    assert find_order(node, "ab" * 32) == b"\xab" * 32
    assert not node.asked


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("12345678", "2 orders have ids that begin with 12345678"),
        ("99999999", "no order has an id that begins with 99999999"),
    ],
)
def test_digits_of_several_orders_or_of_none_are_refused(text: str, says: str) -> None:
    with pytest.raises(ConsumerError, match=says) as refused:
        find_order(Node(), text)
    assert refused.value.exit_code is Exit.REFUSED


@pytest.mark.parametrize("text", ["1234567", "my-order", "ab" * 33])
def test_a_text_that_cannot_be_an_id_is_wrong_usage(text: str) -> None:
    with pytest.raises(InvalidId, match="is not the id of an order; an id has 8 to 64 hex digits"):
        find_order(Node(), text)
    assert InvalidId.exit_code is Exit.USAGE


def test_orders_are_asked_for_by_consumer_and_validator() -> None:
    node = Node()
    assert list(all_orders(node, "assay1c", "assay1v")) == list(node.orders)
    assert (node.asked[0].consumer, node.asked[0].validator) == ("assay1c", "assay1v")
