"""A cluster with a file larger than its object store, without its driver, and without a node that froze or died."""

import logging
import os
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from unittest.mock import patch

import psutil
import pytest

from pol.local.groups import training_together
from pol.local.run import run_locally
from pol.machines.group import Group
from pol.state.canonical import encode_state
from pol.work.cluster.client import Cluster
from pol.work.cluster.files import file_digest
from tests.cluster.conftest import (
    ENGINE,
    JOB,
    KEYS,
    STORE_BYTES,
    WAIT,
    Nodes,
    Provider,
    kill,
    tree,
    until,
    updates,
    working,
)
from tests.unit.pol.work.cluster.tasks import Copy, copy

DISK_BYTES = 8 << 20
pytestmark = [
    pytest.mark.ray,
    pytest.mark.nightly,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'assay[ray]'"),
]


def busy(cluster: Cluster) -> int:
    return sum(bool(node.tasks) for node in cluster.nodes)


def test_a_file_may_be_larger_than_the_store_of_objects(cluster: Cluster, tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        for number in range(3):
            file.write(bytes([number]) * STORE_BYTES)
    here = file_digest(large)
    assert cluster.executor("own").submit(file_digest, large, timeout=WAIT).result(WAIT) == here


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of a few megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"this user may mount no disk: {mounted.stderr.decode()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_node_with_a_full_disk_leaves_its_tasks_to_the_other_one(
    nodes: Nodes, two: Cluster, tmp_path: Path, small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Before a task, whose file does not fit; and in a task, which writes too much."""
    caplog.set_level(logging.DEBUG, "assay.cluster")
    own = two.executor("own")
    large, small, job = tmp_path / "large", tmp_path / "small", tmp_path / "job"
    large.write_bytes(b"l" * 3 * DISK_BYTES)
    small.write_bytes(b"s" * (DISK_BYTES // 8))
    job.mkdir()
    nodes.start(small_disk)
    try:
        until(lambda: len(working(two)) == 3)
        for source, count in ((large, 0), (small, 4)):
            caplog.clear()
            blocked = [own.submit(time.sleep, 3.0, timeout=WAIT) for _ in range(3)]
            until(lambda: busy(two) == 3)
            # When the nodes are free again, each takes one of these tasks.
            asked = [
                Copy(source, job, tuple(tmp_path / f"{source.name}{task}{number}" for number in range(count)))
                for task in range(3)
            ]
            done = [own.submit(copy, each, timeout=WAIT) for each in asked]
            for sleep in blocked:
                sleep.result(WAIT)
            assert {each.result(WAIT)[1] for each in done} == {file_digest(source)}
            sizes = [small.stat().st_size * (number + 1) for number in range(count)]
            assert [[path.stat().st_size for path in each.to] for each in asked] == [sizes] * 3
            until(lambda: "No space left on device" in caplog.text)
        assert any("No space" in node.fault for node in two.nodes)
        # It goes on with tasks that fit.
        found = [own.submit(file_digest, small, timeout=WAIT) for _ in range(6)]
        assert {each.result(WAIT) for each in found} == {file_digest(small)}
        assert len(working(two)) == 3
    finally:
        last = nodes.processes.pop()
        kill(last.pid)
        last.wait()
        until(lambda: len(working(two)) == 2)


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
    kill(nodes.processes[-1].pid)
    for sleep in blocked:
        sleep.result(WAIT)
    until(lambda: bool(provider.boundaries()))
    cluster = provider.machines._replayer.cluster  # type: ignore[attr-defined]
    cluster._driver.process.kill()
    assert updates(provider) == trained
    nodes.start()
    until(lambda: len(working(two)) == 2)


def test_a_node_killed_in_mid_step_changes_no_bit_of_a_slot_on_two_nodes(nodes: Nodes, two: Cluster) -> None:
    here = run_locally(JOB, engine=ENGINE, rounds=1)
    groups: list[Group] = []

    def watch(group: Group) -> None:
        groups.append(group)
        if len(groups) == 2:
            last = nodes.processes[-1].pid
            own = [psutil.Process(member) for member in group.members.pids.values()]
            (member,) = (each for each in own if last in {parent.pid for parent in each.parents()})
            # So it cannot end the segment before its node is gone.
            member.suspend()
            Timer(1.0, kill, [last]).start()

    with patch("pol.local.run.training_together", partial(training_together, watch=watch)):
        there = run_locally(JOB, engine=ENGINE, rounds=1, executor=f"ray://{two.address}", machines=2)
    assert there.rounds == here.rounds
    assert encode_state(there.state) == encode_state(here.state)
    assert len(groups[0].losses) == 1
    assert groups[0].spec.machines == 1
    nodes.start()
    until(lambda: len(working(two)) == 2)


def test_the_tasks_of_a_killed_node_end_on_the_other_one(nodes: Nodes, two: Cluster, tmp_path: Path) -> None:
    sleeps = [two.executor("own").submit(time.sleep, 5.0, timeout=WAIT) for _ in range(2)]
    until(lambda: busy(two) == 2)
    kill(nodes.processes[-1].pid)
    for sleep in sleeps:
        sleep.result(WAIT)
    until(lambda: len(working(two)) == 1)
    assert any(node.problem for node in two.nodes)
