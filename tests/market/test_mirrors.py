"""A winner that vanishes after the draw, before a seat has asked it: the seats get everything from a mirror."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w

from domain.market.records import OrderState
from domain.proof.records import AnswerKind, Ruling
from tests.support.market_network import MarketNetwork, MarketOrder, market_network, quick_params
from tests.support.waiting import wait_until
from validator.decide.mirrors import STAGE
from validator.store import ValidatorStore

PARAMS = quick_params(stage_base=90)
"""A stage is long enough to stop and continue daemons in it on a busy machine."""
WINNER = "val0"
OTHERS = ("val1", "val2", "val3")
SECONDS = 600.0

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MarketNetwork]:
    directory = tmp_path_factory.mktemp("mirrors")
    with market_network(directory, (("",), (), (), ()), PARAMS) as running:
        yield running


def configure(market: MarketNetwork, moniker: str, name: str, *monikers: str) -> None:
    """Set a setting of a validator that lists other validators, and start its daemon again."""
    path = Path(market.layout.validator(moniker).home) / "config.toml"
    config = tomllib.loads(path.read_text())
    config["validator"][name] = ",".join(map(market.operator, monikers))
    path.write_text(tomli_w.dumps(config))
    market.network.kill(f"{moniker}.validator")
    market.network.start_one(f"{moniker}.validator")


def has_all(market: MarketNetwork, moniker: str, order: MarketOrder) -> bool:
    """Return whether a mirror has the data of all places of the order's first panel."""
    store = ValidatorStore(Path(market.layout.validator(moniker).home) / "validator" / "validator.db")
    try:
        keys = [key for key in store.seats() if (key.order_id, key.round, key.stage) == (order.id, 0, STAGE)]
        records = [store.seat(key) for key in keys]
        return any(record is not None and all(place.served for place in record.places) for record in records)
    finally:
        store.close()


def test_a_panel_is_done_from_a_mirror_alone(market: MarketNetwork) -> None:
    configure(market, WINNER, "mirrors", *OTHERS)
    for name in OTHERS:
        configure(market, name, "mirror_for", WINNER)
    market.bid(WINNER, "here")
    order = market.submit("here", deadline=1_200)
    order.wait_state(OrderState.RUNNING, SECONDS)
    for name in OTHERS:
        market.network.pause(f"{name}.validator")
    wait_until(lambda: any(panel.stage for panel in market.look(order).panels), "a drawn panel", SECONDS)
    seated = {market.moniker_of(seat.validator) for seat in market.seats(order)}
    (mirror,) = set(OTHERS) - seated
    market.network.resume(f"{mirror}.validator")
    wait_until(lambda: has_all(market, mirror, order), "the data at the mirror", SECONDS)
    market.network.kill(f"{WINNER}.validator")
    for name in sorted(seated):
        market.network.resume(f"{name}.validator")

    def is_verified() -> bool:
        closed = market.look(order).rounds[0]
        assert not closed.void
        return closed.verified

    wait_until(is_verified, "the round to be verified", SECONDS)
    on_chain = market.look(order)
    assert set(on_chain.rounds[0].mirrors) == set(map(market.operator, OTHERS))
    (panel,) = [panel for panel in on_chain.panels if panel.round == 0]
    assert {place.ruling for place in panel.places} == {Ruling.RIGHT}
    seats = [seat for seat in market.seats(order) if seat.round == 0]
    assert {market.moniker_of(seat.validator) for seat in seats} == seated
    assert all(answer.kind is AnswerKind.FINISHED for seat in seats for answer in seat.answers)
