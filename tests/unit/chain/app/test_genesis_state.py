"""InitChain writes nothing, and block 1 writes the state and the tree of genesis together with its own."""

from pathlib import Path

import pytest

from chain.app import smt
from chain.app.application import AppConfig, Application, Finalized
from chain.app.storage import Storage
from domain.genesis import DENOM
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from tests.support.small_chain import CHAIN_ID, GENESIS_TIME_NS, genesis, key
from wire.tx import build_tx

NS = 10**9


def transfer() -> bytes:
    source = key(1)
    return build_tx(
        (MsgSend(source.address, key(0).address, (Coin(DENOM, 1),)),),
        source,
        chain_id=CHAIN_ID,
        account_number=1,
        sequence=0,
        fee=(Coin(DENOM, 1_000_000),),
        gas_limit=100_000,
    )


def first_block(app: Application) -> Finalized:
    return app.finalize_block(1, GENESIS_TIME_NS + NS, b"\x01" * 32, bytes(20), (transfer(),))


def test_block_1_writes_the_tree_of_its_whole_state(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "db")
    app = Application(storage, AppConfig())
    started = app.init_chain(genesis(), GENESIS_TIME_NS)
    done = first_block(app)
    assert done.result.tx_results[0].code == 0, done.result.tx_results[0].log
    assert done.app_hash != started.app_hash
    app.commit()
    cached = smt.root_hash(storage.page)
    storage.close()
    storage = Storage(tmp_path / "db")
    snapshot = storage.snapshot()
    entries = dict(snapshot.scan(b""))
    whole = smt.update(lambda _: None, {**entries})
    assert whole.root == done.app_hash == cached == smt.root_hash(storage.page)
    for name in entries:
        assert smt.find_path(storage.page, name).leaf == name
    storage.close()


def test_after_a_crash_before_block_1_init_chain_repeats(tmp_path: Path) -> None:
    """Also a block 1 that was executed and never committed leaves nothing."""
    answers = []
    for is_run in (False, True, False):
        storage = Storage(tmp_path / "db")
        app = Application(storage, AppConfig())
        answers.append(app.init_chain(genesis(), GENESIS_TIME_NS))
        answers.append(app.init_chain(genesis(), GENESIS_TIME_NS))
        if is_run:
            first_block(app)
        assert storage.snapshot().head.block.height == 0
        assert not list(storage.snapshot().scan(b""))
        storage.close()
    assert all(answer == answers[0] for answer in answers)


def test_the_tree_of_genesis_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Block 1 hashes only what it changes itself."""
    sizes: list[int] = []
    update = smt.update

    def count(read: smt.PageReader, changes: dict[bytes, bytes | None]) -> smt.TreeUpdate:
        sizes.append(len(changes))
        return update(read, changes)

    monkeypatch.setattr(smt, "update", count)
    storage = Storage.temporary()
    app = Application(storage, AppConfig())
    app.init_chain(genesis(), GENESIS_TIME_NS)
    first_block(app)
    storage.close()
    of_genesis, of_block = sizes
    assert of_block < of_genesis
