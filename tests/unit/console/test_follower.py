"""Following a real node over gRPC: what it has, that it goes away and comes back, and that it is another chain."""

from collections.abc import Callable
from pathlib import Path

from chain.client.client import ChainClient
from chain.client.sender import TxSender
from console.follower import Follower
from console.index import Index
from console.known import Known, Snapshot
from domain.messages import MsgDepositBond
from tests.support.solo_node import ALICE, SoloNode, making_blocks, running

SECONDS = 20.0


def wait(known: Known, condition: Callable[[Snapshot], bool]) -> Snapshot:
    assert known.wait_until(condition, SECONDS), known.snapshot
    return known.snapshot


def deposit(node: SoloNode, amount: int) -> None:
    with ChainClient(node.address) as client, making_blocks(node.engine):
        TxSender(client, ALICE).send(MsgDepositBond(ALICE.address, amount))


def test_a_node_that_goes_away_and_comes_back_and_another_one_in_its_place(tmp_path: Path) -> None:
    index = Index()
    known = Known(index)
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
        known = Known(index)
        follower = Follower(known, probe=False)
        follower.follow(address)
        wait(known, lambda s: not s.away and index.pots()["bonds"] == 3)
        assert index.chain != fingerprint
        follower.close()
    index.close()
