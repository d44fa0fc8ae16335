"""A whole node as a process, over a real CometBFT or solo: it makes blocks, and leaves no orphans."""

import json
import shutil
import signal
import socket
import subprocess
import sys
from base64 import b64decode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import requests
from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import AuthInfo, TxBody, TxRaw

from chain.app.application import AppConfig, Application
from chain.app.comet import find_binary
from chain.app.comet_files import read_addresses, read_keys
from chain.app.comet_rpc import CometBroadcaster, CometView
from chain.app.homes import comet_home, genesis_path, read_node_table
from chain.app.node import default_socket_path, log_path, ready_path
from chain.app.storage import Maker, Storage, export_state
from host.process import start_child, stop_child
from tests.support.node_process import ROOT, START_SECONDS, Node, make_home
from tests.support.small_chain import (
    CHAIN_ID,
    COINS,
    GENESIS_TIME_NS,
    cons_address,
    genesis,
    key,
    transfer,
)
from tests.support.waiting import is_running, wait_until


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path)


@pytest.mark.network
def test_a_node_survives_every_kill_without_orphans(home: Path) -> None:
    node = Node(home, "managed")
    try:
        assert node.ready["chain_id"] == CHAIN_ID
        assert node.height() >= 0, "the RPC of a node that is ready answers"
        assert CometView(node.ready["rpc"]).node_id() == read_keys(comet_home(home)).node_id
        node.wait_for_height(2)
        sent = CometBroadcaster(node.ready["rpc"]).broadcast_sync(transfer(1, 0, 2, 100))
        assert (sent.code, sent.log) == (0, "")
        wait_until(lambda: node.balance(2) == COINS + 100, "the transfer")

        # CometBFT is killed: it comes back by itself and the chain goes on.
        first = node.comet_pid()
        node.kill(first)
        wait_until(lambda: node.comet_pid() != first, "a new CometBFT", START_SECONDS)
        assert not is_running(first)
        node.wait_for_more_blocks()
        assert node.process.poll() is None

        # The node is killed: CometBFT goes with it, and a new node goes on from the same state.
        second, height = node.comet_pid(), node.height()
        node.kill(node.process.pid)
        wait_until(lambda: not is_running(second), "the end of CometBFT")
        node.close()
        node = Node(home, "managed")
        assert is_running(node.ready["comet_pid"]), "and its CometBFT is one"
        assert node.height() >= 0
        node.wait_for_height(height + 2)
        assert node.balance(2) == COINS + 100

        # Both end in order when asked.
        third = node.comet_pid()
        node.kill(node.process.pid, signal.SIGTERM)
        assert node.process.wait(START_SECONDS) == 0
        assert not is_running(third)
        assert not ready_path(home).exists()
        assert not Path(node.ready["socket"]).exists()
    finally:
        node.close()
    _a_copy_of_the_stopped_home_goes_on_though_its_state_is_lost(home)


def _a_copy_of_the_stopped_home_goes_on_though_its_state_is_lost(home: Path) -> None:
    """As docs/operate/backup.md restores a home, and upkeep.md has a damaged state replayed from the blocks."""
    before = export_state(home)
    signed = signed_last(home)
    assert signed >= before["height"]
    archive = home.with_name("home.tar.gz")
    subprocess.run(["tar", "-C", home, "-czf", archive, "."], check=True)
    restored = home.with_name("restored")
    restored.mkdir()
    subprocess.run(["tar", "-C", restored, "-xpzf", archive], check=True)
    shutil.rmtree(comet_home(restored) / "data" / "assay.db")
    node = Node(restored, "managed")
    try:
        # CometBFT ends where the state of its blocks is another one than what was signed.
        node.wait_for_height(before["height"] + 2)
        assert node.balance(2) == COINS + 100
        parameters = {"height": str(before["height"] + 1)}
        answer = requests.get(f"{node.ready['rpc']}/block", params=parameters, timeout=5).json()
        header = answer["result"]["block"]["header"]
        assert header["app_hash"].lower() == before["app_hash"]
        assert signed_last(restored) > signed, "it goes on after what it has signed"
    finally:
        node.close()


def signed_last(home: Path) -> int:
    """Return the height that the validator has signed last."""
    path = comet_home(home) / "data" / "priv_validator_state.json"
    return int(json.loads(path.read_text())["height"])


@pytest.mark.network
def test_anybody_reads_blocks_with_their_reveals_from_cometbft(home: Path) -> None:
    """Every block of a real CometBFT begins with one, which its RPC and its index treat as any transaction."""
    node = Node(home, "managed")

    def ask(method: str, **params: str) -> Any:
        answer = requests.get(f"{node.ready['rpc']}/{method}", params=params, timeout=5)
        return answer.json()["result"]

    try:
        node.wait_for_height(4)
        for height in ("1", "2", "3"):
            raw = b64decode(ask("block", height=height)["block"]["data"]["txs"][0])
            raw_tx = TxRaw.FromString(raw)
            assert list(raw_tx.signatures) == []
            (message,) = TxBody.FromString(raw_tx.body_bytes).messages
            assert message.type_url == "/assay.registry.v1.MsgReveal"
            assert AuthInfo.FromString(raw_tx.auth_info_bytes).fee.gas_limit == 0
            result, *_ = ask("block_results", height=height)["txs_results"]
            assert result["code"] == 0
            found = ask("tx", hash="0x" + sha256(raw).hexdigest())
            assert (found["height"], found["index"]) == (height, 0)
        query = f"\"beacon.operator='{key(0).address}' AND tx.height<=3\""
        assert int(ask("tx_search", query=query)["total_count"]) == 3
    finally:
        node.close()


def test_a_solo_node_makes_blocks_until_it_is_told_to_stop(home: Path) -> None:
    import grpc
    from cosmpy.protos.cosmos.base.tendermint.v1beta1.query_pb2 import (
        GetLatestBlockRequest,
        GetLatestBlockResponse,
    )

    node = Node(home, "solo")
    try:
        assert (node.ready["comet_pid"], node.ready["rpc"]) == (0, "")
        with grpc.insecure_channel(node.ready["grpc"]) as channel:
            latest = channel.unary_unary(
                "/cosmos.base.tendermint.v1beta1.Service/GetLatestBlock",
                request_serializer=GetLatestBlockRequest.SerializeToString,
                response_deserializer=GetLatestBlockResponse.FromString,
            )

            def height() -> int:
                answer = latest(GetLatestBlockRequest(), timeout=5)
                return int(answer.sdk_block.header.height or answer.block.header.height)

            wait_until(lambda: height() >= 3, "three blocks", START_SECONDS)
        node.process.send_signal(signal.SIGINT)
        assert node.process.wait(START_SECONDS) == 0
        lines = [json.loads(line) for line in log_path(home).read_text().splitlines()]
        assert any("for development" in line["message"] for line in lines)
        assert not ready_path(home).exists()
    finally:
        node.close()


def test_a_home_in_use_is_one_sentence(home: Path) -> None:
    node = Node(home, "solo")
    try:
        assert "in use by another process; stop the node" in refused_start(home, "solo")
        assert ready_path(home).exists()  # the first one's
    finally:
        node.close()


@pytest.mark.parametrize(
    ("maker", "consensus", "remedy"),
    [
        (Maker.SOLO, "managed", "start the node with --solo"),
        (Maker.SOLO, "external", "start the node with --solo"),
        (Maker.COMETBFT, "solo", "start the node without --solo"),
    ],
)
def test_blocks_of_solo_and_of_cometbft_do_not_mix(home: Path, maker: Maker, consensus: str, remedy: str) -> None:
    app_hash = make_a_block(home, maker)
    assert remedy in refused_start(home, consensus)
    assert not ready_path(home).exists()
    assert export_state(home)["app_hash"] == app_hash.hex()


@pytest.mark.network
def test_a_cometbft_of_somebody_else_may_drive_the_node(home: Path) -> None:
    """``--cometbft external``: the node only waits on its socket."""
    comet = start_child(
        [
            *(find_binary(), "start", "--home", comet_home(home)),
            *("--proxy_app", f"unix://{default_socket_path(home)}"),
        ],
        log_path=home / "external.log",
    )
    node = None
    try:
        node = Node(home, "external")
        assert node.ready["comet_pid"] == 0
        node.wait_for_height(2)
        node.kill(node.process.pid, signal.SIGTERM)
        assert node.process.wait(START_SECONDS) == 0
    finally:
        stop_child(comet)
        if node is not None:
            node.close()


def test_an_address_in_use_is_one_sentence(home: Path) -> None:
    port = int(read_node_table(home)["grpc_port"])
    with socket.create_server(("127.0.0.1", port)):
        said = refused_start(home, "solo")
    assert f"HomeError: port {port} on 127.0.0.1, for gRPC, is taken by another program" in said
    assert f"change node.grpc_port (with node_address) in {home / 'config.toml'}" in said


@pytest.mark.parametrize(("name", "setting"), [("rpc", "node.rpc_port in"), ("p2p", "p2p.laddr in")])
def test_a_port_of_cometbft_in_use_is_one_sentence(home: Path, name: str, setting: str) -> None:
    """And it is said before anything is up."""
    with socket.create_server(read_addresses(comet_home(home))[name]):
        said = refused_start(home, "managed")
    assert f"for CometBFT's {name}, is taken by another program" in said
    assert f"or change {setting}" in said


@pytest.mark.parametrize("name", ["config/priv_validator_key.json", "data/priv_validator_state.json"])
def test_a_home_without_what_it_votes_with_is_one_sentence(home: Path, name: str) -> None:
    """CometBFT would make a key of its own, and validate no more."""
    path = comet_home(home) / name
    path.unlink()
    assert f"HomeError: {path} is missing" in refused_start(home, "managed")
    assert not path.exists()


def test_a_genesis_that_starts_no_chain_is_one_sentence(home: Path) -> None:
    change_genesis(home, lambda state: state["accounts"][0].update(address="assay1nobody"))
    assert "HomeError: no chain can start from" in (said := refused_start(home, "solo"))
    assert "accounts[0].address: is not a valid address" in said


def test_a_genesis_of_another_chain_than_the_store_is_one_sentence(home: Path) -> None:
    make_a_block(home, Maker.SOLO)
    change_genesis(home, lambda state: state.update(chain_id="another"))
    said = refused_start(home, "solo")
    assert f"is for chain another, but the node's store has chain {CHAIN_ID}" in said


def make_a_block(home: Path, maker: Maker) -> bytes:
    """Write the first block of the home's store and return its app hash."""
    storage = Storage(comet_home(home) / "data" / "assay.db")
    storage.claim(maker)
    app = Application(storage, AppConfig())
    app.init_chain(genesis(), GENESIS_TIME_NS)
    app.finalize_block(1, GENESIS_TIME_NS + 1, b"h" * 32, cons_address(0), ())
    app_hash = app.commit().block.app_hash
    storage.close()
    return app_hash


def change_genesis(home: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = genesis_path(home)
    document = json.loads(path.read_bytes())
    change(document["app_state"])
    document["chain_id"] = document["app_state"]["chain_id"]
    path.write_text(json.dumps(document))


def refused_start(home: Path, consensus: str) -> str:
    """Start a node that cannot start, and waits a second for ports that are taken; return what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.node_child", home, consensus, "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=START_SECONDS,
    )
    assert done.returncode != 0
    return done.stderr
