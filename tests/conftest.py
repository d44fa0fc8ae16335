"""What all tests share: how they are divided over processes, and Hypothesis without a clock."""

import fcntl
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no reason to fail: examples are bounded in number, tests by pytest-timeout.
settings.register_profile("assay", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("assay")

_HERE = Path(__file__).parent
PROCESSES = "processes"
_START_PROCESSES = ("integration", "e2e")


def group_of(path: Path) -> str:
    """Return the group of a test file: whoever runs one test of a group runs all of them (``--dist loadgroup``).

    A file keeps together, so that its fixtures are made once; and everything that starts networks does, so that never
    do two start at a time.
    """
    part = path.relative_to(_HERE)
    return PROCESSES if part.parts[0] in _START_PROCESSES else part.as_posix()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each test its group, before xdist reads the groups; without xdist nobody knows the mark."""
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(item.path)))


@pytest.fixture(scope="session")
def _networks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Hold, until this process ends, what only one process of a run may hold."""
    if not hasattr(request.config, "workerinput"):
        return
    descriptor = os.open(tmp_path_factory.getbasetemp().parent / "networks", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pytest.fail(
            "another process of this run starts networks, too: run it with --dist loadgroup"
        )


@pytest.fixture(autouse=True)
def _networks_one_at_a_time(request: pytest.FixtureRequest) -> None:
    """Fail a test that starts a network where another process might do the same."""
    if group_of(request.path) == PROCESSES:
        request.getfixturevalue("_networks")
