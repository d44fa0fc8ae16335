"""What a process runs that serves ABCI from a database, and that may die at a chosen moment.

Deaths: ``before-write`` and ``after-write`` kill the process around the batch of block 2's Commit; ``bug-in-finalize``,
``bug-in-check-tx`` and ``bug-in-query`` raise in block 2, in every CheckTx, and in every query.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

from chain.app import application
from chain.app.abci_methods import Methods
from chain.app.abci_query import AbciQueries
from chain.app.abci_server import AbciServer
from chain.app.application import AppConfig, Application
from chain.app.beacon_keys import BeaconKeys
from chain.app.interfaces import ChainHead, StoredTx
from chain.app.services.method import Answered
from chain.app.services.table import Services
from chain.app.smt import UNCHANGED, TreeUpdate
from chain.app.storage import Storage
from chain.state_machine import transition
from chain.state_machine.mempool import Mempool
from domain.events import Event
from tests.support.small_chain import beacon_key

DEADLY_HEIGHT = 2


class DyingStorage(Storage):
    """Kills its process with SIGKILL around the write of one block."""

    def __init__(self, path: Path, death: str) -> None:
        super().__init__(path)
        self._death = death
        self._height = 0

    def commit(
        self,
        head: ChainHead,
        changes: Mapping[bytes, bytes | None],
        tree: TreeUpdate = UNCHANGED,
        txs: Sequence[StoredTx] = (),
        events: Sequence[Event] = (),
    ) -> None:
        self._height = head.block.height
        super().commit(head, changes, tree, txs, events)

    def _write(self, batch: Any) -> None:
        self._die("before-write")
        super()._write(batch)
        self._die("after-write")

    def _die(self, moment: str) -> None:
        if self._height == DEADLY_HEIGHT and self._death == moment:
            os.kill(os.getpid(), signal.SIGKILL)


def plant(death: str) -> None:
    """Put a bug into the application."""

    def raise_bug(*args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError("a planted bug")

    if death == "bug-in-check-tx":
        patch.object(Mempool, "check_tx", raise_bug).start()
    if death == "bug-in-finalize":
        real = transition.apply_block

        def apply_block(overlay: Any, block: Any, *rest: Any, **more: Any) -> Any:
            return (raise_bug if block.height == DEADLY_HEIGHT else real)(overlay, block, *rest, **more)

        patch.object(application, "apply_block", apply_block).start()


def serve(database: Path, socket_path: Path, death: str, errors_path: Path, ready: Connection) -> None:
    """Serve until killed; ``ready`` hears when connections are taken."""
    with errors_path.open("wb") as errors:
        os.dup2(errors.fileno(), 2)
    plant(death)
    app = Application(DyingStorage(database, death), AppConfig(), beacon_keys=BeaconKeys([beacon_key(0)]))
    queries = AbciQueries(app, broken_call if death == "bug-in-query" else Services(app).call)
    server = AbciServer(Methods(app, queries).table, socket_path, prefetch=app.prefetch)
    server.start()
    ready.send("ready")
    signal.pause()


def broken_call(path: str, data: bytes, height: int) -> Answered:
    raise ZeroDivisionError(f"a planted bug in {path}")
