"""A held share is shown under the issue of its task, and programs get the number that the chain gave it."""

import pytest

from console.server import Console
from pol.rules.inclusion import HELD_ISSUES_FROM
from tests.support.included import InclusionMarket
from tests.support.told_market import ToldMarket
from tests.unit.console.conftest import ask

ISSUE = 3


class HeldMarket(ToldMarket, InclusionMarket):
    """A market that tells a console of included shares."""


@pytest.fixture(scope="module")
def held() -> tuple[HeldMarket, bytes]:
    """The validator committed an accomplice's share under the issue of another provider's task."""
    market = HeldMarket(validators=4, providers=4)
    order_id = market.run()
    market.commit(order_id, market.delivered_trace(order_id, 0, issue=ISSUE, provider="v0p1"))
    market.chain.ok(market.include(market.delivered_trace(order_id, 0, issue=ISSUE, provider="v0p0")))
    return market, order_id


def test_pages_name_a_held_share_by_the_issue_of_its_task(held: tuple[HeldMarket, bytes]) -> None:
    market, order_id = held
    order = f"/orders/{order_id.hex()}"
    share = f"{order}/1/0/0/{HELD_ISSUES_FROM}"
    with Console(0, probe=False) as console:
        market.tell(console.known)
        console.pages.ask = market.chain.ask
        for path in (order, share, "/network", "/"):
            text = ask(console, path).text.replace(f"/{HELD_ISSUES_FROM}", "")  # in addresses
            assert str(HELD_ISSUES_FROM) not in text, path
            assert path == "/network" or path == "/" or f"{ISSUE} (held)" in text, path
        assert f"slot 0, issue {ISSUE} (held)" in ask(console, share).text
        page = ask(console, f"/api{share}").json()
        assert (page["issue"], page["issue_name"]) == (HELD_ISSUES_FROM, f"{ISSUE} (held)")
        assert [each["issue"] for each in page["issues"]] == [ISSUE, HELD_ISSUES_FROM]
