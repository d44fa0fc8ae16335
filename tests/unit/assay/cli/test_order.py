"""What an order's commands say of a bid, and of an order that waits or is taken."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from assay.cli.bid import bid_table
from assay.cli.order import Telling
from assay.cli.quote import told_headline
from assay.settings.home import Settings
from chain.client.client import ChainClient
from consumer.submit import Quote
from consumer.watch import summarise
from domain.ledger.records import Depositor, Escrow
from domain.market.queries import OrdersRequest, OrdersResponse, SimulateMatchResponse
from domain.market.records import Bid, Offer, OrderState
from domain.params import local_params
from domain.proof.queries import OrderRequest
from tests.unit.assay.support import assay
from tests.unit.compute_provider import support as s

DAY = 86_400


class Node(ChainClient):
    """A node with one order; somebody ends what looks at it the second time."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1:1")
        self.looks = 0

    def query(self, request: object) -> Any:
        match request:
            case OrdersRequest():
                return OrdersResponse((s.order().order,))
            case OrderRequest():
                self.looks += 1
                if self.looks > 1:
                    raise KeyboardInterrupt
                return s.order()
        raise AssertionError(request)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings, "client", lambda settings: Node())


def shown(found: Table, width: int = 200) -> str:
    screen = StringIO()
    Console(file=screen, width=width).print(found)
    return screen.getvalue()


@pytest.mark.usefixtures("node")
def test_who_stops_watching_is_told_that_the_order_goes_on(tmp_path: Path) -> None:
    ran = assay("order", "watch", s.ORDER_ID.hex(), home=tmp_path)
    name = s.ORDER_ID.hex()[:12]
    assert ran.code == 1
    assert f"order {name} goes on" in ran.refusal
    assert f"assay order watch {name}" in ran.refusal


@pytest.mark.usefixtures("node")
def test_a_state_is_a_word_for_programs_too(tmp_path: Path) -> None:
    word = s.order().order.state.name.lower()
    (listed,) = assay("order", "list", "--output", "json", home=tmp_path).json
    watched = assay("order", "watch", s.ORDER_ID.hex(), "--output", "json", home=tmp_path)
    assert listed["state"] == json.loads(watched.out.splitlines()[0])["state"] == word


@pytest.mark.parametrize("width", [20, 40, 80])
def test_bids_can_be_read_on_a_narrow_screen(width: int) -> None:
    offer = Offer(price=9 * 10**11, slot_speed=10**9, slots=1, device_class="cpu", max_work=10**15)
    bid = Bid(b"\x13" * 32, "assay1v", offer, 10**13, 7 * DAY, 1)
    text = shown(bid_table([bid], 0), width)
    for word in ("131313131313", "assay1v", "900,000", "cpu", "10 TFLOP", "days"):
        assert word in text
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize(
    ("clock", "left"), [(1_000, "7.0 days"), (7 * DAY, "16.7 min"), (10**9, "0 s")]
)
def test_a_bid_says_how_long_it_stands_and_what_is_left_of_it(clock: int, left: str) -> None:
    offer = Offer(price=9 * 10**11, slot_speed=10**9, slots=1, device_class="cpu", max_work=10**15)
    bid = Bid(b"\x13" * 32, "assay1v", offer, 10**13, 7 * DAY + 1_000, 1, reserved=4 * 10**12)
    (row,) = [line for line in shown(bid_table([bid], clock)).splitlines() if "1313" in line]
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells[-1] == left
    assert "6 TFLOP" in cells


def test_an_order_says_once_who_takes_it_and_why_it_waits() -> None:
    said: list[str] = []
    telling = Telling(said.append, lambda: 9 * 10**11, [])
    waits: Any = s.with_order(s.order(), state=OrderState.OPEN, unmatched=(("price", 3),))
    taken = s.with_order(s.order(), state=OrderState.MATCHED)
    for answer in (waits, waits, taken, taken):
        telling.look(answer)
    assert len(said) == 2
    assert "3 on price" in said[0]
    assert "--price-limit 900000ASSAY, or price_limit=900000000000; the order waits" in said[0]
    assert said[1].startswith("matched: ")
    assert "takes it at 1,000,000 ASSAY a PFLOP" in said[1]


def test_a_quote_without_a_bid_names_no_price() -> None:
    params = local_params()
    none = Quote(s.terms(), SimulateMatchResponse((), (("regions", 3),)), params)
    assert told_headline(none).endswith("; no bid fits")


def test_what_an_order_locked_is_what_the_rows_of_it_say() -> None:
    found = summarise(
        replace(
            s.order(),
            escrow=Escrow(
                s.ORDER_ID, (Depositor("a", 5, 7, 11), Depositor("b", 1, 2, 3)), (), withheld=4
            ),
        )
    )
    assert (found.paid, found.refunded, found.locked, found.withheld) == (9, 14, 6, 4)
