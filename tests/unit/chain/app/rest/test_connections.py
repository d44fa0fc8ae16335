"""Slow and greedy clients: a connection that takes too long is cut off, and a host has few of them."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
import requests
import uvicorn

from chain.app.rest import connections, gateway, worker
from chain.app.services.table import Services
from tests.support.solo_node import SoloNode


@pytest.fixture
def address(node: SoloNode, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """Serve a gateway in this process, with short times and few connections."""
    monkeypatch.setattr(connections, "EXCHANGE_SECONDS", 0.5)
    monkeypatch.setattr(connections, "CONNECTIONS_PER_HOST", 3)
    monkeypatch.setattr(connections, "is_loopback", lambda host: False)
    servers: list[uvicorn.Server] = []

    class Server(uvicorn.Server):
        def __init__(self, config: uvicorn.Config) -> None:
            super().__init__(config)
            servers.append(self)

    monkeypatch.setattr(uvicorn, "Server", Server)
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=worker.serve, args=(listening, node.address, ("*",)))
    thread.start()
    try:
        yield listening.getsockname()
    finally:
        while not servers:
            time.sleep(0.01)
        servers[0].should_exit = True
        thread.join(20)
        listening.close()


def answers(address: tuple[str, int]) -> bool:
    url = "http://{}:{}/assay/registry/v1/status".format(*address)
    try:
        return requests.get(url, timeout=10, headers={"Connection": "close"}).status_code == 200
    except requests.ConnectionError:
        return False


@pytest.mark.parametrize(
    "data",
    [b"", b"GET /assay/registry", b"POST /cosmos/tx/v1beta1/txs HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1"],
)
def test_a_request_that_never_ends_ends_its_connection(address: tuple[str, int], data: bytes) -> None:
    with socket.create_connection(address, timeout=10) as slow:
        slow.sendall(data)
        began = time.monotonic()
        received = b"?"
        with suppress(ConnectionResetError):
            received = slow.recv(1_000)
        assert received in (b"", b"?")
        assert time.monotonic() - began < 5
    assert answers(address)


def test_a_host_has_few_connections(address: tuple[str, int]) -> None:
    assert answers(address)
    first = [socket.create_connection(address, timeout=10) for _ in range(3)]
    time.sleep(0.1)
    assert not answers(address)
    for each in first:
        each.close()
    deadline = time.monotonic() + 10
    while not answers(address):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_node_that_is_busy_does_not_hold_the_gateway(
    address: tuple[str, int], node: SoloNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    monkeypatch.setattr(connections, "EXCHANGE_SECONDS", 30.0)
    monkeypatch.setattr(gateway, "CALL_SECONDS", 0.5)
    slow = Services.call
    monkeypatch.setattr(Services, "call", lambda *args: go.wait(10) and slow(*args))
    url = "http://{}:{}/assay/registry/v1/status".format(*address)
    monkeypatch.setattr(connections, "CONNECTIONS_PER_HOST", 99)
    try:
        with ThreadPoolExecutor(gateway.CALLS_MAX) as callers:
            refused = list(callers.map(lambda _: requests.get(url, timeout=10), range(gateway.CALLS_MAX)))
        assert [(each.status_code, each.json()["code"]) for each in refused] == [(504, 4)] * gateway.CALLS_MAX
    finally:
        go.set()
    assert answers(address)
