"""Callers who never finish what they begin: their places are few, and theirs for a short time only."""

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Event, Semaphore
from typing import Any

import grpc
import pytest

from link import types as t
from link.calls import SERVICE
from link.rates import ServerLimits
from link.tls import SERVER_NAME
from tests.support.waiting import wait_until
from tests.unit.link.half_sent import half_sent
from tests.unit.link.support import AUDITOR, Running, running

WAIT = 10.0
HELD = 60.0  # as good as for ever


LOCAL = ("127.0.0.1",)
ELSEWHERE = tuple(f"127.0.{network}.1" for network in range(1, 25))  # each of another /24


def coming(up: Running) -> int:
    receiver = up.server._receiver
    return receiver.strangers.coming + receiver.known.coming


def probe(up: Running) -> None:
    with up.client(timeout=5, tries=4) as client:
        assert len(client.call(t.BANDWIDTH, t.BandwidthRequest(10)).data) == 10


def test_half_sent_calls_from_everywhere_stop_nobody(tmp_path: Path) -> None:
    """More of them than the server has threads: who is known keeps being answered, and whoever comes anew as well."""
    limits = ServerLimits(receive_seconds=HELD)
    with running(tmp_path, limits=limits) as up, up.client() as known:
        poll = partial(known.call, t.POLL, t.PollRequest("1", ()))
        poll()
        with half_sent(up, ELSEWHERE, limits.concurrent_per_caller):
            wait_until(lambda: coming(up) == limits.strangers, "the calls")
            for _ in range(40):
                poll()
            probe(up)
        with half_sent(up, LOCAL, limits.concurrent_per_caller):  # from the newcomer's own network
            wait_until(lambda: coming(up) == limits.strangers_per_network, "the calls")
            probe(up)


def test_what_strangers_wait_for_holds_up_nobody_who_is_known(tmp_path: Path) -> None:
    """The first call of a connection is a stranger's, whoever signed it."""
    go, inside = Event(), Event()
    with running(tmp_path, limits=ServerLimits(threads=1, stranger_threads=1)) as up:

        def poll(_caller: t.Caller, _request: t.PollRequest) -> t.PollReply:
            inside.set()
            assert go.wait(WAIT)
            return t.PollReply((), (), 0)

        up.answers.poll = poll  # type: ignore[method-assign, assignment]
        with up.client(AUDITOR) as known, up.client() as new, ThreadPoolExecutor(1) as callers:
            ask = partial(known.call, t.GET_OPENING, t.OpeningRequest(bytes(32), 1, 0, 0))
            ask()
            call = callers.submit(new.call, t.POLL, t.PollRequest("1", ()))
            assert inside.wait(WAIT)
            try:
                ask()
            finally:
                go.set()
            call.result(WAIT)


def test_few_calls_are_worked_on_at_a_time(tmp_path: Path) -> None:
    go, inside = Event(), Semaphore(0)
    with running(tmp_path, limits=ServerLimits(threads=2)) as up:

        def poll(_caller: t.Caller, _request: t.PollRequest) -> t.PollReply:
            inside.release()
            assert go.wait(WAIT)
            return t.PollReply((), (), 0)

        with up.client() as client, ThreadPoolExecutor(4) as callers:
            client.call(t.POLL, t.PollRequest("1", ()))
            up.answers.poll = poll  # type: ignore[method-assign, assignment]
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
    with running(tmp_path, limits=limits) as up, half_sent(up, LOCAL, 4):
        wait_until(lambda: coming(up) > 0, "the calls")
        wait_until(lambda: coming(up) == 0, "their end")
        probe(up)


def test_a_call_that_ends_without_a_message_is_a_bad_request(tmp_path: Path) -> None:
    with running(tmp_path) as up:
        channel = grpc.secure_channel(
            up.endpoint,
            grpc.ssl_channel_credentials(up.certificate.cert_pem),
            options=[("grpc.ssl_target_name_override", SERVER_NAME)],
        )
        call: Any = channel.stream_unary(f"/{SERVICE}/Bandwidth")
        with channel, pytest.raises(grpc.RpcError) as error:
            call(iter(()), timeout=5)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_connections_are_bounded_and_end_without_a_handshake(tmp_path: Path) -> None:
    """Each takes a file handle, and a daemon without one can neither read a blob nor write a record."""
    limits = ServerLimits(connections=10, handshake_seconds=0.3)
    with running(tmp_path, limits=limits) as up, ExitStack() as stack:
        host, _, port = up.endpoint.rpartition(":")
        opened = [stack.enter_context(socket.create_connection((host, int(port)), timeout=5)) for _ in range(30)]
        for connection in opened:
            wait_until(lambda connection=connection: is_closed(connection), "its end", 5)  # type: ignore[misc]
        probe(up)


def test_more_connections_than_there_may_be_are_closed_at_once(tmp_path: Path) -> None:
    limits = ServerLimits(connections=10, handshake_seconds=HELD)
    with running(tmp_path, limits=limits) as up, ExitStack() as stack:
        host, _, port = up.endpoint.rpartition(":")
        opened = [stack.enter_context(socket.create_connection((host, int(port)), timeout=5)) for _ in range(30)]
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
