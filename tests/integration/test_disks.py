"""Full and read-only disks: a node ends with a sentence, and goes on when the disk is mended."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from chain.app.homes import read_node_table
from chain.app.node import ready_path
from chain.app.storage import export_state
from chain.client.client import ChainClient
from chain.client.errors import ChainError
from tests.support.node_process import make_home
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.waiting import wait_until

ASSAY = (sys.executable, "-m", "assay.cli")
SECONDS = 300.0

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
