"""The unmodified cosmpy over gRPC and REST, and what explorers read, against four validators with CometBFT."""

import os
import signal
import socket
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
import requests
from cosmpy.aerial.client import LedgerClient, NetworkConfig
from cosmpy.aerial.exceptions import NotFoundError
from cosmpy.aerial.wallet import LocalWallet
from cosmpy.crypto.address import Address
from cosmpy.crypto.keypairs import PrivateKey
from cosmpy.protos.cosmos.tx.v1beta1 import service_pb2 as tx_service

from chain.app.comet_files import read_keys
from chain.app.homes import comet_home, write_node_table
from tests.support.node_process import STAKE, Node, make_home, make_homes
from tests.support.small_chain import CHAIN_ID, COINS, key
from tests.support.waiting import wait_until
from wire.address import operator_address

pytestmark = pytest.mark.network


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Return a node of four validators; people ask it."""
    homes = make_homes(tmp_path_factory.mktemp("wallets"), [STAKE] * 4)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    write_node_table(homes[0], {"rest_port": port})
    with ExitStack() as stack:
        nodes = [stack.enter_context(closing(Node(home, "managed"))) for home in homes]
        nodes[0].wait_for_height(3)
        yield nodes[0]


def get(node: Node, path: str, **params: str) -> Any:
    answer = requests.get(node.ready["rest"] + path, params=params, timeout=20)
    assert answer.status_code == 200, answer.text
    return answer.json()


def connect(node: Node, kind: str) -> LedgerClient:
    url = f"grpc+http://{node.ready['grpc']}" if kind == "grpc" else f"rest+{node.ready['rest']}"
    config = NetworkConfig(
        chain_id=CHAIN_ID,
        fee_minimum_gas_price=0.01,
        fee_denomination="uassay",
        staking_denomination="uassay",
        url=url,
    )
    return LedgerClient(config, query_interval_secs=1, query_timeout_secs=60)


@pytest.mark.parametrize("kind", ["grpc", "rest"])
def test_cosmpy_pays_and_reads(node: Node, kind: str) -> None:
    ledger = connect(node, kind)
    number = 1 if kind == "grpc" else 2
    wallet = LocalWallet(PrivateKey(key(number).secret), prefix="assay")
    receiver = Address(key(90 + number).address)
    assert ledger.query_bank_balance(wallet.address()) == COINS
    (coin,) = ledger.query_bank_all_balances(wallet.address())
    assert int(coin.amount) == COINS
    assert ledger.query_chain_id() == CHAIN_ID
    assert ledger.query_block(2).height == 2
    assert ledger.query_latest_block().height >= 3
    assert ledger.query_height() >= 3
    assert ledger.query_node_info() is not None
    assert ledger.query_consensus_params().params.block.max_gas > 0
    assert int(ledger.query_params("staking", "max_validators")) >= 4
    assert {validator.moniker for validator in ledger.query_validators()} == {"v0", "v1", "v2", "v3"}
    with pytest.raises(Exception, match="not found"):
        ledger.query_account(receiver)
    with pytest.raises(NotFoundError):
        ledger.query_tx("AB" * 32)
    sent = ledger.send_tokens(receiver, 5_000, "uassay", wallet)
    sent.wait_to_complete()
    assert sent.response is not None
    assert sent.response.is_successful()
    assert ledger.query_bank_balance(receiver) == 5_000
    assert ledger.query_account(wallet.address()).sequence == 1
    assert ledger.query_tx(sent.tx_hash).height == sent.response.height


@pytest.mark.parametrize("kind", ["grpc", "rest"])
def test_cosmpy_stakes(node: Node, kind: str) -> None:
    ledger = connect(node, kind)
    wallet = LocalWallet(PrivateKey(key(3 if kind == "grpc" else 0).secret), prefix="assay")
    ours, theirs = (Address(operator_address(key(10 + number).address)) for number in (2, 3))
    for send, *words in (
        (ledger.delegate_tokens, ours, 5_000_000),
        (ledger.redelegate_tokens, ours, theirs, 2_000_000),
        (ledger.undelegate_tokens, ours, 1_000_000),
        (ledger.claim_rewards, ours),
    ):
        done: Any = send(*words, wallet)
        assert done.wait_to_complete().response.is_successful()
    summary = ledger.query_staking_summary(wallet.address())
    held = {str(position.validator): position.amount for position in summary.current_positions}
    assert (held[str(ours)], held[str(theirs)]) == (2_000_000, 2_000_000)
    assert summary.total_unbonding == 1_000_000


def test_explorers_read_whole_blocks_and_validators(node: Node) -> None:
    block = get(node, "/cosmos/base/tendermint/v1beta1/blocks/2")
    rpc = requests.get(f"{node.ready['rpc']}/block?height=2", timeout=5).json()["result"]
    header, seen = block["block"]["header"], rpc["block"]["header"]
    for name in ("validators_hash", "app_hash", "last_commit_hash", "consensus_hash", "proposer_address"):
        assert _hex(header[name]) == seen[name]
    assert _hex(block["block_id"]["hash"]) == rpc["block_id"]["hash"]
    flags = [signature["block_id_flag"] for signature in block["block"]["last_commit"]["signatures"]]
    assert flags.count("BLOCK_ID_FLAG_COMMIT") >= 3
    latest = get(node, "/cosmos/base/tendermint/v1beta1/validatorsets/latest")["validators"]
    powers = {_hex(each["pub_key"]["key"]): int(each["voting_power"]) for each in latest}
    assert len(powers) == 4
    assert powers[read_keys(comet_home(node.home)).cons_key.hex().upper()] >= 5
    assert get(node, "/cosmos/base/tendermint/v1beta1/syncing") == {"syncing": False}
    about = get(node, "/cosmos/base/tendermint/v1beta1/node_info")["default_node_info"]
    assert (about["network"], about["moniker"]) == (CHAIN_ID, "v0")
    status = get(node, "/cosmos/base/node/v1beta1/status")
    assert int(status["height"]) >= int(status["earliest_store_height"])


def test_transactions_are_found_by_their_events(node: Node) -> None:
    found = get(node, "/cosmos/tx/v1beta1/txs", query=f"beacon.operator='{key(0).address}'", limit="2")
    assert (len(found["txs"]), len(found["tx_responses"])) == (2, 2)
    assert int(found["total"]) >= 2
    newest = get(node, "/cosmos/tx/v1beta1/txs", query=f"beacon.operator='{key(0).address}'", order_by="ORDER_BY_DESC")
    assert int(newest["tx_responses"][0]["height"]) > int(found["tx_responses"][0]["height"])
    with grpc.insecure_channel(node.ready["grpc"]) as channel:
        request = tx_service.GetTxsEventRequest(query="not a query")
        call: Any = channel.unary_unary("/cosmos.tx.v1beta1.Service/GetTxsEvent")
        with pytest.raises(grpc.RpcError) as failed:
            call(request.SerializeToString(), timeout=20)
    assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_gateway_that_is_killed_comes_back(node: Node) -> None:
    def workers() -> list[int]:
        children = psutil.Process(node.process.pid).children(recursive=True)
        return [child.pid for child in children if "chain.app.rest.worker" in " ".join(child.cmdline())]

    (first,) = workers()
    os.kill(first, signal.SIGKILL)

    def is_back() -> bool:
        try:
            return bool(get(node, "/assay/registry/v1/status")["chain_id"] == CHAIN_ID)
        except requests.RequestException:
            return False

    wait_until(is_back, "the gateway", 60.0)
    assert workers() != [first]


def test_the_gateway_ends_with_its_node(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    write_node_table(home, {"rest_port": port})
    node = Node(home, "solo")
    try:
        assert get(node, "/assay/registry/v1/status")["solo"] is True
        children = psutil.Process(node.process.pid).children(recursive=True)
        assert any("chain.app.rest" in " ".join(child.cmdline()) for child in children)
        node.process.kill()
        node.process.wait()
        _, alive = psutil.wait_procs(children, timeout=30)
        assert not alive
    finally:
        node.close()


def _hex(text: str) -> str:
    return b64decode(text).hex().upper()
