"""A cluster with a file larger than its object store, without its driver, and without a node that froze or died."""

import os
import signal
import time
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from pol.work.cluster.client import Cluster
from pol.work.cluster.files import file_digest
from tests.cluster.conftest import KEYS, STORE_BYTES, WAIT, Nodes, Provider, until, updates, working

pytestmark = [
    pytest.mark.ray,
    pytest.mark.nightly,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'assay[ray]'"),
]


def busy(cluster: Cluster) -> int:
    return sum(bool(node.tasks) for node in cluster.nodes)


def tree(process: int) -> list[psutil.Process]:
    """Return the processes of a node."""
    parent = psutil.Process(process)
    return [parent, *parent.children(recursive=True)]


def test_a_file_may_be_larger_than_the_store_of_objects(cluster: Cluster, tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        for number in range(3):
            file.write(bytes([number]) * STORE_BYTES)
    here = file_digest(large)
    assert cluster.executor("own").submit(file_digest, large, timeout=WAIT).result(WAIT) == here


def test_a_driver_that_is_killed_is_replaced_and_its_tasks_end(two: Cluster) -> None:
    sleeps = [two.executor("own").submit(time.sleep, 5.0, timeout=WAIT) for _ in range(2)]
    until(lambda: busy(two) == 2)
    assert two._driver is not None
    two._driver.process.kill()
    for sleep in sleeps:
        sleep.result(WAIT)
    until(lambda: len(working(two)) == 2)


def test_a_frozen_node_is_lost_and_its_answer_is_dropped_when_it_thaws(nodes: Nodes, two: Cluster) -> None:
    own = two.executor("own")
    sleeps = [own.submit(time.sleep, 5.0, timeout=WAIT) for _ in range(2)]
    until(lambda: busy(two) == 2)
    frozen = tree(nodes.processes[-1].pid)
    for process in frozen:
        process.suspend()
    try:
        for sleep in sleeps:
            sleep.result(WAIT)
        assert len(working(two)) == 1
    finally:
        for process in frozen:
            process.resume()
    # A node that its cluster has given up ends when it thaws.
    nodes.start()
    until(lambda: len(working(two)) == 2)
    assert isinstance(own.submit(os.getpid, timeout=WAIT).result(WAIT), int)


def test_a_node_killed_in_mid_segment_and_a_driver_killed_change_no_bit(
    nodes: Nodes, two: Cluster, provider: Provider, trained: set[str], tmp_path: Path
) -> None:
    executor = provider.machines._executor
    blocked = [executor.submit(time.sleep, 3.0, timeout=WAIT) for _ in range(2)]
    for key in KEYS:
        provider.start(key, tmp_path / str(key.slot))
    until(lambda: sum(bool(node.tasks) for node in provider.machines.nodes) == 2)
    for process in tree(nodes.processes[-1].pid):
        process.send_signal(signal.SIGKILL)
    for sleep in blocked:
        sleep.result(WAIT)
    until(lambda: bool(provider.boundaries()))
    cluster = provider.machines._replayer.cluster  # type: ignore[attr-defined]
    cluster._driver.process.kill()
    assert updates(provider) == trained
    nodes.start()
    until(lambda: len(working(two)) == 2)


def test_the_tasks_of_a_killed_node_end_on_the_other_one(nodes: Nodes, two: Cluster, tmp_path: Path) -> None:
    sleeps = [two.executor("own").submit(time.sleep, 5.0, timeout=WAIT) for _ in range(2)]
    until(lambda: busy(two) == 2)
    for process in tree(nodes.processes[-1].pid):
        process.send_signal(signal.SIGKILL)
    for sleep in sleeps:
        sleep.result(WAIT)
    until(lambda: len(working(two)) == 1)
    assert any(node.problem for node in two.nodes)
