"""The client: typed answers, typed errors with remedies, deadlines, and a node that goes away and comes back."""

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import grpc
import pytest

from chain.client.channel import RESPONSE_BYTES_MAX
from chain.client.client import ChainClient
from chain.client.errors import ChainError, ChainTimeout, ErrorKind, code_of
from domain.errors import NOT_FOUND, WRONG_SEQUENCE
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.market.queries import BidsRequest
from domain.node.queries import EventsRequest
from domain.params import local_params
from domain.registry.queries import ProvidersRequest, ValidatorsRequest
from tests.support.solo_node import (
    ALICE,
    BOB,
    CHAIN_ID,
    OPERATOR,
    RICH,
    SoloNode,
    running,
)
from wire.tx import build_unsigned_tx


def test_queries_answer_domain_values(client: ChainClient, node: SoloNode) -> None:
    status = client.status()
    assert (status.chain_id, status.height, status.solo) == (CHAIN_ID, 1, True)
    assert status.app_hash == node.app.view().head.app_hash
    assert client.params() == local_params()
    assert client.account(ALICE.address).balance == RICH
    (validator,) = client.query(ValidatorsRequest()).validators
    assert (validator.operator, validator.stake) == (OPERATOR.address, 10_000_000)
    assert client.query(ProvidersRequest("", 0, "")).providers == ()
    assert client.query(BidsRequest("", 0, b"")).bids == ()
    assert client.query(EventsRequest(1, 10)).next == status.next_event


def test_what_is_not_there_is_not_found_with_its_code(client: ChainClient) -> None:
    with pytest.raises(ChainError) as failed:
        client.order(bytes(32))
    assert (failed.value.kind, failed.value.code) == (ErrorKind.NOT_FOUND, NOT_FOUND)
    assert client.tx(bytes(32)) is None


def test_a_wrong_question_is_refused_with_the_field_named(client: ChainClient) -> None:
    with pytest.raises(ChainError, match="address") as failed:
        client.account("nobody")
    assert failed.value.kind is ErrorKind.REFUSED
    assert failed.value.code is not None
    assert failed.value.code.name == "invalid_address"


def test_simulate_tells_gas_or_why_not(client: ChainClient) -> None:
    good = MsgSend(ALICE.address, BOB.address, (Coin("uassay", 1),))
    assert client.simulate(build_unsigned_tx([good], ALICE.pub_key, sequence=0)) > 0
    much = MsgSend(ALICE.address, BOB.address, (Coin("uassay", 2 * RICH),))
    with pytest.raises(ChainError) as failed:
        client.simulate(build_unsigned_tx([much], ALICE.pub_key, sequence=0))
    assert failed.value.code is not None
    assert failed.value.code.name == "insufficient_funds"


def test_nobody_at_the_address_is_said_soon_and_with_a_remedy() -> None:
    with ChainClient("127.0.0.1:1", timeout=2.0) as client:
        started = time.monotonic()
        with pytest.raises(ChainError, match=r"no node answers at 127\.0\.0\.1:1; start it") as failed:
            client.status()
        assert failed.value.kind is ErrorKind.UNAVAILABLE
        assert time.monotonic() - started < 3


LATENCY = 0.4  # seconds each way: a poor link, or a node whose machine is busy


def relay(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            time.sleep(LATENCY)
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def test_a_node_behind_a_slow_link_is_there(node: SoloNode) -> None:
    host, port = node.address.split(":")
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection((host, int(port))) as far,
        ThreadPoolExecutor(2) as pool,
        ChainClient(f"127.0.0.1:{server.getsockname()[1]}") as client,
    ):
        asking = pool.submit(client.status)
        near, _ = server.accept()
        with near:
            back = pool.submit(relay, far, near)
            there = Thread(target=relay, args=(near, far))
            there.start()
            assert asking.result(30).chain_id == CHAIN_ID
            client.close()
            there.join(30)
            back.result(30)


def test_a_client_outlives_a_restart_of_its_node(tmp_path: Path) -> None:
    with running(tmp_path) as first:
        first.engine.make_block()
        address = first.address
        client = ChainClient(address)
        assert client.status().height == 1
    with pytest.raises(ChainError):
        client.status()
    with running(tmp_path, address) as second:
        second.engine.make_block()
        deadline = time.monotonic() + 10
        while True:
            try:
                assert client.status().height == 2
                break
            except ChainError as error:
                if error.kind is not ErrorKind.UNAVAILABLE or time.monotonic() > deadline:
                    raise
    client.close()


class Rude(grpc.GenericRpcHandler):
    """A server that is something else, or answers never, or refuses."""

    def __init__(self, answer: bytes | grpc.StatusCode | None) -> None:
        self.answer = answer
        self.released = Event()
        self.calls = 0

    def service(self, handler_call_details: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(self._handle)

    def _handle(self, request: bytes, context: Any) -> bytes:
        self.calls += 1
        if self.answer is None:
            self.released.wait(10)
            return b""
        if isinstance(self.answer, grpc.StatusCode):
            context.abort(self.answer, "no")
            return b""
        return self.answer


@pytest.fixture
def rude(request: pytest.FixtureRequest) -> Iterator[str]:
    handler = Rude(request.param)
    pool = ThreadPoolExecutor(2)
    server = grpc.server(pool, handlers=[handler], options=[("grpc.max_send_message_length", -1)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    handler.released.set()
    server.stop(None).wait()
    pool.shutdown()


@pytest.mark.parametrize("rude", [None], indirect=True)
def test_a_call_has_a_deadline(rude: str) -> None:
    with ChainClient(rude, timeout=0.3) as client:
        started = time.monotonic()
        with pytest.raises(ChainTimeout, match=r"within 0\.3 s"):
            client.status()
        assert time.monotonic() - started < 2


@pytest.mark.parametrize("rude", [b"\xff\xff\xff"], indirect=True)
def test_garbage_from_a_node_is_a_bad_response(rude: str) -> None:
    with ChainClient(rude) as client:
        for ask in (client.status, lambda: client.tx(bytes(32)), lambda: client.broadcast(b"x")):
            with pytest.raises(ChainError) as failed:
                ask()
            assert failed.value.kind is ErrorKind.BAD_RESPONSE
            assert failed.value.remedy


@pytest.mark.parametrize("rude", [grpc.StatusCode.CANCELLED, grpc.StatusCode.RESOURCE_EXHAUSTED], indirect=True)
def test_a_node_that_stops_or_is_busy_may_be_asked_again(rude: str) -> None:
    """Neither is the client's own closing, nor an answer."""
    with ChainClient(rude) as client, pytest.raises(ChainError) as failed:
        client.status()
    assert failed.value.kind is ErrorKind.UNAVAILABLE


@pytest.mark.parametrize("rude", [bytes(RESPONSE_BYTES_MAX + 1)], indirect=True, ids=["giant"])
def test_a_giant_answer_is_a_bad_response(rude: str) -> None:
    with ChainClient(rude) as client, pytest.raises(ChainError, match="too many bytes") as failed:
        client.status()
    assert failed.value.kind is ErrorKind.BAD_RESPONSE


def test_a_closed_client_says_so() -> None:
    client = ChainClient("127.0.0.1:1")
    client.close()
    with pytest.raises(ChainError, match="closed"):
        client.status()


def test_codes_have_their_names() -> None:
    assert code_of("sdk", 32) == WRONG_SEQUENCE
    assert code_of("assay", 999).name == "assay_999"


@pytest.mark.parametrize(
    ("ask", "times"),
    [(ChainClient.status, 3), (lambda client: client.broadcast(b"x"), 1)],
    ids=["query", "broadcast"],
)
def test_a_node_that_is_away_is_asked_three_times_and_a_broadcast_goes_out_once(
    ask: Callable[[ChainClient], object], times: int
) -> None:
    handler = Rude(grpc.StatusCode.UNAVAILABLE)
    pool = ThreadPoolExecutor(2)
    server = grpc.server(pool, handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with ChainClient(f"127.0.0.1:{port}") as client, pytest.raises(ChainError) as failed:
        ask(client)
    assert (failed.value.kind, handler.calls) == (ErrorKind.UNAVAILABLE, times)
    server.stop(None).wait()
    pool.shutdown()
