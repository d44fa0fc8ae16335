"""Frames over a real socket: order, batches, and what a peer may not do."""

import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from cosmpy.protos.tendermint.abci.types_pb2 import (
    Request,
    RequestCheckTx,
    RequestCommit,
    RequestEcho,
    RequestFlush,
    Response,
    ResponseCheckTx,
    ResponseEcho,
    ResponseFlush,
)

from chain.app.abci_server import (
    CONNECTIONS_MAX,
    FRAME_BYTES_MAX,
    AbciServer,
    frame,
    read_varint,
)
from chain.types.tx import varint

DEADLINE = 10.0


class Peer:
    """A client's end of one connection."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(DEADLINE)
        self.socket.connect(str(path))
        self.buffer = bytearray()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> Any:
        while True:
            start, size = read_varint(self.buffer, 0)
            if start and len(self.buffer) >= start + size:
                response = Response.FromString(bytes(self.buffer[start : start + size]))
                del self.buffer[: start + size]
                return response
            chunk = self.socket.recv(65536)
            assert chunk, "the server closed the connection"
            self.buffer += chunk

    def is_closed(self) -> bool:
        return self.socket.recv(1) == b""


def serialized(**response: Any) -> bytes:
    data: bytes = Response(**response).SerializeToString()
    return data


def check_tx(request: Any) -> bytes:
    if request.tx == b"bug":
        raise KeyError("a bug")
    return serialized(check_tx=ResponseCheckTx(data=request.tx))


def commit(request: Any) -> bytes:
    raise ValueError("a bug in commit")


class Running:
    """A server with the errors that it would have stopped for."""

    def __init__(self, path: Path) -> None:
        self.fatal: list[BaseException] = []
        self.stopped = Event()
        self.peers: list[Peer] = []
        methods = {
            "echo": lambda request: serialized(echo=ResponseEcho(message=request.message)),
            "flush": lambda request: serialized(flush=ResponseFlush()),
            "check_tx": check_tx,
            "commit": commit,
        }
        self.server = AbciServer(methods, path, self.stop)
        self.server.start()

    def stop(self, error: BaseException) -> None:
        self.fatal.append(error)
        self.stopped.set()

    def peer(self) -> Peer:
        self.peers.append(Peer(self.server.path))
        return self.peers[-1]

    def close(self) -> None:
        for peer in self.peers:
            peer.socket.close()
        self.server.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    run = Running(tmp_path / "abci.sock")
    yield run
    run.close()


def echo(text: str) -> bytes:
    return frame(Request(echo=RequestEcho(message=text)))


FLUSH = frame(Request(flush=RequestFlush()))


def test_many_requests_in_one_write_are_answered_in_order(running: Running) -> None:
    peer = running.peer()
    sent = [b"%d" % number for number in range(5000)]
    peer.send(b"".join(frame(Request(check_tx=RequestCheckTx(tx=tx))) for tx in sent) + FLUSH)
    assert [peer.receive().check_tx.data for _ in sent] == sent
    assert peer.receive().WhichOneof("value") == "flush"


def test_a_frame_may_come_byte_by_byte(running: Running) -> None:
    peer = running.peer()
    for byte in echo("x" * 300) + FLUSH:
        peer.send(bytes((byte,)))
    assert peer.receive().echo.message == "x" * 300
    assert peer.receive().WhichOneof("value") == "flush"


def test_a_large_frame_is_answered(running: Running) -> None:
    peer = running.peer()
    text = "y" * 5_000_000
    peer.send(echo(text))
    assert peer.receive().echo.message == text


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (varint(FRAME_BYTES_MAX + 1), "bytes; at most"),
        (b"\xff" * 10, "length does not end"),
        (varint(5) + b"\xff" * 5, "not an ABCI request"),
        (varint(0), "unknown ABCI request None"),
        (varint(2) + b"\x22\x00", "unknown ABCI request None"),
    ],
)
def test_a_broken_frame_closes_its_connection_only(
    running: Running, caplog: pytest.LogCaptureFixture, bad: bytes, reason: str
) -> None:
    caplog.set_level(logging.INFO)
    other, peer = running.peer(), running.peer()
    peer.send(echo("before") + bad)
    assert peer.receive().echo.message == "before"
    assert peer.is_closed()
    assert any(reason in record.getMessage() for record in caplog.records)
    other.send(echo("alive"))
    assert other.receive().echo.message == "alive"
    again = running.peer()
    again.send(echo("and new ones"))
    assert again.receive().echo.message == "and new ones"
    assert running.fatal == []


def test_a_peer_that_leaves_in_the_middle_of_a_frame_harms_nobody(running: Running) -> None:
    peer = running.peer()
    peer.send(echo("never finished")[:5])
    peer.socket.close()
    other = running.peer()
    other.send(echo("alive"))
    assert other.receive().echo.message == "alive"


def test_a_bug_outside_consensus_is_an_exception_for_the_caller(running: Running) -> None:
    peer = running.peer()
    peer.send(frame(Request(check_tx=RequestCheckTx(tx=b"bug"))))
    assert "internal error in check_tx" in peer.receive().exception.error
    assert running.fatal == []


def test_a_bug_in_consensus_stops_the_node(running: Running) -> None:
    peer = running.peer()
    peer.send(frame(Request(commit=RequestCommit())))
    assert running.stopped.wait(DEADLINE)
    assert [str(error) for error in running.fatal] == ["a bug in commit"]


def test_too_many_connections_are_refused(running: Running) -> None:
    peers = [running.peer() for _ in range(CONNECTIONS_MAX)]
    for peer in peers:  # each is served, so all are counted
        peer.send(echo("here"))
        assert peer.receive().echo.message == "here"
    assert running.peer().is_closed()


def test_a_socket_left_by_a_killed_process_is_replaced(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "abci.sock"))
    left.close()
    run = Running(tmp_path / "abci.sock")
    peer = run.peer()
    peer.send(echo("new"))
    assert peer.receive().echo.message == "new"
    run.close()
    assert not (tmp_path / "abci.sock").exists()


def test_a_path_that_no_socket_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at most 107 bytes"):
        AbciServer({}, tmp_path / ("x" * 120))


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16383, 16384, FRAME_BYTES_MAX, 2**32])
def test_varints_are_read_as_they_were_written(value: int) -> None:
    data = bytearray(b"??" + varint(value) + b"rest")
    assert read_varint(data, 2) == (len(data) - 4, value)
