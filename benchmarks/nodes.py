"""Nodes that benchmarks run as processes: their ports, their CometBFT's RPC, and their processor time."""

import http.client
import json
import os
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chain.app.comet_files import Ports

START_SECONDS = 300.0
ANSWER_SECONDS = 30.0
_TICKS = os.sysconf("SC_CLK_TCK")


def free_ports() -> Ports:
    """Return ports that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = Ports(*(each.getsockname()[1] for each in sockets))
    for each in sockets:
        each.close()
    return ports


def wait_until_up(node: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    """Wait until the second block."""
    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends:
        if node.poll() is not None:
            raise RuntimeError(f"the node has ended: {log.read_text()[-2_000:]}")
        try:
            if Rpc(port).height() >= 2:
                return
        except (OSError, http.client.HTTPException, LookupError):
            pass
        time.sleep(0.1)
    raise RuntimeError(f"the node is not up after {START_SECONDS:.0f} s: {log.read_text()[-2_000:]}")


class Rpc:
    """A connection to CometBFT's JSON-RPC."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)

    def post(self, body: bytes) -> object:
        self._connection.request("POST", "/", body, {"Content-Type": "application/json"})
        return json.loads(self._connection.getresponse().read())

    def call(self, method: str, **params: object) -> dict[str, Any]:
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = self.post(json.dumps(asked).encode())
        assert isinstance(answer, dict)
        result: dict[str, Any] = answer["result"]
        return result

    def height(self) -> int:
        info = self.call("status")["sync_info"]
        assert isinstance(info, dict)
        return int(info["latest_block_height"])

    def txs(self, height: int) -> list[str]:
        """Return the transactions of a block, in base64."""
        block = self.call("block", height=str(height))["block"]
        assert isinstance(block, dict)
        found: list[str] = block["data"]["txs"] or []
        return found


def cpu_of(pids: Sequence[int]) -> float:
    """Return the processor time (s) of processes."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS


def children_of(pid: int) -> list[int]:
    """Return all processes below a process."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            found += [child, *children_of(child)]
    return found


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
