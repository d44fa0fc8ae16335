"""A Ray cluster of several nodes on this machine, for the demo: its token, its head and its other nodes. And what ran
on which machine.
"""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from types import MappingProxyType
from typing import Final

from host.process import start_child, stop_child
from localnet.layout import Layout, NetworkError
from pol.work.cluster.client import TOKEN_PATH
from pol.work.cluster.seen import read_nodes
from pol.work.cluster.stranger import CLOSED, ask_as_stranger

RAY: Final = "ray"
"""The value of the demo's ``--executor`` for a cluster that it starts itself."""
_START_SECONDS = 120.0
_STOP_SECONDS = 20.0
_STORE_BYTES = 100_000_000
"""Bytes of each node's store of objects: small, because the models of the demo are small."""
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class MachineUse:
    """A node of a cluster, or the processes with one number in their groups, and the number of tasks of each kind that
    ended there, by the daemon that asked.
    """

    name: str
    address: str
    processors: int
    ended: Mapping[str, Mapping[str, int]]


class Machines:
    """The nodes of a cluster on this machine. All of them end with this process."""

    def __init__(self, directory: Path, count: int) -> None:
        """Make the token in ``directory``; :meth:`start` starts ``count`` nodes. NetworkError without Ray."""
        if find_spec("ray") is None:
            raise NetworkError("the package ray is not installed", 'install the extra: pip install "assay[ray]"')
        self._directory, self._count = directory, count
        token = directory / "ray-token"
        token.touch(0o600)
        token.write_text(secrets.token_hex(32))
        self._token = token
        self._port = _free_port()
        # The path of a socket is short, and that of the directory may be long.
        self._folder = Path(mkdtemp(prefix="ry", dir="/tmp"))
        self._nodes: list[subprocess.Popen[bytes]] = []

    @property
    def executor(self) -> str:
        """The value of ``--executor`` for daemons."""
        return f"ray://127.0.0.1:{self._port}"

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that nodes and daemons need."""
        return MappingProxyType(
            {
                "RAY_AUTH_MODE": "token",
                TOKEN_PATH: str(self._token),
                "RAY_USAGE_STATS_ENABLED": "0",
                "RAY_DISABLE_MEMORY_MONITOR": "1",
            }
        )

    def start(self) -> None:
        """Start the head, and the other nodes when it answers. Call this on the main thread."""
        self._start("--head", f"--port={self._port}", "--include-dashboard=false", f"--temp-dir={self._folder / 'ray'}")
        self._wait(lambda: ask_as_stranger(f"127.0.0.1:{self._port}") == CLOSED, "the head")
        for _ in range(1, self._count):
            self._start(f"--address=127.0.0.1:{self._port}")

    def _start(self, *where: str) -> None:
        command = [
            str(Path(sys.executable).with_name("ray")),
            "start",
            "--block",
            *where,
            "--num-cpus=1",
            f"--object-store-memory={_STORE_BYTES}",
            "--disable-usage-stats",
        ]
        log = self._directory / "logs" / f"machine{len(self._nodes)}.log"
        environment = {**os.environ, **self.environment}
        self._nodes.append(start_child(command, log_path=log, environment=environment, directory=self._folder))

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        ends = time.monotonic() + _START_SECONDS
        while not holds():
            self.check_alive()
            if time.monotonic() > ends:
                raise NetworkError(
                    f"waited {_START_SECONDS:.0f} s for {what} of the cluster (logs: {self._directory}/logs)"
                )
            time.sleep(_LOOK_SECONDS)

    def check_alive(self) -> None:
        """Raise NetworkError if a node has ended."""
        for number, node in enumerate(self._nodes):
            if node.poll() is not None:
                log = self._directory / "logs" / f"machine{number}.log"
                raise NetworkError(f"machine{number} ended with exit code {node.poll()} (log: {log})")

    def stop(self) -> None:
        """End all nodes, and delete their files."""
        for node in reversed(self._nodes):
            if node.poll() is None:
                node.terminate()
        for node in self._nodes:
            stop_child(node, _STOP_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)


def uses_of(layout: Layout) -> tuple[MachineUse, ...]:
    """Return the machines that the daemons of a running network use, sorted by name, and what ended there."""
    homes = {spec.moniker: Path(spec.home) / "validator" for spec in layout.validators}
    homes |= {spec.name: Path(spec.home) / "provider" for spec in layout.providers}
    found: dict[str, MachineUse] = {}
    for daemon, home in homes.items():
        seen = read_nodes(home)
        for node in seen.nodes if seen else ():
            known = found.get(node.name)
            ended = {**(known.ended if known else {}), **({daemon: dict(node.ended)} if node.ended else {})}
            found[node.name] = MachineUse(name=node.name, address=node.address, processors=node.processors, ended=ended)
    return tuple(found[name] for name in sorted(found))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
