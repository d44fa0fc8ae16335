"""Following a real node over gRPC: what it has, that it goes away and comes back, and that it is another chain."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from chain.client.client import ChainClient
from chain.client.sender import TxSender
from console.follower import Follower
from console.index.writing import EventIndex
from console.known import NodeSnapshot, NodeState
from domain.ledger.messages import MsgDepositBond
from domain.node.queries import EventsResponse
from tests.support.solo_node import ALICE, SoloNode, making_blocks, running

SECONDS = 20.0


def wait(known: NodeState, condition: Callable[[NodeSnapshot], bool]) -> NodeSnapshot:
    assert known.wait_until(condition, SECONDS), known.snapshot
    return known.snapshot


def deposit(node: SoloNode, amount: int) -> None:
    with ChainClient(node.address) as client, making_blocks(node.engine):
        TxSender(client, ALICE).send(MsgDepositBond(ALICE.address, amount))


def test_a_node_that_goes_away_and_comes_back_and_another_one_in_its_place(tmp_path: Path) -> None:
    index = EventIndex()
    known = NodeState(index)
    follower = Follower(known, probe=False)
    with running(tmp_path / "one") as node:
        address = node.address
        for _ in range(3):
            node.engine.make_block()
        deposit(node, 5)
        follower.follow(address)
        # The blocks are read after the events.
        first = wait(known, lambda s: s.next_event > 1 and bool(s.validators) and not s.away)
        assert first.status is not None
        assert [v.moniker for v in first.validators] == ["one"]
        assert index.pots()["bonds"] == 5
        (newest, *_) = index.blocks(1)
        with ChainClient(address) as client:
            head = client.block(newest.height)
            assert (head.time_ns, head.proposer) == (newest.time_ns, newest.proposer)
        fingerprint = index.chain
    away = wait(known, lambda s: bool(s.away))
    assert away.validators == first.validators
    assert "no node answers" in away.away
    with running(tmp_path / "one", address) as node:
        deposit(node, 7)
        wait(known, lambda s: not s.away and index.pots()["bonds"] == 12)
        assert index.chain == fingerprint
    wait(known, lambda s: bool(s.away))
    follower.close()
    with running(tmp_path / "two", address) as node:
        # It has the same name, and more events than the first one had.
        for _ in range(3):
            deposit(node, 1)
        known = NodeState(index)
        follower = Follower(known, probe=False)
        follower.follow(address)
        wait(known, lambda s: not s.away and index.pots()["bonds"] == 3)
        assert index.chain != fingerprint
        follower.close()
    index.close()


def test_a_node_that_lies_is_told_apart_from_one_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    index = EventIndex()
    known = NodeState(index)
    follower = Follower(known, probe=False)
    with running(tmp_path / "one") as node:
        for _ in range(3):
            node.engine.make_block()
        deposit(node, 5)
        right = node.app.events

        def lie(*asked: Any) -> EventsResponse:
            page = right(*asked)
            return replace(page, events=tuple(replace(e, height=2**63) for e in page.events))

        with monkeypatch.context() as patched:
            patched.setattr(node.app, "events", lie)
            follower.follow(node.address)
            wait(known, lambda s: "its answers cannot be stored" in s.away)
            assert index.next == 1
        wait(known, lambda s: not s.away and index.pots()["bonds"] == 5)
        follower.close()
    index.close()
    # Once, however often it is asked again.
    assert len([r for r in caplog.records if "cannot be stored" in r.getMessage()]) == 1


@contextmanager
def endless(part: bytes) -> Iterator[str]:
    """Serve something that does not end, at an address."""
    stop = Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                while not stop.is_set():
                    self.wfile.write(part)
                    stop.wait(0.0 if len(part) > 1 else 0.05)
            except OSError:
                return

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        stop.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("part", [b" ", bytes(2**16)], ids=["drops", "floods"])
def test_a_comet_that_never_ends_holds_nothing_up(tmp_path: Path, part: bytes) -> None:
    index = EventIndex()
    known = NodeState(index)
    follower = Follower(known, probe=False)
    with endless(part) as rpc, running(tmp_path / "one") as node:
        deposit(node, 5)
        follower.follow(node.address, rpc)
        for amount in (5, 7):
            wait(known, lambda s, amount=amount: index.pots().get("bonds") == amount)  # type: ignore[misc]
            deposit(node, 2)
        assert known.snapshot.mempool is None
        follower.close()
    index.close()
