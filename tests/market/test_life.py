"""Orders whose parties fall silent, die and come back, on one network of real processes over a solo node.

The first orders are submitted at once and need nobody's help: they end while the first tests kill and restart.
``val0``'s daemon has published its endpoint and is dead from then on.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import requests

from consumer.result import fetch_result
from domain.errors import Exit
from domain.ledger.queries import AccountRequest
from domain.legs.params import LegsParams
from domain.legs.reasons import LegEnd
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.node.queries import EventsRequest
from domain.proof.records import ShareState
from domain.registry.queries import ValidatorsRequest
from domain.registry.records import Validator
from tests.support.market_network import (
    MARKET_BOND,
    PRICE,
    MarketNetwork,
    MarketOrder,
    market_network,
    quick_params,
)
from tests.support.scraped import values
from tests.support.waiting import wait_until
from tests.unit.assay.support import assay

CLUSTERS = ((), ("",), ("",), ("", ""))
PATIENT = 5_000
"""FLOP/s that providers are certified for: they have time enough for a share to be killed and started in between."""
PARAMS = quick_params(accept_base=20)
SECONDS = 600.0
IDLE_BYTES_MAX = 150 << 20

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class Idle:
    """What a daemon took before there was any work."""

    name: str
    resident: int
    libraries: frozenset[str]


@dataclass(frozen=True)
class World:
    market: MarketNetwork
    idle: tuple[Idle, ...]
    dead_winner: MarketOrder  # won by val0, then by val1
    dead_end: MarketOrder  # won by val0, and nobody else bids
    undelivered: MarketOrder
    too_cheap: MarketOrder

    def free_bond(self, moniker: str) -> int:
        address = self.market.operator(moniker)
        return self.market.client.query(AccountRequest(address)).bond.free

    def validator(self, moniker: str) -> Validator:
        operator = self.market.operator(moniker)
        known = self.market.client.query(ValidatorsRequest()).validators
        return next(v for v in known if v.operator == operator)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("life")
    with market_network(directory, CLUSTERS, PARAMS, lambda _: PATIENT) as market:
        idle = tuple(look_at_idle(market))
        market.network.kill("val0.validator")
        market.bid("val0", "a0")
        market.bid("val0", "b0")
        market.bid("val1", "a1", price=PRICE + PRICE // 10)
        market.bid("val1", "c1")
        yield World(
            market,
            idle,
            dead_winner=market.submit("a0", "a1", price_limit=PRICE + PRICE // 10),
            dead_end=market.submit("b0", time_to_live=8),
            undelivered=market.submit("c1", time_to_live=8, deliver=False),
            too_cheap=market.submit("a0", "a1", price_limit=PRICE // 2, time_to_live=5),
        )


def look_at_idle(market: MarketNetwork) -> Iterator[Idle]:
    for state in market.network.states():
        if state.name.endswith(".node"):
            continue
        maps = Path(f"/proc/{state.pid}/maps").read_text()
        libraries = frozenset(name for name in ("torch", "numpy") if f"/{name}/" in maps)
        resident = psutil.Process(state.pid).memory_info().rss
        yield Idle(state.name, resident, libraries)


def accounted(order: MarketOrder) -> bool:
    """Tell whether every coin of the deposit is in one payment of the chain's list."""
    kinds = ("provider", "validator", "auditor", "protocol", "refund", "deposit_burn")
    return order.deposit == order.paid(*kinds) and order.on_chain.escrow.bonds == ()


def closed_event(market: MarketNetwork, order: MarketOrder) -> dict[str, str]:
    """Return the attributes of the event with which an order closed."""
    since = 1
    while events := market.client.query(EventsRequest(since, 1000)).events:
        for event in events:
            fields = dict(event.attributes)
            if event.type == "order.closed" and fields["order"] == order.id.hex():
                return fields
        since = events[-1].number + 1
    raise AssertionError("no such event")


def test_an_idle_daemon_is_small_and_has_not_loaded_torch(world: World) -> None:
    names = {idle.name for idle in world.idle}
    assert {"val0.validator", "val3.validator", "prov0", "prov3"} <= names
    assert not [idle.name for idle in world.idle if "torch" in idle.libraries]
    # A provider trains in a process of its own; a validator's daemon names the functions of its pool by import.
    assert not [i.name for i in world.idle if i.name.startswith("prov") and "numpy" in i.libraries]
    large = {i.name: i.resident >> 20 for i in world.idle if i.resident >= IDLE_BYTES_MAX}
    assert large == {}


@pytest.mark.nightly  # test_faults_matrix.py kills a process of each kind in some of the phases
def test_killed_in_the_middle_of_a_round_and_started_again(world: World) -> None:
    """Provider, validator's daemon and node die by SIGKILL, one after the other, and nothing is trained in vain."""
    market, network = world.market, world.market.network
    market.bid("val2", "d2")
    market.bid("val3", "d3")
    alone, pair = market.submit("d2"), market.submit("d3")
    (provider,) = market.members("val2")
    first, second = (member.name for member in market.members("val3"))

    # A provider while its worker trains.
    process = psutil.Process(next(s.pid for s in network.states() if s.name == provider.name))
    wait_until(process.children, "the provider's worker", SECONDS)
    network.kill(provider.name)
    assert market.look(alone).shares == ()  # it had handed nothing in
    network.start_one(provider.name)

    # A validator's daemon and one of its providers, when a share is committed and its round is open.
    def is_committed() -> bool:
        on_chain = market.look(pair)
        assert not on_chain.rounds, "the round was closed before anything could be killed"
        return any(share.state is ShareState.COMMITTED for share in on_chain.shares)

    wait_until(is_committed, "a committed share", SECONDS)
    network.kill("val3.validator")
    network.kill(first)
    assert market.look(pair).rounds == ()
    network.start_one("val3.validator")
    network.start_one(first)
    assert second in {state.name for state in network.states() if state.running}

    # The node, with both orders under way.
    pair.wait(lambda on_chain: on_chain.rounds, "a closed round", SECONDS)
    before = market.look(pair)
    assert before.order.state is OrderState.RUNNING
    height = market.client.status().height
    network.kill("val0.node")
    network.start_one("val0.node")
    network.wait_for_height(height + 1, ["val0"])

    for order in (alone, pair):
        on_chain = order.wait_closed(SECONDS)
        assert order.close_reason is CloseReason.SETTLED
        assert len(on_chain.legs) == 1
        # Every share that was ever given out was trained by whom it was given to, and accepted.
        assert {share.claim.issue for share in on_chain.shares} == {1}
        assert {share.state for share in on_chain.shares} == {ShareState.ACCEPTED}
        moniker = market.moniker_of(on_chain.legs[0].validator)
        assert {row.reason for row in market.verdicts(moniker, order.id)} == {0}
        assert accounted(order)
    result = fetch_result(market.client, market.key, pair.id, market.job, scratch(market))
    assert result.root == pair.on_chain.rounds[-1].next_root


def test_node_and_daemon_tell_metrics_and_health(world: World) -> None:
    """As Prometheus would read them, from processes as a local network starts them."""
    home = Path(world.market.network.layout.validator("val0").home)
    config = tomllib.loads((home / "config.toml").read_text())
    world.dead_end.wait_closed(SECONDS)
    node, daemon = (scrape(config[part]["metrics_port"]) for part in ("node", "validator"))
    assert node["assay_node_height",] > 0
    assert node["assay_node_orders", "closed"] > 0
    assert node["assay_node_mempool_checks_total", "new", "ok"] > 0
    # val0's daemon was killed before the orders came.
    assert daemon == {}
    config = tomllib.loads((home.with_name("val1") / "config.toml").read_text())
    told = scrape(config["validator"]["metrics_port"])
    assert told["assay_validator_node_up",] == 1
    assert told["assay_validator_stake_uassay",] > 0
    assert told["assay_validator_balance_uassay",] > 0
    assert told["assay_validator_txs_total", "arrived"] > 0
    assert told["assay_validator_providers", "admitted"] > 0
    assert told["assay_validator_jailed",] == 0
    for path in ("healthz", "readyz"):
        url = f"http://127.0.0.1:{config['validator']['metrics_port']}/{path}"
        assert requests.get(url, timeout=5).text == "ok\n"


def test_a_status_tells_whose_daemon_is_away(world: World) -> None:
    homes = [Path(world.market.network.layout.validator(name).home) for name in ("val0", "val1")]
    world.dead_end.wait_closed(SECONDS)
    away, well = (assay("status", "--output", "json", home=home) for home in homes)
    assert (away.code, well.code) == (Exit.NEEDS_CARE, Exit.DONE)
    assert [problem["code"] for problem in away.json["problems"]] == ["daemon_away"]
    told = well.json["validator"]
    assert told["answers"]
    assert told["stake"] > 0
    assert {"validator", "free"} <= well.json["disk"].keys()


def scrape(port: int) -> dict[tuple[str, ...], float]:
    """Return what a process tells, nothing where none listens."""
    try:
        return values(requests.get(f"http://127.0.0.1:{port}/metrics", timeout=5).content)
    except requests.ConnectionError:
        return {}


def test_nobody_matches(world: World) -> None:
    """An order ends by its time to live: the whole deposit is back, and the event says why nobody took it."""
    order = world.too_cheap
    on_chain = order.wait_closed(SECONDS)
    assert order.close_reason is CloseReason.EXPIRED
    assert on_chain.legs == ()
    assert order.paid("refund", to=on_chain.order.consumer) == order.deposit
    histogram = dict(on_chain.order.unmatched)
    assert histogram["price"] > 0
    assert "jailed" not in histogram
    event = closed_event(world.market, order)
    assert event["refunded"] == str(order.deposit)
    assert {name: int(event[name]) for name in histogram} == histogram


def test_a_payload_that_is_never_delivered(world: World) -> None:
    """The validator declines in time; nobody can prove who lied, so both burn the same small fee."""
    order = world.undelivered
    on_chain = order.wait_closed(SECONDS)
    (leg,) = on_chain.legs
    assert leg.end_reason == LegEnd.PAYLOAD_NOT_DELIVERED
    assert leg.validator == world.market.operator("val1")
    assert order.close_reason is CloseReason.EXPIRED
    assert on_chain.order.failures == 1
    fee = PARAMS.of(LegsParams).payload_fee
    assert fee > 0
    assert order.paid("deposit_burn") == order.paid("burn") == fee
    assert order.paid("refund", to=on_chain.order.consumer) == order.deposit - fee
    assert order.paid("bond_return", to=leg.validator) == leg.job_bond - fee
    assert accounted(order)


def test_a_winner_that_never_accepts_when_nobody_else_bids(world: World) -> None:
    order = world.dead_end
    on_chain = order.wait_closed(SECONDS)
    (leg,) = on_chain.legs
    assert leg.end_reason == LegEnd.NOT_ACCEPTED
    assert order.close_reason is CloseReason.EXPIRED
    assert order.paid("refund", to=on_chain.order.consumer) == order.deposit
    # What the order cost comes back, and no more.
    assert 0 < order.paid("compensation", to=on_chain.order.consumer) < 1_000
    assert order.paid("compensation", "burn") == leg.job_bond
    assert accounted(order)
    # Its bid is closed, and it is excluded: the histogram says that nothing is left for these conditions.
    assert dict(on_chain.order.unmatched).get("regions", 0) > 0
    assert on_chain.order.excluded == (world.market.operator("val0"),)


def test_a_winner_that_never_accepts_is_replaced(world: World) -> None:
    order, market = world.dead_winner, world.market
    on_chain = order.wait_closed(SECONDS)
    first, second = on_chain.legs
    assert (first.validator, first.end_reason) == (market.operator("val0"), LegEnd.NOT_ACCEPTED)
    assert second.validator == market.operator("val1")
    assert order.close_reason is CloseReason.SETTLED
    assert (on_chain.order.failures, on_chain.order.excluded) == (1, (first.validator,))
    assert 0 < order.paid("compensation", to=on_chain.order.consumer) < 1_000
    assert order.paid("compensation", "burn") == first.job_bond
    assert order.paid("bond_return", to=second.validator) == second.job_bond
    assert order.paid("provider", to=market.members("val1")[0].address) > 0
    assert accounted(order)
    world.dead_end.wait_closed(SECONDS)
    lost = sum(o.on_chain.legs[0].job_bond for o in (order, world.dead_end))
    assert world.free_bond("val0") == MARKET_BOND - lost
    assert world.validator("val0").legs_failed == 2


def scratch(market: MarketNetwork) -> Path:
    return market.layout.path / "scratch"
