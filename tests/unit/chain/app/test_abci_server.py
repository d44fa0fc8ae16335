"""Frames over a real socket: order, batches, and what a peer may not do."""

import logging
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from cosmpy.protos.tendermint.abci.types_pb2 import (
    Request,
    RequestCheckTx,
    RequestCommit,
    RequestEcho,
    RequestFinalizeBlock,
    RequestFlush,
    Response,
    ResponseCheckTx,
    ResponseCommit,
    ResponseEcho,
    ResponseFinalizeBlock,
    ResponseFlush,
)

from chain.app.abci_server import (
    CONNECTIONS_MAX,
    FRAME_BYTES_MAX,
    AbciServer,
    frame,
    read_varint,
)
from domain.tx import varint
from tests.support.waiting import wait_until

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
        (varint(FRAME_BYTES_MAX + 1), "bytes, and at most"),
        (b"\xff" * 10, "length of a frame has more than five bytes"),
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


class Consensus:
    """A server whose FinalizeBlock takes until it is released, and what it did in which order."""

    def __init__(self, path: Path) -> None:
        self.done: list[str] = []
        self.entered, self.released = Event(), Event()
        methods = {
            "echo": self.echo,
            "finalize_block": self.finalize_block,
            "commit": self.commit,
        }
        self.server = AbciServer(methods, path)
        self.server.start()

    def echo(self, request: Any) -> bytes:
        self.done.append(request.message)
        return serialized(echo=ResponseEcho(message=request.message))

    def finalize_block(self, request: Any) -> bytes:
        self.entered.set()
        assert self.released.wait(DEADLINE)
        self.done.append("finalize_block")
        return serialized(finalize_block=ResponseFinalizeBlock())

    def commit(self, request: Any) -> bytes:
        self.done.append("commit")
        return serialized(commit=ResponseCommit())


@pytest.fixture
def consensus(tmp_path: Path) -> Iterator[Consensus]:
    run = Consensus(tmp_path / "abci.sock")
    yield run
    run.released.set()
    run.server.close()


FINALIZE = frame(Request(finalize_block=RequestFinalizeBlock()))
COMMIT = frame(Request(commit=RequestCommit()))

CHILD = """
import socket, sys
path, *messages = sys.argv[1:]
peer = socket.socket(socket.AF_UNIX)
peer.connect(path)
for message in messages:
    sys.stdin.readline()
    peer.sendall(bytes.fromhex(message))
    print("sent", flush=True)
sys.stdin.readline()
"""


class OtherProcess:
    """A peer in a process of its own, which can be killed."""

    def __init__(self, path: Path, *messages: bytes) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", CHILD, path, *(m.hex() for m in messages)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send_next(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "sent\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def is_served(number: int) -> bool:
    return f"abci-{number}" in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("writes", [(FINALIZE + COMMIT,), (FINALIZE, COMMIT)])
def test_what_a_dead_process_asked_is_done_before_its_successor_is_heard_or_never(
    consensus: Consensus, writes: tuple[bytes, ...]
) -> None:
    """CometBFT is killed behind its Commit; the next one must not be told a height that is about to change."""
    dead = OtherProcess(consensus.server.path, *writes)
    dead.send_next()
    assert consensus.entered.wait(DEADLINE)
    for _ in writes[1:]:  # nobody reads this one before it is too late
        dead.send_next()
    dead.kill()
    successor = Peer(consensus.server.path)
    successor.send(echo("info"))
    successor.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):  # a block is at work
        successor.receive()
    consensus.released.set()
    successor.socket.settimeout(DEADLINE)
    assert successor.receive().echo.message == "info"
    wait_until(lambda: not is_served(1), "the end of the dead one's connection")
    assert consensus.done == ["finalize_block", "info"]
    successor.send(FINALIZE + COMMIT)
    assert successor.receive().WhichOneof("value") == "finalize_block"
    assert successor.receive().WhichOneof("value") == "commit"
    successor.socket.close()


def test_connections_of_the_dead_do_not_count(consensus: Consensus) -> None:
    busy = [OtherProcess(consensus.server.path, FINALIZE) for _ in range(CONNECTIONS_MAX)]
    for process in busy:
        process.send_next()
    assert consensus.entered.wait(DEADLINE)
    for process in busy:
        process.kill()
    successor = Peer(consensus.server.path)
    successor.send(echo("info"))
    consensus.released.set()
    assert successor.receive().echo.message == "info"
    successor.socket.close()


def test_a_living_process_is_not_disturbed_by_another_one(consensus: Consensus) -> None:
    living = OtherProcess(consensus.server.path, echo("first"), echo("second"))
    living.send_next()
    wait_until(lambda: consensus.done == ["first"], "the first request")
    peer = Peer(consensus.server.path)
    peer.send(echo("a tool"))
    assert peer.receive().echo.message == "a tool"
    living.send_next()
    wait_until(lambda: consensus.done == ["first", "a tool", "second"], "the second request")
    living.kill()
    peer.socket.close()


def test_closing_waits_for_the_request_at_work_and_does_no_other(tmp_path: Path) -> None:
    """The database is closed next, and nobody may write to it then."""
    consensus = Consensus(tmp_path / "abci.sock")
    peer = Peer(consensus.server.path)
    peer.send(FINALIZE + COMMIT)
    assert consensus.entered.wait(DEADLINE)
    closing = Thread(target=consensus.server.close)
    closing.start()
    assert peer.is_closed()
    closing.join(0.2)
    assert closing.is_alive()
    consensus.released.set()
    closing.join(DEADLINE)
    assert not closing.is_alive()
    wait_until(lambda: not is_served(1), "the end of the connection")
    assert consensus.done == ["finalize_block"]
    peer.socket.close()


def test_a_process_without_file_descriptors_serves_again_when_it_has_some(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    peer = socket.socket(socket.AF_UNIX)
    with socket.socket(socket.AF_UNIX) as next_one:
        first_free = next_one.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, hard))
    try:
        peer.connect(str(running.server.path))
        wait_until(lambda: "no connection can be accepted" in caplog.text, "a refused accept")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    peer.settimeout(DEADLINE)
    peer.sendall(echo("at last"))
    assert b"at last" in peer.recv(100)
    peer.close()


def test_only_the_owner_may_connect(running: Running) -> None:
    assert running.server.path.stat().st_mode & 0o777 == 0o600


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
