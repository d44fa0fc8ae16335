"""One cluster of real nodes on this machine: a head, and further nodes that a test starts."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp

import psutil
import pytest

from compute_provider.work.elsewhere import ClusterMachines
from compute_provider.work.trainer import HONEST
from domain.keys import ShareKey
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.load import load_job
from pol.machines.door import PORTS_VARIABLE
from pol.machines.form import Shape
from pol.work.cluster.client import Cluster, check_usable
from pol.work.cluster.dispatch import NodeReport
from pol.work.cluster.node import LaneSpec
from pol.work.records import RoundSlot
from pol.work.train import train_share
from tests.support.places import PORTS
from tests.unit.compute_provider.work.training import KEY, Listener, order

JOB = Path(__file__).parents[1] / "fixtures" / "job_tiny"
ENGINE = Engine("numpy", memory=1 << 30)
WAIT = 300.0
STORE_BYTES = 100_000_000
# Under load, Ray's own values would take a minute to notice a node that is gone.
HEALTH = {"period_ms": "1000", "timeout_ms": "3000", "failure_threshold": "5", "initial_delay_ms": "1000"}


def until(holds: Callable[[], bool], seconds: float = WAIT, why: Callable[[], object] = str) -> None:
    """Wait until something holds; if it does not in time, fail with what ``why`` says."""
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, why()
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@dataclass
class Nodes:
    """The nodes that were started, and the client of their cluster."""

    folder: Path
    port: int
    environment: dict[str, str]
    processes: list["subprocess.Popen[bytes]"]

    def start(self, temporary: Path | None = None) -> None:
        """Start the head, or one more node, whose worker keeps its files in the folder ``temporary``."""
        number = len(self.processes)
        where = (
            ["--head", f"--port={self.port}", "--include-dashboard=false", f"--temp-dir={self.folder / 'ray'}"]
            if not number
            else [f"--address=127.0.0.1:{self.port}"]
        )
        command = [str(Path(sys.executable).with_name("ray")), "start", "--block", *where, "--num-cpus=1"]
        with (self.folder / f"node{number}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    [*command, f"--object-store-memory={STORE_BYTES}", "--disable-usage-stats"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**self.environment, **({"TMPDIR": str(temporary)} if temporary else {})},
                    cwd=self.folder,
                )
            )

    def logs(self) -> list[str]:
        """Return the end of what each node said."""
        return [path.read_text(errors="replace")[-1000:] for path in sorted(self.folder.glob("node*.log"))]

    def close(self) -> None:
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def tree(node: int) -> list[psutil.Process]:
    """Return the processes of a node."""
    parent = psutil.Process(node)
    return [parent, *parent.children(recursive=True)]


def kill(node: int) -> None:
    for process in tree(node):
        process.send_signal(signal.SIGKILL)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    # Ray's sockets are in this folder, and the path of a socket is short.
    folder = Path(mkdtemp(prefix="ry", dir="/tmp"))
    token = folder / "token"
    token.touch(0o600)
    token.write_text(secrets.token_hex(16))
    settings = {f"RAY_health_check_{name}": value for name, value in HEALTH.items()}
    environment = {
        **os.environ,
        **settings,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": str(Path(__file__).parents[2]),
        PORTS_VARIABLE: PORTS,
    }
    made = Nodes(folder, free_port(), environment, [])
    made.start()
    before = os.environ.get("RAY_AUTH_TOKEN_PATH")
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(token)
    try:
        yield made
    finally:
        made.close()
        if before is None:
            del os.environ["RAY_AUTH_TOKEN_PATH"]
        else:
            os.environ["RAY_AUTH_TOKEN_PATH"] = before
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(nodes: Nodes) -> Iterator[Cluster]:
    address = f"127.0.0.1:{nodes.port}"
    check_usable(address)
    made = Cluster(address, [LaneSpec("own"), LaneSpec("trials", 1, fresh=True)], ENGINE, nodes.folder / "driver")
    try:
        yield made
    finally:
        made.close()


def working(cluster: Cluster) -> list[NodeReport]:
    return [node for node in cluster.nodes if not node.problem]


@pytest.fixture(scope="module")
def two(nodes: Nodes, cluster: Cluster) -> Cluster:
    if len(nodes.processes) == 1:
        nodes.start()
    until(lambda: len(working(cluster)) == 2, why=lambda: (cluster.nodes, nodes.logs()))
    return cluster


@contextmanager
def own_token(path: Path) -> Iterator[None]:
    before = os.environ["RAY_AUTH_TOKEN_PATH"]
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(path)
    try:
        yield
    finally:
        os.environ["RAY_AUTH_TOKEN_PATH"] = before


KEYS = tuple(replace(KEY, slot=slot) for slot in range(2))


class Provider(Listener):
    """A provider's daemon on the cluster: it keeps the messages that it gets."""

    def __init__(self, address: str, folder: Path, machines: Shape = 1) -> None:
        super().__init__(folder)
        self.machines = ClusterMachines(f"ray://{address}", ENGINE, self.hear, folder / "home", machines=machines)

    def start(self, key: ShareKey, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.machines.start(key, order(folder, slot=key.slot, engine=ENGINE), HONEST)


@pytest.fixture
def provider(two: Cluster, tmp_path: Path) -> Iterator[Provider]:
    made = Provider(two.address, tmp_path)
    try:
        until(lambda: made.machines.slots == 2)
        yield made
    finally:
        made.machines.close()


@pytest.fixture(scope="module")
def trained() -> set[str]:
    """The roots of the updates of both slots, as they are here."""
    loaded = load_job(JOB)
    states = loaded.global_state, loaded.local_state
    shares = [train_share(loaded, RoundSlot(0, slot), *states, backend=backend(ENGINE)) for slot in range(2)]
    return {share.update_root.hex() for share in shares}


def updates(provider: Provider) -> set[str]:
    return {provider.last.get(timeout=WAIT)["done"]["update_root"] for _ in KEYS}
