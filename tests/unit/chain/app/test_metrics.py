"""The metrics of a node: read beside the state machine, from what it has committed and what CometBFT says."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from chain.app.application import AppConfig, Application
from chain.app.beacon_keys import BeaconKeys
from chain.app.comet_rpc import CometStanding, CometView, Votes
from chain.app.metrics import METRICS, BlockMetrics, NodeLook, count_keys
from chain.app.solo import SoloEngine
from chain.app.storage import Storage
from chain.state_machine.ledger.invariants import check_conservation
from chain.state_machine.store import Overlay
from domain.market.records import OrderState
from host.metrics import Meters
from tests.support.scraped import values
from tests.support.small_chain import GENESIS_TIME_NS, beacon_key, genesis, transfer
from tests.support.waiting import wait_until

SECOND = 10**9
STATUS = {
    "node_info": {"id": "ab" * 20},
    "sync_info": {
        "latest_block_height": "7",
        "latest_block_time": "2026-01-02T03:04:05.5Z",
        "catching_up": True,
    },
}
VOTES = [
    {
        "round": 0,
        "prevotes_bit_array": "BA{3:xxx} 40/40 = 1.00",
        "precommits_bit_array": "BA{3:_xx} 30/40 = 0.75",
    },
    {
        "round": 1,
        "prevotes_bit_array": "BA{3:xx_} 20/40 = 0.50",
        "precommits_bit_array": "BA{3:x__} 10/40 = 0.25",
    },
    {
        "round": 2,
        "prevotes_bit_array": "BA{3:___} 0/40 = 0.00",
        "precommits_bit_array": "BA{3:___} 0/40 = 0.00",
    },
]
ANSWERS: dict[str, Any] = {
    "status": STATUS,
    "net_info": {"peers": [{"node_info": {"moniker": name}} for name in ("val2", "val0", "val1")]},
    "num_unconfirmed_txs": {"n_txs": "2", "total_bytes": "640"},
    "consensus_state": {"round_state": {"height/round/step": "8/1/4", "height_vote_set": VOTES}},
    "validators": {"validators": [{"address": f"{each:040x}"} for each in range(3)]},
}


class Node:
    def __init__(self, directory: Path) -> None:
        self.meters = Meters(METRICS)
        self.storage = Storage(directory / "db")
        self.app = Application(
            self.storage,
            AppConfig(solo=True),
            beacon_keys=BeaconKeys([beacon_key(0)]),
            watcher=BlockMetrics(self.meters),
        )
        self.engine = SoloEngine(self.app, genesis(), genesis_time_ns=GENESIS_TIME_NS)

    def block(self, seconds: float = 1.0) -> None:
        now = self.app.head.block.time_ns + int(seconds * SECOND)
        self.engine.make_block(time_ns=now)

    def values(self) -> dict[tuple[str, ...], float]:
        return values(self.meters.text())


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.storage.close()


@contextmanager
def comet(answers: dict[str, Any]) -> Iterator[str]:
    """Answer as CometBFT's RPC does; what is not among the answers fails."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path.strip("/").partition("?")[0])
            body = json.dumps({"result": found} if found else {"error": {"code": -1}}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_blocks_transactions_and_coins_are_told(node: Node) -> None:
    NodeLook(node.meters, node.app, node.storage, None, lambda: node.engine.waiting)
    node.block()
    keys = {count_keys(node.app.committed())}
    good, bad = transfer(1, 0, 2, 5), transfer(1, 5, 2, 5)
    node.engine.broadcast_sync(good)
    node.engine.broadcast_sync(bad)
    assert node.values()["assay_node_mempool_txs",] == 1
    for _ in range(2):
        node.block(2.5)
        keys.add(count_keys(node.app.committed()))
    found = node.values()
    assert found["assay_node_height",] == 3
    assert found["assay_node_block_interval_seconds_count",] == 2
    assert found["assay_node_block_interval_seconds_sum",] == 5
    assert found["assay_node_mempool_checks_total", "new", "ok"] == 1
    refused = {name: n for name, n in found.items() if name[0].endswith("checks_total")}
    assert sum(refused.values()) == 2
    # What each block begins with counts, too.
    assert found["assay_node_txs_total", "ok"] == 1 + 3
    assert found["assay_node_mempool_txs",] == 0
    state = Overlay(node.app.view().reader)
    check_conservation(state)
    pots = [value for name, value in found.items() if name[0] == "assay_node_supply_uassay"]
    assert sum(pots) == 4 * 10**15 + 5_000_000
    assert found["assay_node_validators", "active"] == 1
    assert found["assay_node_validators", "consensus_jailed"] == 0
    assert found["assay_node_block_age_seconds",] > 0
    assert found["assay_node_disk_free_bytes",] > 0
    assert {name[1] for name in found if name[0] == "assay_node_database_bytes"} == {
        "state",
        "tree",
        "blocks",
        "txs",
        "events",
    }
    assert all(found["assay_node_orders", state.name.lower()] == 0 for state in OrderState)
    wait_until(
        lambda: node.values()["assay_node_state_keys",] in keys,
        "the count of keys",
        5.0,
    )


def test_a_block_that_came_before_the_node_is_no_interval(node: Node) -> None:
    """The time since genesis says nothing about how fast blocks come."""
    node.block(10_000_000)
    assert node.values()["assay_node_block_interval_seconds_count",] == 0


def test_what_cometbft_says_is_told(node: Node) -> None:
    node.block()
    with comet(ANSWERS) as url:
        view = CometView(url)
        assert view.standing() == CometStanding(
            "ab" * 20, 7, 1_767_323_045_500_000_000, True, ("val0", "val1", "val2"), 2, 640
        )
        assert view.votes() == Votes(Fraction(1, 2), ((2).to_bytes(20, "big"),))
        look = NodeLook(node.meters, node.app, node.storage, view)
        found = node.values()
        assert found["assay_node_peers",] == 3
        assert found["assay_node_catching_up",] == 1
        assert found["assay_node_mempool_txs",] == 2
        assert found["assay_node_mempool_bytes",] == 640
        assert found["assay_node_comet_up",] == 1
        assert look.readiness() == ["the node is catching up with the chain"]
        assert look.health() == []
    assert node.values()["assay_node_comet_up",] == 0
    assert look.readiness() == ["CometBFT does not answer"]


@pytest.mark.parametrize(
    ("at", "power", "absent"),
    [
        # Prevotes of two thirds, and then somebody stopped.
        ("8/1/6", (1, 4), (1, 2)),
        ("8/1/4", (1, 2), (2,)),
        # Nobody has voted in it yet.
        ("8/1/3", (3, 4), (0,)),
        ("8/0/3", (1, 1), ()),
        ("8/0/7", (3, 4), (0,)),
    ],
)
def test_the_votes_are_those_that_are_waited_for(at: str, power: tuple[int, int], absent: tuple[int, ...]) -> None:
    state = {"height/round/step": at, "height_vote_set": VOTES}
    with comet({**ANSWERS, "consensus_state": {"round_state": state}}) as url:
        found = CometView(url).votes()
    assert found == Votes(Fraction(*power), tuple(each.to_bytes(20, "big") for each in absent))


def test_a_cometbft_that_is_silent_for_long_makes_the_node_ill(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chain.app.metrics.SILENT_SECONDS", 0.0)
    with comet({}) as url:
        look = NodeLook(node.meters, node.app, node.storage, CometView(url))
        assert [text.partition(" for ")[0] for text in look.health()] == ["CometBFT has not answered"]
        assert CometView(url).standing() is None
        assert CometView(url).votes() is None
