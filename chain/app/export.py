"""The whole committed state as JSON: for audits of the chain, comparisons between nodes, and later genesis files."""

from pathlib import Path
from typing import Any

from chain.app import smt
from chain.app.homes import comet_home
from chain.app.storage import Storage, StorageError


def export_state(home: Path) -> dict[str, Any]:
    """Return chain id, height, app hash and every key with its value (hex), from the store of a stopped node.

    The app hash is computed anew from the keys and values, so that an export vouches for itself. StorageError where
    the store cannot be opened (a running node holds it), is empty, or does not give its own app hash.
    """
    path = comet_home(home) / "data" / "assay.db"
    if not path.exists():
        raise StorageError(f"{path} does not exist", "start the node once, or name another --home")
    storage = Storage(path)
    try:
        snapshot = storage.snapshot()
        block = snapshot.head.block
        entries = dict(snapshot.scan(b""))
    finally:
        storage.close()
    if not block.height:
        raise StorageError(f"{path} holds no block yet", "start the node first")
    root = smt.update(lambda _position: None, {**entries}).root
    if root != block.app_hash:
        raise StorageError(f"{path} is damaged: its state does not give the app hash of its head")
    return {
        "chain_id": snapshot.head.chain_id,
        "height": block.height,
        "time_ns": block.time_ns,
        "app_hash": block.app_hash.hex(),
        "state": [{"key": key.hex(), "value": value.hex()} for key, value in entries.items()],
    }
