"""What an order's commands say of a bid, and of an order that waits or is taken."""

from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from assay.cli.bid import bid_table
from assay.cli.order import Telling
from assay.cli.quote import told_headline
from consumer.submit import Quote
from consumer.watch import summarise
from domain.params import local_params
from domain.queries import SimulateMatchResponse
from domain.records import Bid, Depositor, Escrow, Offer, OrderState
from tests.unit.compute_provider import support as s

DAY = 86_400


def shown(found: Table) -> str:
    screen = StringIO()
    Console(file=screen, width=200).print(found)
    return screen.getvalue()


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
    assert "--price-limit 900000ASSAY; the order waits" in said[0]
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
