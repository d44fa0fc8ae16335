"""Networks of 4, 8 and 16 validators as processes on this machine: time, traffic and processor time of a block.

The blocks are empty but for the beacon's reveal. CometBFT waits 0.2 s after each block. The baseline of each network is
the network of 4. Traffic is what all nodes send to each other, processor time that of all nodes.
"""

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.figures import Figures, Row
from benchmarks.nodes import Rpc, children_of, cpu_of, free_ports, wait_until_up
from chain.app.comet_files import LOCAL_TIMING
from chain.app.homes import NodeSpec, init_network
from domain.genesis import DENOM, GenesisAccount
from domain.ledger.records import Coin
from domain.params import local_params
from host.process import start_child, stop_child
from wire.keys import Key

NAME = "validators"
COUNTS = (4, 8, 16)
BLOCKS = 30
FIRST = 5
"""Height from which blocks count."""
WAIT_SECONDS = 600.0


@dataclass(frozen=True)
class Network:
    """The figures of a network, for each block: seconds, bytes between nodes, and seconds of processors."""

    block: float
    traffic: float
    cpu: float


def run() -> Figures:
    """Measure each network."""
    networks = {count: _measure(count) for count in COUNTS}
    base = networks[COUNTS[0]]
    rows = []
    for count, network in networks.items():
        first = count == COUNTS[0]
        for what, value, baseline, unit in (
            ("a block", network.block, base.block, "s"),
            ("traffic of a block", network.traffic / 1_000, base.traffic / 1_000, "kB"),
            ("processor time of a block", network.cpu, base.cpu, "s"),
        ):
            rows.append(Row(f"{count} validators: {what}", value, unit, baseline=None if first else baseline))
    return Figures(NAME, rows)


def _measure(count: int) -> Network:
    with tempfile.TemporaryDirectory(prefix="assay-validators-") as folder, _running(Path(folder), count) as nodes:
        ports = [port for port, _ in nodes]
        rpc = Rpc(ports[0])
        begins = _wait_for(rpc, FIRST)
        pids = [pid for _, node in nodes for pid in (node, *children_of(node))]
        sent, used, began = _bytes_sent(ports), cpu_of(pids), time.perf_counter()
        ends = _wait_for(rpc, begins + BLOCKS)
        seconds = time.perf_counter() - began
        blocks = ends - begins
        traffic = _bytes_sent(ports) - sent
        return Network(seconds / blocks, traffic / blocks, (cpu_of(pids) - used) / blocks)


@contextmanager
def _running(folder: Path, count: int) -> Iterator[list[tuple[int, int]]]:
    """Run validators; yield the port of each one's RPC and its process."""
    people = [Key(sha256(b"validators %d" % number).digest()).address for number in range(count)]
    specs = [
        NodeSpec(home=folder / f"v{at}", moniker=f"v{at}", operator=person, stake=10**8, ports=free_ports())
        for at, person in enumerate(people)
    ]
    accounts = [GenesisAccount(person, (Coin(DENOM, 10**12),)) for person in people]
    init_network("assay-bench-1", specs, accounts, local_params(), timing=LOCAL_TIMING)
    with ExitStack() as stack:
        nodes = []
        for spec in specs:
            command = (sys.executable, "-m", "assay.cli", "node", "start", "--home", str(spec.home))
            node = start_child(command, log_path=spec.home / "node.log")
            stack.callback(stop_child, node, 60)
            nodes.append(node)
        for spec, node in zip(specs, nodes, strict=True):
            wait_until_up(node, spec.ports.rpc, spec.home / "node.log")
        yield [(spec.ports.rpc, node.pid) for spec, node in zip(specs, nodes, strict=True)]


def _wait_for(rpc: Rpc, height: int) -> int:
    """Wait until a node has a block, and return the height that it has."""
    ends = time.monotonic() + WAIT_SECONDS
    while (found := rpc.height()) < height:
        if time.monotonic() > ends:
            raise RuntimeError(f"block {height} was not made in {WAIT_SECONDS:.0f} s")
        time.sleep(0.02)
    return found


def _bytes_sent(ports: Sequence[int]) -> int:
    """Return what the nodes have sent to each other. A node closes connections without requests."""
    peers: list[Any] = [peer for port in ports for peer in Rpc(port).call("net_info")["peers"]]
    return sum(int(peer["connection_status"]["SendMonitor"]["Bytes"]) for peer in peers)
