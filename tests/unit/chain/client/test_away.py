"""Waiting for a node: told once, ended by the node or by a stop, whatever sits at the address."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from chain.client.away import WatchedNode, closed_at
from chain.client.client import ChainClient
from chain.client.errors import ChainError, ChainTimeout, ErrorKind
from domain.errors import BAD_FIELD
from tests.support.solo_node import CHAIN_ID, running
from tests.support.waiting import wait_until


def test_a_node_that_comes_later_is_waited_for_and_that_is_said_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    told, stop, asked = list[str](), Event(), list[int]()
    with ChainClient(address) as client, ThreadPoolExecutor(1) as pool:

        def ask() -> str:
            asked.append(1)
            return client.status().chain_id

        waiting = pool.submit(WatchedNode(address, stop, told.append).wait_for, ask)
        wait_until(lambda: len(asked) >= 3, "three tries")
        with running(tmp_path, address) as node:
            node.engine.make_block()
            assert waiting.result(30) == CHAIN_ID
    assert len(told) == 2
    assert told[0].startswith(f"waiting for the node at {address}: no node answers at {address}")
    assert told[1] == f"the node at {address} answers"


def test_a_stop_ends_the_waiting_though_something_there_never_answers() -> None:
    told, stop = list[str](), Event()
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with ChainClient(address, timeout=60.0) as client, closed_at(stop, client):
            waiting = pool.submit(WatchedNode(address, stop, told.append).wait_for, client.status)
            connection, _ = silent.accept()
            started = time.monotonic()
            stop.set()
            assert waiting.result(30) is None
            assert time.monotonic() - started < 5
            connection.close()
    assert told == []


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (ChainError(ErrorKind.UNAVAILABLE, "away", ""), True),
        (ChainTimeout("slow", ""), True),
        (ChainError(ErrorKind.REFUSED, "no state yet", ""), True),
        (ChainError(ErrorKind.REFUSED, "no", "", BAD_FIELD), False),
        (ChainError(ErrorKind.NOT_FOUND, "no", ""), False),
        (ChainError(ErrorKind.BAD_RESPONSE, "no node at all", ""), False),
    ],
)
def test_what_may_pass_is_waited_for_and_nothing_else(error: ChainError, waits: bool) -> None:
    answers: list[Exception | str] = [error, "here"]

    def ask() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    told = list[str]()
    node = WatchedNode("here", Event(), told.append)
    if waits:
        assert node.wait_for(ask) == "here"
        assert told == [f"waiting for the node at here: {error.reason}", "the node at here answers"]
    else:
        with pytest.raises(ChainError, check=lambda raised: raised is error):
            node.wait_for(ask)
        assert told == []


def test_what_changes_is_said_and_nothing_twice() -> None:
    told = list[str]()
    gone = ChainError(ErrorKind.UNAVAILABLE, "gone", "")
    node = WatchedNode("here", Event(), told.append)

    def fail() -> str:
        raise gone

    assert node.ask(lambda: "yes") == "yes"
    for _ in range(3):
        assert node.ask(fail) is None
        assert node.away
    for _ in range(2):
        assert node.ask(lambda: "yes") == "yes"
        assert not node.away
    assert told == ["waiting for the node at here: gone", "the node at here answers"]
