"""One cluster of real nodes on this machine: the same roots as here, nodes that join and die, and a wrong token."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

import pytest

from pol.executor.names import Engine
from pol.job.load import load_job
from pol.work.cluster.client import Cluster, check_usable
from pol.work.cluster.dispatch import NodeReport
from pol.work.cluster.node import LaneSpec
from pol.work.executor import Executor, TaskTimeout
from pol.work.pool import ReplayPool
from pol.work.records import RoundSlot
from validator.work import numerics
from validator.work.requests import StateFiles, StatesReplay

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'assay[ray]'"),
]
JOB = Path(__file__).parents[1] / "fixtures" / "job_tiny"
ENGINE = Engine("numpy", memory=1 << 30)
WAIT = 120.0
# Under load, Ray's own values would take a minute to notice a node that is gone.
HEALTH = {"period_ms": "1000", "timeout_ms": "3000", "failure_threshold": "5", "initial_delay_ms": "1000"}


def until(holds: Callable[[], bool], seconds: float = WAIT) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends
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

    def start(self) -> None:
        """Start the head, or one more node."""
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
                    [*command, "--object-store-memory=100000000", "--disable-usage-stats"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self.environment,
                    cwd=self.folder,
                )
            )

    def close(self) -> None:
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


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


def roots(executor: Executor, folder: Path) -> list[bytes]:
    """Replay both slots of a round, each in three tasks that write states which the next one reads."""
    job = load_job(JOB)
    found = []
    for slot in range(2):
        states = StateFiles(JOB / "global.state", JOB / "local.state")
        for start, end in ((0, 1), (1, 3), (3, job.job.document.share_segments)):
            to = StateFiles(folder / f"{slot}-{end}-g", folder / f"{slot}-{end}-l")
            asked = StatesReplay(JOB, RoundSlot(0, slot), start, end, states, ENGINE, to)
            written = executor.submit(numerics.recompute_states, asked, timeout=WAIT).result(WAIT)
            assert written is not None
            found.append(written.root)
            states = to
    return found


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("here")
    with ReplayPool(1, folder=folder, reads=[JOB]) as pool:
        return roots(pool, folder)


def test_one_node_gives_the_same_roots(cluster: Cluster, expected: list[bytes], tmp_path: Path) -> None:
    assert roots(cluster.executor("own"), tmp_path) == expected
    assert len(working(cluster)) == 1


@pytest.fixture(scope="module")
def two(nodes: Nodes, cluster: Cluster) -> Cluster:
    if len(nodes.processes) == 1:
        nodes.start()
    until(lambda: len(working(cluster)) == 2)
    return cluster


def test_a_node_that_joins_takes_tasks_and_gives_the_same_roots(
    two: Cluster, expected: list[bytes], tmp_path: Path
) -> None:
    own = two.executor("own")
    sleeps = [own.submit(time.sleep, 2.0, timeout=WAIT) for _ in range(2)]
    until(lambda: sum(bool(node.tasks) for node in two.nodes) == 2)
    for sleep in sleeps:
        sleep.result(WAIT)
    assert roots(own, tmp_path) == expected


def test_a_deadline_holds_on_every_node(two: Cluster) -> None:
    with pytest.raises(TaskTimeout):
        two.executor("own").submit(time.sleep, 60.0, timeout=1.0).result(WAIT)


def test_a_killed_worker_is_replaced_and_its_task_ends_elsewhere(two: Cluster) -> None:
    own = two.executor("own")
    worker = own.submit(os.getppid, timeout=WAIT).result(WAIT)
    sleeps = [own.submit(time.sleep, 3.0, timeout=WAIT) for _ in range(2)]
    until(lambda: sum(bool(node.tasks) for node in two.nodes) == 2)
    os.kill(worker, signal.SIGKILL)
    for sleep in sleeps:
        sleep.result(WAIT)
    until(lambda: len(working(two)) == 2)


def test_a_wrong_token_is_refused(nodes: Nodes, cluster: Cluster, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("wrong" * 8)
    with _token(token), ExitStack() as stack:
        other = Cluster(cluster.address, [LaneSpec("own")], ENGINE, tmp_path / "driver")
        stack.callback(other.close)
        until(lambda: other.problem not in ("", "the driver starts"))
    assert "token" in other.problem.lower()
    assert cluster.problem == ""


@contextmanager
def _token(path: Path) -> Iterator[None]:
    before = os.environ["RAY_AUTH_TOKEN_PATH"]
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(path)
    try:
        yield
    finally:
        os.environ["RAY_AUTH_TOKEN_PATH"] = before
