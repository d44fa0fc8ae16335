"""The gRPC server as a stranger meets it: unknown paths, garbage, too much, bugs, health; and the ABCI route."""

import logging
from collections.abc import Iterator
from threading import Event
from typing import Any

import grpc
import pytest
from cosmpy.protos.cosmos.auth.v1beta1 import query_pb2 as auth
from cosmpy.protos.cosmos.bank.v1beta1 import query_pb2 as bank
from cosmpy.protos.cosmos.base.abci.v1beta1.abci_pb2 import TxMsgData
from cosmpy.protos.cosmos.base.tendermint.v1beta1 import query_pb2 as base
from cosmpy.protos.cosmos.tx.v1beta1 import service_pb2 as service

from chain.app import grpc_server
from chain.app.abci_query import AbciQueries
from chain.app.application import AppConfig, Application
from chain.app.grpc_server import GrpcServer
from chain.app.interfaces import UNREACHABLE
from chain.app.services.table import METHODS as SERVICES
from chain.app.services.table import Services
from chain.app.storage import Storage
from chain.client.client import ChainClient
from chain.client.errors import ChainError, ErrorKind
from domain.block import BroadcastResult
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.node.queries import ParamsRequest
from domain.params import local_params, read_params
from tests.support.solo_node import ALICE, BOB, CHAIN_ID, RICH, STRANGER, SoloNode
from wire.queries import METHODS, decode_response, encode_request, method_of
from wire.tx import build_tx, build_unsigned_tx, tx_proto

SEND = MsgSend(ALICE.address, BOB.address, (Coin("uassay", 7),))
ACCOUNT = "/cosmos.auth.v1beta1.Query/Account"
TX = "/cosmos.tx.v1beta1.Service/"


@pytest.fixture
def channel(node: SoloNode) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(node.address) as open_channel:
        yield open_channel


def call(channel: grpc.Channel, path: str, data: bytes) -> bytes:
    method: Any = channel.unary_unary(path)
    answer: bytes = method(data, timeout=10)
    return answer


def failure(channel: grpc.Channel, path: str, data: bytes) -> Any:
    with pytest.raises(grpc.RpcError) as failed:
        call(channel, path, data)
    return failed.value


def unary_paths(*, sends: bool = True) -> list[str]:
    return [path for path, method in SERVICES.items() if not method.is_stream and (sends or not method.sends)]


def transfer(sequence: int = 0, timeout_height: int = 0) -> bytes:
    return build_tx(
        [SEND],
        ALICE,
        chain_id=CHAIN_ID,
        account_number=0,
        sequence=sequence,
        fee=(Coin("uassay", 2_000),),
        gas_limit=200_000,
        timeout_height=timeout_height,
    )


def test_health(channel: grpc.Channel) -> None:
    assert call(channel, "/grpc.health.v1.Health/Check", b"") == b"\x08\x01"


@pytest.mark.parametrize("path", ["/x.Y/Z", "/cosmos.nft.v1beta1.Query/NFTs", "/", ACCOUNT + "x"])
def test_unknown_paths_are_unimplemented(channel: grpc.Channel, path: str) -> None:
    assert failure(channel, path, b"").code() is grpc.StatusCode.UNIMPLEMENTED


def test_garbage_is_an_invalid_argument_on_every_path(channel: grpc.Channel, node: SoloNode) -> None:
    for path in unary_paths():
        error = failure(channel, path, b"\xff\xff\xff\xff")
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT, path
        assert "request" in error.details()


def test_a_request_that_is_too_large_is_refused(channel: grpc.Channel) -> None:
    error = failure(channel, TX + "BroadcastTx", bytes(grpc_server.REQUEST_BYTES_MAX + 1))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_calls_whose_request_never_comes_do_not_hold_the_threads_for_ever(node: SoloNode) -> None:
    server = GrpcServer(Services(node.app), "127.0.0.1:0", connection_seconds_max=0.3)
    server.start()
    over = Event()

    def request_that_never_comes() -> Iterator[bytes]:
        over.wait()
        yield from ()

    path = "/grpc.health.v1.Health/Check"
    with grpc.insecure_channel(server.address) as slow:
        method: Any = slow.stream_unary(path)
        stuck = [method.future(request_that_never_comes()) for _ in range(grpc_server.THREADS)]
        try:
            for one in stuck:
                assert one.exception(10).code() is grpc.StatusCode.UNAVAILABLE
        finally:
            over.set()
    with grpc.insecure_channel(server.address) as quick:
        assert call(quick, path, b"") == b"\x08\x01"
    server.close()


def test_a_node_without_a_state_says_that_it_waits() -> None:
    storage = Storage.temporary()
    app = Application(storage, AppConfig())
    server = GrpcServer(Services(app), "127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(server.address) as channel:
        for path in unary_paths(sends=False):
            error = failure(channel, path, b"")
            assert error.code() is grpc.StatusCode.UNAVAILABLE, path
            assert "waits for CometBFT" in error.details()
    server.close()
    storage.close()


def test_a_refusal_travels_with_its_code(channel: grpc.Channel) -> None:
    request = auth.QueryAccountRequest(address=STRANGER.address).SerializeToString()
    error = failure(channel, ACCOUNT, request)
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert f"{STRANGER.address} not found" in error.details()
    assert dict(error.trailing_metadata()) == {"assay-codespace": "assay", "assay-code": "2"}
    request = auth.QueryAccountRequest(address="cosmos1abc").SerializeToString()
    assert failure(channel, ACCOUNT, request).code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_bug_is_internal_and_shows_nothing_of_itself(
    node: SoloNode,
    channel: grpc.Channel,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a secret of the house")

    monkeypatch.setattr(type(node.app), "block", broken)
    path = "/cosmos.base.tendermint.v1beta1.Service/GetBlockByHeight"
    with caplog.at_level(logging.ERROR):
        error = failure(channel, path, base.GetBlockByHeightRequest(height=1).SerializeToString())
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in error.details()
    assert "a secret of the house" in caplog.text
    assert call(channel, "/grpc.health.v1.Health/Check", b"") == b"\x08\x01"


def test_a_port_that_is_taken_is_an_error_with_a_remedy(node: SoloNode) -> None:
    with pytest.raises(OSError, match="choose another"):
        grpc_server.GrpcServer(Services(node.app, node.engine), node.address)


def test_our_queries_refuse_unknown_fields(channel: grpc.Channel) -> None:
    for path in METHODS:
        error = failure(channel, path, b"\xf8\x07\x01")
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "unknown field 127" in error.details()


def test_params_over_the_wire_are_those_of_genesis(channel: grpc.Channel) -> None:
    request = ParamsRequest()
    method = method_of(request)
    data = call(channel, method.path, encode_request(request))
    response: Any = decode_response(method, data)
    assert read_params(response) == local_params()


def simulate(channel: grpc.Channel, request: Any) -> Any:
    data = call(channel, TX + "Simulate", request.SerializeToString())
    return service.SimulateResponse.FromString(data)


def test_simulation_of_bytes_and_of_the_old_message_agree(channel: grpc.Channel) -> None:
    unsigned = build_unsigned_tx([SEND], ALICE.pub_key, sequence=0)
    by_bytes = simulate(channel, service.SimulateRequest(tx_bytes=unsigned))
    by_message = simulate(channel, service.SimulateRequest(tx=tx_proto(unsigned)))
    assert by_bytes.gas_info.gas_used > 0
    assert by_bytes == by_message
    answers = TxMsgData.FromString(by_bytes.result.data).msg_responses
    assert [answer.type_url for answer in answers] == ["/cosmos.bank.v1beta1.MsgSendResponse"]


@pytest.mark.parametrize("request_", [service.SimulateRequest(), service.SimulateRequest(tx={})])
def test_a_simulation_of_nothing_is_refused(channel: grpc.Channel, request_: Any) -> None:
    error = failure(channel, TX + "Simulate", request_.SerializeToString())
    assert error.code() is not grpc.StatusCode.INTERNAL
    assert "assay-code" in dict(error.trailing_metadata())


def test_a_simulation_changes_nothing(channel: grpc.Channel, node: SoloNode) -> None:
    before = node.app.view().head.app_hash
    for _ in range(2):
        simulate(channel, service.SimulateRequest(tx_bytes=transfer()))
    balance = bank.QueryBalanceRequest(address=BOB.address, denom="uassay")
    data = call(channel, "/cosmos.bank.v1beta1.Query/Balance", balance.SerializeToString())
    assert bank.QueryBalanceResponse.FromString(data).balance.amount == str(RICH)
    assert node.app.view().head.app_hash == before


def broadcast(channel: grpc.Channel, raw: bytes, mode: int = 2) -> Any:
    request = service.BroadcastTxRequest(tx_bytes=raw, mode=mode)
    data = call(channel, TX + "BroadcastTx", request.SerializeToString())
    return service.BroadcastTxResponse.FromString(data).tx_response


def test_a_transaction_is_taken_once_and_found_in_its_block(channel: grpc.Channel, node: SoloNode) -> None:
    taken = broadcast(channel, transfer())
    assert taken.code == 0
    assert (broadcast(channel, transfer()).code, taken.codespace) == (19, "")
    get = service.GetTxRequest(hash=taken.txhash).SerializeToString()
    assert failure(channel, TX + "GetTx", get).code() is grpc.StatusCode.NOT_FOUND
    node.engine.make_block()
    found = service.GetTxResponse.FromString(call(channel, TX + "GetTx", get))
    assert (found.tx_response.height, found.tx_response.code) == (2, 0)
    assert found.tx_response.txhash == taken.txhash
    assert found.tx.body.messages[0].type_url == "/cosmos.bank.v1beta1.MsgSend"
    assert found.tx_response.tx.type_url == "/cosmos.tx.v1beta1.Tx"
    data = TxMsgData.FromString(bytes.fromhex(found.tx_response.data))
    assert [a.type_url for a in data.msg_responses] == ["/cosmos.bank.v1beta1.MsgSendResponse"]
    assert found.tx_response.timestamp.endswith("Z")


@pytest.mark.parametrize("raw", [b"", b"\x00", b"not a transaction", bytes(257 * 1024)])
def test_what_is_no_transaction_gets_a_code_or_a_status(channel: grpc.Channel, raw: bytes) -> None:
    if len(raw) > 256 * 1024:
        request = service.BroadcastTxRequest(tx_bytes=raw, mode=service.BROADCAST_MODE_SYNC)
        error = failure(channel, TX + "BroadcastTx", request.SerializeToString())
        assert dict(error.trailing_metadata())["assay-code"] == "21"
    else:
        refused = broadcast(channel, raw)
        assert (refused.code, refused.codespace) == (2, "sdk")
        assert "tx" in refused.raw_log


class Unreachable:
    """A broadcaster whose CometBFT is away."""

    def broadcast_sync(self, raw: bytes) -> BroadcastResult:
        return BroadcastResult(bytes(32), UNREACHABLE.number, UNREACHABLE.space, "it is away")


def test_a_mempool_that_does_not_answer_is_unavailable_and_no_refusal(node: SoloNode) -> None:
    server = grpc_server.GrpcServer(Services(node.app, Unreachable()), "127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(server.address) as channel:
        request = service.BroadcastTxRequest(tx_bytes=transfer(), mode=service.BROADCAST_MODE_SYNC)
        error = failure(channel, TX + "BroadcastTx", request.SerializeToString())
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    with (
        ChainClient(server.address) as client,
        pytest.raises(ChainError, match="it is away") as failed,
    ):
        client.broadcast(transfer())
    assert failed.value.kind is ErrorKind.UNAVAILABLE
    server.close(0)


def test_block_mode_is_refused(channel: grpc.Channel) -> None:
    request = service.BroadcastTxRequest(tx_bytes=transfer(), mode=service.BROADCAST_MODE_BLOCK)
    assert "BLOCK is not supported" in failure(channel, TX + "BroadcastTx", request.SerializeToString()).details()


@pytest.mark.parametrize("text", ["", "zz", "AB", "AB" * 33, "  " + "AB" * 31])
def test_what_is_no_hash_is_refused(channel: grpc.Channel, text: str) -> None:
    error = failure(channel, TX + "GetTx", service.GetTxRequest(hash=text).SerializeToString())
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_blocks_that_are_not_there_are_not_found(channel: grpc.Channel) -> None:
    path = "/cosmos.base.tendermint.v1beta1.Service/GetBlockByHeight"
    for height in (-1, 0, 2, 2**62):
        request = base.GetBlockByHeightRequest(height=height).SerializeToString()
        assert failure(channel, path, request).code() is grpc.StatusCode.NOT_FOUND


def test_the_abci_query_reads_the_same_table_but_cannot_send(node: SoloNode) -> None:
    query = AbciQueries(node.app, Services(node.app).call)
    request = auth.QueryAccountRequest(address=ALICE.address).SerializeToString()
    answer = query(ACCOUNT, request, 0, False)
    assert (answer.code, answer.height) == (0, 1)
    assert auth.QueryAccountResponse.FromString(answer.value).account.type_url.endswith("Account")
    absent = auth.QueryAccountRequest(address=STRANGER.address).SerializeToString()
    assert "rpc error: code = NotFound" in query(ACCOUNT, absent, 0, False).log
    unknown = query("/x.Y/Z", b"", 0, False)
    assert (unknown.code, unknown.codespace) == (6, "sdk")
    assert "is unknown; use the path of a gRPC method" in unknown.log
    assert query(TX + "BroadcastTx", b"", 0, False).code == 6
    garbage = query(ACCOUNT, b"\xff", 0, False)
    assert (garbage.code, garbage.codespace) == (2, "sdk")
