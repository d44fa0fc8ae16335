"""kill -9 at every boundary of ABCI and inside Commit: the chain goes on with the hashes of a node never killed.

A scripted client decides three blocks of transfers. At each boundary the application is killed and started again, and
the script does what CometBFT does then: Info, InitChain at height 0, and the blocks that the application lacks.
"""

import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cosmpy.protos.tendermint.abci import types_pb2 as abci

from chain.app.application import AppConfig, Application
from chain.app.storage import Storage
from tests.support import abci_client as script
from tests.support.abci_client import AbciConnection, BlockScript, handshake
from tests.support.abci_process import AbciProcess
from tests.support.small_chain import GENESIS_TIME_NS, cons_address, genesis, transfer

GENESIS = genesis()
BLOCKS = tuple(
    BlockScript(
        height,
        cons_address(0),
        (transfer(1, height - 1, 2, height), transfer(2, height - 1, 3, 5)),
    )
    for height in (1, 2, 3)
)

Call = Callable[[BlockScript], Any]
CALLS: dict[str, Call] = {
    "prepare_proposal": script.prepare,
    "process_proposal": script.process,
    "finalize_block": script.finalize,
    "commit": lambda block: script.commit(),
}
MOMENTS = ("before", "during", "after")


@cache
def expected_hashes() -> tuple[bytes, ...]:
    """Return the app hashes of genesis and the blocks at a node that was never killed."""
    storage = Storage.temporary()
    app = Application(storage, AppConfig())
    hashes = [app.init_chain(GENESIS, GENESIS_TIME_NS).app_hash]
    for block in BLOCKS:
        done = app.finalize_block(block.height, block.time_ns, block.hash, block.proposer, block.items)
        assert [result.code for result in done.result.tx_results] == [0, 0, 0]
        app.commit()
        hashes.append(done.app_hash)
    storage.close()
    assert len(set(hashes)) == len(hashes)
    return tuple(hashes)


def calls_until(connection: AbciConnection, block: BlockScript, last: str) -> None:
    """Walk the calls of a block up to and including ``last``."""
    for name, request in CALLS.items():
        connection.call(name, request(block))
        if name == last:
            return


def walk(connection: AbciConnection, block: BlockScript) -> bytes:
    """Do a whole block and return its app hash."""
    calls_until(connection, block, "process_proposal")
    app_hash = connection.call("finalize_block", script.finalize(block)).app_hash
    connection.call("commit", script.commit())
    return bytes(app_hash)


def kill_around(directory: Path, block: BlockScript, name: str, moment: str) -> None:
    """Start, catch up to the block, kill at the moment."""
    with AbciProcess(directory) as node:
        connection = node.connect()
        handshake(connection, GENESIS, BLOCKS[: block.height - 1])
        names = list(CALLS)
        if names.index(name):
            calls_until(connection, block, names[names.index(name) - 1])
        if moment != "before":
            connection.send(name, CALLS[name](block))
        if moment == "after":
            connection.receive(name)
        node.kill()


def finish(directory: Path, decided: int) -> None:
    """Start again after a crash when ``decided`` blocks are in the block store, and do the next one."""
    with AbciProcess(directory) as node:
        connection = node.connect()
        assert handshake(connection, GENESIS, BLOCKS[:decided]) == expected_hashes()[decided]
        assert walk(connection, BLOCKS[decided]) == expected_hashes()[decided + 1]
        answer = connection.call("info", script.info())
        assert answer.last_block_height == decided + 1
        assert answer.last_block_app_hash == expected_hashes()[decided + 1]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("height", [1, 2])
def test_killed_around_a_call_of_a_block(tmp_path: Path, height: int, name: str, moment: str) -> None:
    kill_around(tmp_path, BLOCKS[height - 1], name, moment)
    # CometBFT stores a block before FinalizeBlock; until then it may decide the same one again.
    decided = height if name in ("finalize_block", "commit") else height - 1
    finish(tmp_path, decided)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", ["info", "init_chain"])
def test_killed_around_the_handshake(tmp_path: Path, name: str, moment: str) -> None:
    with AbciProcess(tmp_path) as node:
        connection = node.connect()
        if name == "init_chain":
            connection.call("info", script.info())
        request = script.info() if name == "info" else script.init_chain(GENESIS)
        if moment != "before":
            connection.send(name, request)
        if moment == "after":
            connection.receive(name)
        node.kill()
    finish(tmp_path, 0)


OTHERS: dict[str, Any] = {
    "check_tx": script.check_tx(BLOCKS[1].txs[0]),
    "query": script.query("/app/version"),
    "extend_vote": abci.RequestExtendVote(height=2),
    "verify_vote_extension": abci.RequestVerifyVoteExtension(height=2),
    "list_snapshots": abci.RequestListSnapshots(),
}
"""The calls that decide nothing."""


@pytest.mark.parametrize("moment", ["during", "after"])
@pytest.mark.parametrize("name", OTHERS)
def test_killed_around_a_call_that_decides_nothing(tmp_path: Path, name: str, moment: str) -> None:
    with AbciProcess(tmp_path) as node:
        connection = node.connect()
        handshake(connection, GENESIS, BLOCKS[:1])
        connection.send(name, OTHERS[name])
        if moment == "after":
            connection.receive(name)
        node.kill()
    finish(tmp_path, 1)


@pytest.mark.parametrize("death", ["before-write", "after-write"])
def test_killed_inside_commit(tmp_path: Path, death: str) -> None:
    with AbciProcess(tmp_path, death) as node:
        connection = node.connect()
        handshake(connection, GENESIS, BLOCKS[:1])
        calls_until(connection, BLOCKS[1], "finalize_block")
        connection.send("commit", script.commit())
        assert node.wait() == -signal.SIGKILL
    with AbciProcess(tmp_path) as node:
        answer = node.connect().call("info", script.info())
        stored = 1 if death == "before-write" else 2
        assert answer.last_block_height == stored
        assert answer.last_block_app_hash == expected_hashes()[stored]
        node.kill()
    finish(tmp_path, 2)


def test_finalize_block_writes_nothing(tmp_path: Path) -> None:
    with AbciProcess(tmp_path) as node:
        connection = node.connect()
        handshake(connection, GENESIS, BLOCKS[:1])
        before = {path.name: path.read_bytes() for path in (tmp_path / "db").iterdir()}
        calls_until(connection, BLOCKS[1], "finalize_block")
        after = {path.name: path.read_bytes() for path in (tmp_path / "db").iterdir()}
        assert after == before
        connection.call("commit", script.commit())
        assert {p.name: p.read_bytes() for p in (tmp_path / "db").iterdir()} != before


def test_a_bug_in_finalize_block_stops_the_process_loudly(tmp_path: Path) -> None:
    with AbciProcess(tmp_path, "bug-in-finalize") as node:
        connection = node.connect()
        handshake(connection, GENESIS, BLOCKS[:1])
        with pytest.raises(ConnectionError):
            connection.call("finalize_block", script.finalize(BLOCKS[1]))
        assert node.wait() == 70
        assert "stopped by a bug: ZeroDivisionError: a planted bug" in node.errors()
    finish(tmp_path, 2)  # with the bug mended, the same block gives the same hash as everywhere


def test_a_bug_in_check_tx_is_a_code(tmp_path: Path) -> None:
    with AbciProcess(tmp_path, "bug-in-check-tx") as node:
        connection = node.connect()
        handshake(connection, GENESIS, ())
        answer = connection.call("check_tx", script.check_tx(BLOCKS[0].txs[0]))
        assert (answer.codespace, answer.code) == ("undefined", 1)
        assert "planted" not in answer.log
        assert walk(connection, BLOCKS[0]) == expected_hashes()[1]


def test_a_bug_in_a_query_is_a_code(tmp_path: Path) -> None:
    with AbciProcess(tmp_path, "bug-in-query") as node:
        connection = node.connect()
        handshake(connection, GENESIS, ())
        answer = connection.call("query", script.query("/any/path"))
        assert (answer.codespace, answer.code) == ("undefined", 1)
        assert walk(connection, BLOCKS[0]) == expected_hashes()[1]
