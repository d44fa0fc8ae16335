"""A node as a process of its own, over a real CometBFT or solo, and what it says of itself."""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import requests
from cosmpy.protos.cosmos.bank.v1beta1.query_pb2 import QueryBalanceRequest, QueryBalanceResponse

from chain.app.comet_files import LOCAL_TIMING, Ports
from chain.app.homes import NodeSpec, init_network
from chain.app.node import log_path, ready_path
from tests.support.small_chain import CHAIN_ID, genesis, key
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
START_SECONDS = 300.0
STAKE = 5_000_000


def free_ports() -> Ports:
    """Return ports that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = Ports(*(one.getsockname()[1] for one in sockets))
    for one in sockets:
        one.close()
    return ports


class Node:
    """A node process and what it said when it was ready."""

    def __init__(self, home: Path, consensus: str) -> None:
        self.home = home
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.node_child", home, consensus],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, log_path(home).read_text()
        self.ready: dict[str, Any] = json.loads(line)

    def height(self) -> int:
        answer = requests.get(f"{self.ready['rpc']}/status", timeout=5).json()
        return int(answer["result"]["sync_info"]["latest_block_height"])

    def wait_for_height(self, height: int) -> None:
        def reached() -> bool:
            try:
                return self.height() >= height
            except requests.RequestException:
                return False

        wait_until(reached, f"height {height}", START_SECONDS)

    def wait_for_more_blocks(self) -> None:
        self.wait_for_height(1)
        self.wait_for_height(self.height() + 2)

    def balance(self, account: int) -> int:
        request = QueryBalanceRequest(address=key(account).address, denom="uassay")
        path = '"/cosmos.bank.v1beta1.Query/Balance"'
        data = "0x" + request.SerializeToString().hex()
        url = f"{self.ready['rpc']}/abci_query"
        answer = requests.get(url, params={"path": path, "data": data}, timeout=5).json()
        value = answer["result"]["response"]["value"]
        return int(QueryBalanceResponse.FromString(base64.b64decode(value)).balance.amount)

    def kill(self, pid: int, number: signal.Signals = signal.SIGKILL) -> None:
        assert pid == self.process.pid or pid == self.comet_pid()
        os.kill(pid, number)

    def comet_pid(self) -> int:
        """Return the id of CometBFT's present process."""
        return int(json.loads(ready_path(self.home).read_text())["comet_pid"])

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def make_home(directory: Path, silent: int = 0) -> Path:
    """Make the home of the validator of the small chain; ``silent`` others have a fifth of its stake and no process."""
    return make_homes(directory, [STAKE, *[STAKE // 5] * silent])[0]


def make_homes(directory: Path, stakes: Sequence[int]) -> list[Path]:
    """Make the homes of validators v0, v1, … of the small chain, on this machine."""
    small = genesis()
    specs = [
        NodeSpec(directory / f"home-{number}", f"v{number}", key(10 + number).address, stake, free_ports())
        for number, stake in enumerate(stakes)
    ]
    specs[0] = replace(specs[0], operator=small.validators[0].operator)
    init_network(CHAIN_ID, specs, small.accounts, small.params, timing=LOCAL_TIMING)
    return [spec.home for spec in specs]
