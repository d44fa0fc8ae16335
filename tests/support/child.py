"""A command of ``assay`` as a process of its own, until the end of a block."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.support.node_process import START_SECONDS
from tests.support.waiting import wait_until


class Command:
    """The process of a command with a home; its output goes to ``command.log`` there."""

    def __init__(self, home: Path, *words: object) -> None:
        self.log = home / "command.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "assay.cli", *map(str, words)],
                env=os.environ | {"ASSAY_HOME": str(home), "OMP_NUM_THREADS": "1"},
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> Self:
        return self

    def wait_for(self, address: str) -> None:
        """Wait until the command accepts connections at an address."""
        host, _, port = address.rpartition(":")

        def accepts() -> bool:
            assert self._process.poll() is None, self.log.read_text()
            with socket.socket() as probe:
                return probe.connect_ex((host, int(port))) == 0

        wait_until(accepts, f"an answer at {address}", START_SECONDS)

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait()
