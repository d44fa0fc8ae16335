"""What a console shows of an order in a tier that leaves some rounds without a panel."""

from collections.abc import Iterator

import pytest

from console.server import Console
from domain.market.records import Conditions
from tests.support.chain_market import bid, make_terms, submit
from tests.support.four_bytes import FOUR_BYTES, registered
from tests.support.told_market import ToldMarket
from tests.unit.console.conftest import ask

NAME = FOUR_BYTES.name


@pytest.fixture
def market() -> Iterator[ToldMarket]:
    with registered():
        market = ToldMarket(bidders=())
        market.chain.ok(bid("v0", tiers=(NAME,)))
        yield market


def test_rounds_without_a_panel_are_said_to_have_none(market: ToldMarket) -> None:
    terms = make_terms(rounds=12)
    asked = Conditions(tiers=(NAME,))
    order_id = market.run(submit(conditions=asked, terms=terms, deposit=3 * 10**6, deadline=10**4))
    audited = []
    for round in range(terms.rounds):
        market.train_round(order_id)
        panel = market.all_of(order_id).panel(1, round)
        while panel is not None and not panel.stage:
            market.chain.block()
            panel = market.all_of(order_id).panel(1, round)
        audited.append(panel is not None)
        if panel is not None:
            market.answer_all(order_id, round)
    assert set(audited) == {True, False}
    with Console(0, probe=False) as console:
        market.tell(console.known)
        console.pages.ask = market.chain.ask
        page = ask(console, f"/api/orders/{order_id.hex()}").json()
        text = ask(console, f"/orders/{order_id.hex()}").text
        book = ask(console, "/book").text
    grid = {row["number"]: row for row in page["grid"]}
    assert [not grid[round]["skipped"] for round in range(terms.rounds)] == audited
    assert {row["state"] for row in grid.values()} <= {"verified", "window"}
    assert page["legs"][0]["tier"] == NAME
    assert page["conditions"]["tiers"] == [NAME]
    assert text.count("not drawn") == audited.count(False)
    assert FOUR_BYTES.description.recomputed in text
    assert f'<option value="{NAME}"' in book
