from pathlib import Path

import pytest

from chain.app import smt
from chain.app.homes import comet_home
from chain.app.interfaces import ChainHead, CommittedBlock
from chain.app.storage import Storage, StorageError, export_state

ENTRIES: dict[bytes, bytes | None] = {b"k%d" % i: b"v%d" % i for i in range(20)}


def write_store(home: Path, app_hash: bytes | None = None) -> None:
    path = comet_home(home) / "data" / "assay.db"
    path.parent.mkdir(parents=True)
    storage = Storage(path)
    tree = smt.update(lambda _position: None, ENTRIES)
    block = CommittedBlock(7, 99, b"h" * 32, b"p" * 20, app_hash or tree.root)
    storage.commit(ChainHead("assay-test", block, 1), ENTRIES, tree)
    storage.close()


def test_an_export_holds_every_key_and_its_own_hash(tmp_path: Path) -> None:
    write_store(tmp_path)
    found = export_state(tmp_path)
    assert (found["chain_id"], found["height"]) == ("assay-test", 7)
    shown = {bytes.fromhex(e["key"]): bytes.fromhex(e["value"]) for e in found["state"]}
    assert shown == ENTRIES
    assert found["app_hash"] == smt.update(lambda _position: None, {**shown}).root.hex()


def test_a_damaged_store_is_not_exported(tmp_path: Path) -> None:
    write_store(tmp_path, b"x" * 32)
    with pytest.raises(StorageError, match="damaged"):
        export_state(tmp_path)


def test_a_home_without_a_node_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="does not exist"):
        export_state(tmp_path)
