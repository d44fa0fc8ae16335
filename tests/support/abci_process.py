"""Starts processes that serve ABCI, and kills them.

They are forked from one server process that has imported everything, so that a start takes milliseconds.
"""

import multiprocessing
import signal
from pathlib import Path
from typing import Self

from tests.support.abci_child import serve
from tests.support.abci_client import AbciConnection

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([serve.__module__])
_DEADLINE_SECONDS = 20.0


class AbciProcess:
    """An application process over a database that outlives it."""

    def __init__(self, directory: Path, death: str = "") -> None:
        self._socket_path = directory / "abci.sock"
        self._errors_path = directory / "stderr"
        self._connections: list[AbciConnection] = []
        here, there = _CONTEXT.Pipe(duplex=False)
        arguments = (directory / "db", self._socket_path, death, self._errors_path, there)
        self._process = _CONTEXT.Process(target=serve, args=arguments)
        self._process.start()
        there.close()
        assert here.poll(_DEADLINE_SECONDS), "the application did not start"
        assert here.recv() == "ready"
        here.close()

    def connect(self) -> AbciConnection:
        connection = AbciConnection(self._socket_path)
        self._connections.append(connection)
        return connection

    def kill(self) -> None:
        """Kill -9."""
        self._process.kill()
        assert self.wait() == -signal.SIGKILL

    def wait(self) -> int:
        """Wait for the process to end by itself and return its code."""
        self._process.join(_DEADLINE_SECONDS)
        assert self._process.exitcode is not None, "the application lives on"
        for connection in self._connections:
            connection.close()
        return self._process.exitcode

    def errors(self) -> str:
        """Return what the ended process wrote to stderr."""
        return self._errors_path.read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self.wait()
        self._process.close()
