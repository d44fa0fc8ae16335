"""A whole node as a process, over a real CometBFT or solo: it makes blocks, and leaves no orphans."""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import requests
from cosmpy.protos.cosmos.bank.v1beta1.query_pb2 import QueryBalanceRequest, QueryBalanceResponse

from chain.app.comet import find_binary
from chain.app.comet_files import LOCAL_TIMING, Ports
from chain.app.comet_rpc import CometBroadcaster
from chain.app.genesis_file import NodeSpec, comet_home, init_network
from chain.app.node import default_socket_path, log_path, ready_path
from localnet.process import start_child, stop_child
from tests.support.small_chain import CHAIN_ID, COINS, genesis, key, transfer
from tests.support.waiting import is_running, wait_until

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0


def free_ports() -> Ports:
    """Return ports that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = Ports(*(one.getsockname()[1] for one in sockets))
    for one in sockets:
        one.close()
    return ports


class Node:
    """A node process and what it said when it was ready."""

    def __init__(self, home: Path, consensus: str) -> None:
        self.home = home
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.node_child", home, consensus],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, log_path(home).read_text()
        self.ready: dict[str, Any] = json.loads(line)

    def height(self) -> int:
        answer = requests.get(f"{self.ready['rpc']}/status", timeout=5).json()
        return int(answer["result"]["sync_info"]["latest_block_height"])

    def wait_for_height(self, height: int) -> None:
        def reached() -> bool:
            try:
                return self.height() >= height
            except requests.RequestException:
                return False

        wait_until(reached, f"height {height}", START_SECONDS)

    def wait_for_more_blocks(self) -> None:
        self.wait_for_height(1)
        self.wait_for_height(self.height() + 2)

    def balance(self, account: int) -> int:
        request = QueryBalanceRequest(address=key(account).address, denom="uassay")
        path = '"/cosmos.bank.v1beta1.Query/Balance"'
        data = "0x" + request.SerializeToString().hex()
        url = f"{self.ready['rpc']}/abci_query"
        answer = requests.get(url, params={"path": path, "data": data}, timeout=5).json()
        value = answer["result"]["response"]["value"]
        return int(QueryBalanceResponse.FromString(base64.b64decode(value)).balance.amount)

    def kill(self, pid: int, number: signal.Signals = signal.SIGKILL) -> None:
        assert pid == self.process.pid or pid == self.comet_pid()
        os.kill(pid, number)

    def comet_pid(self) -> int:
        """Return the id of CometBFT's present process."""
        return int(json.loads(ready_path(self.home).read_text())["comet_pid"])

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    small = genesis()
    operator = small.validators[0].operator
    spec = NodeSpec(tmp_path / "home", "only", operator, 5_000_000, free_ports())
    init_network(CHAIN_ID, [spec], small.accounts, small.params, timing=LOCAL_TIMING)
    return spec.home


@pytest.mark.network
def test_a_node_survives_every_kill_without_orphans(home: Path) -> None:
    node = Node(home, "managed")
    try:
        assert node.ready["chain_id"] == CHAIN_ID
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
        second = subprocess.run(
            [sys.executable, "-m", "tests.support.node_child", home, "solo"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=START_SECONDS,
        )
        assert second.returncode != 0
        assert "in use by another process: stop the node" in second.stderr
        assert ready_path(home).exists()  # the first one's
    finally:
        node.close()


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
