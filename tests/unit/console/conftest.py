"""A market in which all has happened that a console shows, and a console that knows of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests

from console.server import Console
from tests.support.told_market import ToldMarket, cheated, unmatched


def ask(console: Console, path: str, **more: Any) -> requests.Response:
    """Ask a console over its socket."""
    return requests.get(console.url.rstrip("/") + path, timeout=10, **more)


@dataclass(frozen=True)
class Told:
    """The market, its orders, and a console that serves what is known of them."""

    market: ToldMarket
    settled: bytes
    running: bytes
    waiting: bytes
    console: Console

    def get(self, path: str, **more: Any) -> requests.Response:
        """Ask the server over its socket."""
        return ask(self.console, path, **more)

    def json(self, path: str) -> Any:
        """Return what a page is made of."""
        answer = self.get(f"/api{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="package")
def told() -> Iterator[Told]:
    market = ToldMarket()
    market.bid_at(2, "v1")
    settled = cheated(market)
    running = market.run()
    market.train_round(running)
    market.wait_stage(running)
    waiting = unmatched(market)
    with Console(0, probe=False) as console:
        market.tell(console.known)
        console.pages.ask = market.chain.ask
        yield Told(market, settled, running, waiting, console)
