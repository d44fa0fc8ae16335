"""The daemon and its node: it waits for one that is not there, and goes on when one comes back."""

import logging
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from chain.app.application import AppConfig, Application
from chain.app.grpc_server import GrpcServer
from chain.app.services.table import Services
from chain.app.storage import Storage
from chain.client.client import ChainClient
from chain.client.errors import ChainError, ErrorKind
from chain.client.sender import TxSender
from domain.registry.messages import MsgSetEndpoint
from domain.registry.queries import ValidatorsRequest
from domain.registry.records import Validator
from pol.executor.names import NATIVE, NUMPY, Engine
from tests.support.solo_node import (
    ALICE,
    CHAIN_ID,
    OPERATOR,
    genesis,
    making_blocks,
    running,
)
from tests.support.waiting import wait_until
from tests.unit.assay.support import assay
from validator.daemon import ValidatorConfig, ValidatorDaemon, WrongChain
from validator.store import StoreError
from wire.keys import Key

WAIT = 20.0
ENGINE = Engine(NUMPY)


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


class Running:
    """A daemon on a thread of this process, and how it ended."""

    def __init__(self, home: Path, node: str, key: Key = OPERATOR, engine: Engine = ENGINE) -> None:
        self.stop, self.ready = Event(), Event()
        self.error: BaseException | None = None
        config = ValidatorConfig(home, node, "127.0.0.1:0", "validator.example:9191", engine)
        self.daemon = ValidatorDaemon(config, key, self.stop)
        self.thread = Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.daemon.run(self.ready.set)
        except BaseException as error:  # noqa: BLE001 - shown by the test
            self.error = error

    def ended(self) -> BaseException | None:
        """Wait for the end, and return what it ended with."""
        self.thread.join(WAIT)
        assert not self.thread.is_alive()
        return self.error


@contextmanager
def daemon(home: Path, node: str, key: Key = OPERATOR, engine: Engine = ENGINE) -> Iterator[Running]:
    made = Running(home, node, key, engine)
    try:
        yield made
    finally:
        made.stop.set()
        made.thread.join(WAIT)
    assert not made.thread.is_alive()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "assay.validator")
    return caplog


def own(address: str) -> Validator:
    with ChainClient(address) as client:
        (validator,) = client.query(ValidatorsRequest()).validators
        return validator


def test_a_node_that_comes_later_is_waited_for(tmp_path: Path, said: pytest.LogCaptureFixture) -> None:
    address = free_address()
    with daemon(tmp_path / "validator", address) as made:
        wait_until(lambda: said.messages, "that it says so", WAIT)
        with running(tmp_path / "node", address) as node, making_blocks(node.engine):
            assert made.ready.wait(WAIT)
            assert own(address).endpoint == "validator.example:9191"
    assert made.error is None
    mine = [record.message for record in said.records if record.name == "assay.validator"]
    assert mine[:2] == [
        f"waiting for the node at {address}: no node answers at {address}",
        f"the node at {address} answers",
    ]


def test_what_computes_is_said(tmp_path: Path, said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_NATIVE", "0")
    address, home = free_address(), tmp_path / "home"
    with (
        running(tmp_path / "node", address) as node,
        making_blocks(node.engine),
        daemon(home / "validator", address, engine=Engine(NATIVE)) as made,
    ):
        assert made.ready.wait(WAIT)
    assert "computing with numpy: ASSAY_NATIVE=0" in said.messages
    told = assay("validator", "status", home=home)
    assert "computing with numpy: ASSAY_NATIVE=0" in told.out
    told = assay("validator", "status", "--output", "json", home=home)
    assert told.json["computing"] == "numpy: ASSAY_NATIVE=0"


def test_an_instruction_set_that_nobody_knows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_NATIVE", "avx3")
    address = free_address()
    with (
        running(tmp_path / "node", address) as node,
        making_blocks(node.engine),
        daemon(tmp_path / "validator", address, engine=Engine(NATIVE)) as made,
    ):
        assert (
            str(made.ended())
            == "ASSAY_NATIVE: 'avx3' is not a known value; use one of 0, avx512vnni, avxvnni, avx2, dotprod, portable"
        )


def test_a_node_that_has_no_state_yet_is_waited_for(tmp_path: Path, said: pytest.LogCaptureFixture) -> None:
    """It listens before its first block is there."""
    address = free_address()
    storage = Storage(tmp_path / "empty")
    nobody: Any = None
    server = GrpcServer(Services(Application(storage, AppConfig(solo=True)), nobody), address)
    server.start()
    with daemon(tmp_path / "validator", address) as made:
        wait_until(lambda: f"waiting for the node at {address}: " in said.text, "that", WAIT)
        server.close(0)
        storage.close()
        with running(tmp_path / "node", address) as node, making_blocks(node.engine):
            assert made.ready.wait(WAIT)
    assert made.error is None


def test_a_stop_ends_the_waiting(tmp_path: Path, said: pytest.LogCaptureFixture) -> None:
    """Also where somebody takes the call and does not answer, so that it lasts as long as it may."""
    asked, end = Event(), Event()

    def silent(_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        def answer(_request: bytes, _context: grpc.ServicerContext) -> bytes:
            asked.set()
            end.wait(WAIT)
            return b""

        return grpc.unary_unary_rpc_method_handler(answer)

    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((SimpleNamespace(service=silent),))  # type: ignore[arg-type]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with daemon(tmp_path, f"127.0.0.1:{port}") as made:
        assert asked.wait(WAIT)
        made.stop.set()
        made.thread.join(3)  # a call lasts 10 s
        assert not made.thread.is_alive()
    end.set()
    server.stop(0).wait()
    assert made.error is None
    assert said.messages == []


def test_a_node_that_goes_away_and_comes_back_does_not_end_the_daemon(
    tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    address = free_address()
    with ExitStack() as stack:
        first = stack.enter_context(ExitStack())
        node = first.enter_context(running(tmp_path / "node", address))
        first.enter_context(making_blocks(node.engine))
        made = stack.enter_context(daemon(tmp_path / "validator", address))
        assert made.ready.wait(WAIT)
        first.close()
        gone = f"waiting for the node at {address}: "
        wait_until(lambda: gone in said.text, "that it says so", WAIT)
        node = stack.enter_context(running(tmp_path / "node", address))
        stack.enter_context(making_blocks(node.engine))
        back = f"the node at {address} answers"
        wait_until(lambda: back in said.messages, "that it says so", WAIT)
        with ChainClient(address) as client:
            clock = client.status().clock
        wait_until(lambda: made.daemon._service.view.clock > clock, "a new look", WAIT)
        assert made.thread.is_alive()
    assert made.error is None
    assert said.text.count(gone) == 1


def test_a_node_of_another_chain_ends_the_daemon(tmp_path: Path) -> None:
    """The home holds work for the first one; also where the node changes while the daemon waits for it."""
    address, home = free_address(), tmp_path / "validator"
    other = replace(genesis(), chain_id="another-chain")
    with daemon(home, address) as made:
        with running(tmp_path / "node", address) as node, making_blocks(node.engine):
            assert made.ready.wait(WAIT)
        with running(tmp_path / "other", address, chain=other) as node, making_blocks(node.engine):
            error = made.ended()
            assert isinstance(error, WrongChain)
            assert "belongs to another-chain" in str(error)
            assert CHAIN_ID in str(error)
            again = Running(home, address)
            assert isinstance(again.ended(), WrongChain)


def test_a_key_that_is_no_validators_ends_the_daemon(tmp_path: Path) -> None:
    with running(tmp_path / "node") as node, making_blocks(node.engine):
        error = Running(tmp_path / "validator", node.address, ALICE).ended()
        assert isinstance(error, ChainError)
        assert error.kind is ErrorKind.NOT_FOUND
        assert "is not a validator of" in str(error)


def test_two_daemons_of_one_home_are_refused(tmp_path: Path) -> None:
    """As whoever begins one by hand beside the service: both would answer with one key."""
    refused = pytest.raises(StoreError, match=f"process {os.getpid()}; stop that daemon")
    with daemon(tmp_path / "validator", free_address()), refused:
        Running(tmp_path / "validator", free_address())
    with daemon(tmp_path / "validator", free_address()) as next_one:
        assert next_one.thread.is_alive()


def test_two_daemons_with_one_key_are_refused_here_and_named_elsewhere(
    tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    address = free_address()
    with (
        running(tmp_path / "node", address) as node,
        making_blocks(node.engine),
        daemon(tmp_path / "validator", address) as made,
    ):
        assert made.ready.wait(WAIT)
        with pytest.raises(StoreError, match=f"uses this key: process {os.getpid()}"):
            Running(tmp_path / "copy", address)
        # On another machine nothing keeps it from publishing where it is.
        with ChainClient(address) as client:
            TxSender(client, OPERATOR).send(
                MsgSetEndpoint(OPERATOR.address, "copy.example:9191", b"another certificate")
            )
        words = "another daemon with this operator's key has published copy.example:9191"
        wait_until(lambda: any(words in each for each in said.messages), "the sentence", WAIT)
        assert any(words in each for each in made.daemon._health.readiness())
