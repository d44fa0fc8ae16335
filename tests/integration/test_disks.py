"""Full and read-only disks: nodes and daemons end or wait with a sentence, and go on when the disk is mended."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from chain.app.homes import read_node_table
from chain.app.node import ready_path
from chain.app.storage import export_state
from chain.client.client import ChainClient
from chain.client.errors import ChainError
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from tests.support.market_network import MarketNetwork, market_network, quick_params
from tests.support.node_process import make_home
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.waiting import wait_until

ASSAY = (sys.executable, "-m", "assay.cli")
SECONDS = 300.0
FULL = "No space left on device"
PATIENT = 20_000
"""FLOP/s that the provider is certified for: it has time enough on a busy machine."""
PARAMS = quick_params(accept_base=300, accept_max=600, progress_base=300, stage_base=150)
"""Time enough for a disk to be mended, on a busy machine."""

pytestmark = pytest.mark.timeout(1_200)


# Nodes


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", 64) as mounted:
        yield mounted


class NodeCommand:
    """``assay node start`` of a home, and what it says."""

    def __init__(self, home: Path, log: Path, *options: str) -> None:
        self._home, self._log = home, log
        with log.open("wb") as out:
            command = [*ASSAY, "node", "start", "--home", str(home), *options]
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)

    def wait_ready(self) -> None:
        def is_ready() -> bool:
            assert self.process.poll() is None, self._log.read_text()
            return ready_path(self._home).exists()

        wait_until(is_ready, "the node to be ready", SECONDS)

    def end(self) -> tuple[int, str]:
        """Return the exit code of the command, which ends by itself, and its output."""
        try:
            return self.process.wait(SECONDS), self._log.read_text()
        finally:
            self.close()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(SECONDS)


@pytest.mark.parametrize("options", [("--solo",), pytest.param((), marks=pytest.mark.network)], ids=["solo", "comet"])
def test_a_node_ends_on_a_full_disk_and_goes_on_when_there_is_space(
    disk: SmallDisk, tmp_path: Path, options: tuple[str, ...]
) -> None:
    home, log = make_home(disk.path), tmp_path / "log"
    node = NodeCommand(home, log, *options)
    try:
        node.wait_ready()
        wait_until(lambda: _height(node, home) > 1, "blocks", SECONDS)
    finally:
        disk.fill()
        code, said = node.end()
    assert code != 0
    assert "Traceback" not in said
    assert "free some space on its disk" in said or "is full; free space on that disk" in said
    assert "start the node again" in said

    # No start on a full disk.
    code, said = NodeCommand(home, log, *options).end()
    assert code == 1
    assert "Traceback" not in said
    assert str(home) in said
    assert "free some space" in said or "free space" in said

    disk.free()
    before = export_state(home)["height"]
    assert before
    node = NodeCommand(home, log, *options)
    try:
        node.wait_ready()
        wait_until(lambda: _height(node, home) > before, "another block", SECONDS)
    finally:
        node.close()
    # The export computes the hash of the state again.
    assert export_state(home)["height"] > before


def test_a_node_on_a_read_only_disk_is_refused(disk: SmallDisk, tmp_path: Path) -> None:
    home, log = make_home(disk.path), tmp_path / "log"
    disk.make_read_only()
    code, said = NodeCommand(home, log, "--solo").end()
    assert code == 1
    assert "Traceback" not in said
    assert "Read-only file system; use a path that is writable, for example with --home" in " ".join(said.split())


def _height(node: NodeCommand, home: Path) -> int:
    assert node.process.poll() is None
    with ChainClient(f"127.0.0.1:{read_node_table(home)['grpc_port']}") as client, suppress(ChainError):
        return client.status().height
    return 0


# Daemons


@pytest.fixture
def disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MarketNetwork, dict[str, SmallDisk]]]:
    """A market whose winner and whose provider have a disk of their own each."""
    directory = tmp_path_factory.mktemp("disks")
    with ExitStack() as stack:
        mounted = {
            name: stack.enter_context(small_disk(directory / home, 64))
            for name, home in (("val0.validator", "val0/validator"), ("prov0", "prov0/provider"))
        }
        market = stack.enter_context(market_network(directory, (("",), (), ()), PARAMS, lambda _: PATIENT))
        yield market, mounted


def test_daemons_on_a_full_or_read_only_disk_say_so_and_the_order_ends_as_without(
    disks: tuple[MarketNetwork, dict[str, SmallDisk]],
) -> None:
    market, mounted = disks
    network = market.network

    def logged(name: str, since: int) -> str:
        return " ".join(network.log_path(name).read_text()[since:].split())

    market.bid("val0", "here")
    order = market.submit("here", deadline=3_000, deliver=False, time_to_live=600)
    order.wait_state(OrderState.MATCHED, SECONDS)

    # A validator whose disk is full says so, and takes the payload when there is space again.
    mounted["val0.validator"].fill()
    wait_until(lambda: FULL in logged("val0.validator", 0), "the validator to notice its full disk", SECONDS)
    assert "free some space on this disk" in logged("val0.validator", 0)
    mounted["val0.validator"].free()

    # A daemon that is started on such a disk names the file and the remedy, and does nothing.
    for name, disk in mounted.items():
        network.kill(name)
        for spoil, mend, reason in (
            (disk.fill, disk.free, "No space left on device; free some disk space"),
            (disk.make_read_only, disk.make_writable, "Read-only file system; use a path that is writable"),
        ):
            since = network.log_path(name).stat().st_size
            spoil()
            assert network.run_to_end(name, SECONDS) == 1
            said = logged(name, since)
            assert str(disk.path) in said
            assert reason in said
            assert "Traceback" not in said
            mend()
        network.start_one(name)

    # The order goes on.
    order.deliver = True
    order.wait_closed(SECONDS)
    assert order.close_reason is CloseReason.SETTLED
    assert "Traceback" not in logged("val0.validator", 0) + logged("prov0", 0)
