"""A whole node as a process, over a real CometBFT or solo: it makes blocks, and leaves no orphans."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chain.app.comet import find_binary
from chain.app.comet_rpc import CometBroadcaster
from chain.app.genesis_file import comet_home
from chain.app.node import default_socket_path, log_path, ready_path
from localnet.process import start_child, stop_child
from tests.support.node_process import ROOT, START_SECONDS, Node, make_home
from tests.support.small_chain import CHAIN_ID, COINS, transfer
from tests.support.waiting import is_running, wait_until


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path)


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
