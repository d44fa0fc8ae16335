"""What a process may use: affinity as the kernel has it, limits as cgroups of both versions write them."""

import os
from pathlib import Path

import pytest

from host.confines import Confines, read_confines

GIB = 2**30


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "own"


def test_nothing_that_can_be_read_is_no_limit(tmp_path: Path, own: Path) -> None:
    found = read_confines(tmp_path / "none", own)
    assert (found.cpu_time, found.is_memory_limited) == (None, False)
    assert found.allowed == len(os.sched_getaffinity(0))


def test_groups_of_version_2_and_those_above_them(tmp_path: Path, own: Path) -> None:
    own.write_text("0::/assay.slice/provider.service\n")
    groups = tmp_path / "groups"
    write(groups / "assay.slice", cpu__max="150000 100000\n", memory__max="max\n")
    write(groups / "assay.slice/provider.service", cpu__max="max 100000\n", memory__max=f"{GIB}\n")
    found = read_confines(groups, own)
    assert (found.cpu_time, found.memory, found.is_memory_limited) == (1.5, GIB, True)


def test_a_container_has_its_group_at_the_root(tmp_path: Path, own: Path) -> None:
    own.write_text("0::/outside/and/unseen\n")
    write(tmp_path / "groups", cpu__max="50000 100000\n")
    assert read_confines(tmp_path / "groups", own).cpu_time == 0.5


def test_groups_of_version_1(tmp_path: Path, own: Path) -> None:
    own.write_text("5:memory:/a\n4:cpu,cpuacct:/a\n3:cpuset:/\n0::/\n")
    groups = tmp_path / "groups"
    write(groups / "cpu/a", cpu__cfs_quota_us="25000\n", cpu__cfs_period_us="100000\n")
    write(groups / "cpu", cpu__cfs_quota_us="-1\n", cpu__cfs_period_us="100000\n")
    write(groups / "memory/a", memory__limit_in_bytes=f"{2**63 - 4096}\n")
    found = read_confines(groups, own)
    assert (found.cpu_time, found.is_memory_limited) == (0.25, False)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"allowed": 2}, "2 of 16 processors by affinity"),
        ({"cpu_time": 0.5}, "CPU time of 0.5 processors by cgroup"),
        ({"cpu_time": 20.0}, ""),
        ({"threads": 3}, "3 threads by OMP_NUM_THREADS"),
        ({"threads": 1}, "1 thread by OMP_NUM_THREADS"),
        ({"is_memory_limited": True}, "4 GiB of memory by cgroup"),
        (
            {"allowed": 2, "cpu_time": 1.5},
            "2 of 16 processors by affinity, CPU time of 1.5 processors by cgroup",
        ),
    ],
)
def test_limits_are_said_where_there_are_some(changes: dict[str, float], said: str) -> None:
    whole: dict[str, float | None] = {
        "processors": 16,
        "allowed": 16,
        "cpu_time": None,
        "threads": 0,
    }
    whole |= {"memory": 4 * GIB, "is_memory_limited": False}
    assert str(Confines(**{**whole, **changes})) == said  # type: ignore[arg-type]


def test_the_kernels_own_affinity_counts() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert read_confines().allowed == 1
    finally:
        os.sched_setaffinity(0, allowed)
