"""Callers who never finish what they begin: their places are few, and theirs for a short time only."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Semaphore
from typing import Any

import grpc
import pytest

from link import types as t
from link.calls import SERVICE
from link.errors import ClusterError, ClusterErrorKind
from link.rates import ServerLimits
from link.tls import SERVER_NAME
from tests.support.waiting import wait_until
from tests.unit.link.support import Running, running

WAIT = 10.0
HELD = 60.0  # as good as for ever


@contextmanager
def half_sent(up: Running, count: int) -> Iterator[list[Any]]:
    """Open calls as a stranger who sends no message."""
    done = Event()

    def never() -> Iterator[bytes]:
        done.wait(HELD)
        yield from ()

    channel = grpc.secure_channel(
        up.endpoint,
        grpc.ssl_channel_credentials(up.certificate.cert_pem),
        options=[("grpc.ssl_target_name_override", SERVER_NAME)],
    )
    call: Any = channel.stream_unary(f"/{SERVICE}/Probe")
    calls = [call.future(never()) for _ in range(count)]  # a call that nobody refers to ends
    try:
        yield calls
    finally:
        done.set()
        channel.close()


def coming(up: Running) -> int:
    return sum(up.server._receiver._coming.values())


def probe(up: Running) -> None:
    with up.client(timeout=5) as client:
        assert len(client.call(t.PROBE, t.ProbeRequest(10)).data) == 10


def test_calls_without_a_message_stop_nobody_else(tmp_path: Path) -> None:
    """As many as there are threads that work would do, if they were waited for there."""
    limits = ServerLimits(threads=2, receive_seconds=HELD)
    with running(tmp_path, limits=limits) as up, half_sent(up, 8):
        wait_until(lambda: coming(up) == 8, "the calls")
        probe(up)


def test_few_calls_are_worked_on_at_a_time(tmp_path: Path) -> None:
    go, inside = Event(), Semaphore(0)
    with running(tmp_path, limits=ServerLimits(threads=2)) as up:

        def poll(_caller: t.Caller, _request: t.PollRequest) -> t.PollReply:
            inside.release()
            assert go.wait(WAIT)
            return t.PollReply((), (), 0)

        up.answers.poll = poll  # type: ignore[method-assign, assignment]
        with up.client() as client, ThreadPoolExecutor(4) as callers:
            calls = [callers.submit(client.call, t.POLL, t.PollRequest("1", ())) for _ in range(4)]
            assert inside.acquire(timeout=WAIT)
            assert inside.acquire(timeout=WAIT)
            wait_until(lambda: coming(up) == 0, "all messages")
            assert not inside.acquire(timeout=0.2)  # the others are here, and wait
            go.set()
            for call in calls:
                call.result(WAIT)


def test_a_message_has_to_be_here_in_time(tmp_path: Path) -> None:
    limits = ServerLimits(receive_seconds=0.2)
    with running(tmp_path, limits=limits) as up, half_sent(up, 4) as calls:
        for call in calls:
            assert call.code() is grpc.StatusCode.CANCELLED
        wait_until(lambda: coming(up) == 0, "their places")
        probe(up)


def test_one_host_does_not_get_all_places(tmp_path: Path) -> None:
    limits = ServerLimits(receive_seconds=HELD, receiving_per_host=3)
    with running(tmp_path, limits=limits) as up:
        with half_sent(up, 3):
            wait_until(lambda: coming(up) == 3, "the calls")
            with pytest.raises(ClusterError, check=lambda e: e.kind is ClusterErrorKind.BUSY):
                probe(up)
        wait_until(lambda: coming(up) == 0, "their end")
        probe(up)


def test_a_call_that_ends_without_a_message_is_a_bad_request(tmp_path: Path) -> None:
    with running(tmp_path) as up, half_sent(up, 0):
        channel = grpc.secure_channel(
            up.endpoint,
            grpc.ssl_channel_credentials(up.certificate.cert_pem),
            options=[("grpc.ssl_target_name_override", SERVER_NAME)],
        )
        with channel, pytest.raises(grpc.RpcError) as error:
            channel.stream_unary(f"/{SERVICE}/Probe")(iter(()), timeout=5)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_connections_are_bounded_and_end_without_a_handshake(tmp_path: Path) -> None:
    """Each takes a file handle, and a daemon without one can neither read a blob nor write a record."""
    limits = ServerLimits(connections=10, handshake_seconds=0.3)
    with running(tmp_path, limits=limits) as up, ExitStack() as stack:
        host, _, port = up.endpoint.rpartition(":")
        opened = [
            stack.enter_context(socket.create_connection((host, int(port)), timeout=5))
            for _ in range(30)
        ]
        for connection in opened:
            wait_until(lambda connection=connection: is_closed(connection), "its end", 5)  # type: ignore[misc]
        probe(up)


def test_more_connections_than_there_may_be_are_closed_at_once(tmp_path: Path) -> None:
    limits = ServerLimits(connections=10, handshake_seconds=HELD)
    with running(tmp_path, limits=limits) as up, ExitStack() as stack:
        host, _, port = up.endpoint.rpartition(":")
        opened = [
            stack.enter_context(socket.create_connection((host, int(port)), timeout=5))
            for _ in range(30)
        ]
        wait_until(lambda: sum(is_closed(connection) for connection in opened) >= 20, "their end")


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        while connection.recv(1_000):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True
