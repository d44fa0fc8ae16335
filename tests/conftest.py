"""What all tests share: how they are divided over processes, and Hypothesis without a clock."""

import fcntl
import gc
import logging
import os
import signal
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from host import lock as host_lock

# A busy machine is no reason to fail: examples are bounded in number, tests by pytest-timeout.
settings.register_profile("assay", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("assay")

# Keys of tests are the same everywhere: no process of another run, or of this one, is to be taken for a second daemon.
host_lock.NAMESPACE = f"assay-test-{os.getpid()}"

# A shell starts background jobs with SIGINT ignored, and tests interrupt commands.
signal.signal(signal.SIGINT, signal.default_int_handler)

_HERE = Path(__file__).parent
NETWORKS = ("disputes", "e2e", "integration", "market")
"""Folders of tests that start networks. They come first in the order of collection, and so each process begins one."""
NICENESS = 5
YOUNG_MAX = 50_000
"""New objects after which a process searches for garbage, as in a daemon."""


def group_of(path: Path) -> str:
    """Return the group of a test file: whoever runs one test of a group runs all of them (``--dist loadgroup``).

    A file keeps together, so that its fixtures are made once; and so does each folder that starts networks: no more
    than one network of each runs at a time. They wait for windows most of their time, so that a fifth process finds
    time for the rest.
    """
    part = path.relative_to(_HERE)
    return part.parts[0] if part.parts[0] in NETWORKS else part.as_posix()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each test its group, before xdist reads the groups; without xdist nobody knows the mark."""
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(item.path)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Search for no garbage while tests are collected: there is little, and each search looks at all that is kept."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Leave what was collected out of every later search for garbage, and let torch write no record for pytest."""
    gc.freeze()
    gc.set_threshold(YOUNG_MAX)
    # pytest adds its handlers to each log that does not propagate, and torch makes a record with a stack of each tensor
    # that it traces as soon as this log has one: half of the time that such a tensor takes.
    log = logging.getLogger("torch.__trace")
    log.propagate = True
    log.handlers.clear()


@pytest.fixture(scope="session")
def abci_logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Let the nodes of all networks log CometBFT's calls, and return the folder of the logs."""
    from chain.app.abci_log import VARIABLE  # only here, as tests of other folders do not need it

    folder = tmp_path_factory.mktemp("abci")
    os.environ[VARIABLE] = str(folder)
    yield folder
    del os.environ[VARIABLE]


@pytest.fixture(autouse=True)
def _calls_follow_the_grammar(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test of a network in which CometBFT's calls, or the answers to them, broke the grammar of ABCI."""
    if group_of(request.path) not in NETWORKS:
        yield
        return
    folder: Path = request.getfixturevalue("abci_logs")
    yield
    from tests.support.abci_grammar import Grammar

    for path in sorted(folder.iterdir()):
        Grammar().read(path.read_text().splitlines())


@cache
def _own(lock: Path) -> None:
    """Hold, until this process ends, what only one process of a run may hold: the networks of a group."""
    try:
        fcntl.flock(os.open(lock, os.O_CREAT | os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pytest.fail(f"another process of this run starts networks of {lock.name}, too: run it with --dist loadgroup")


@cache
def _stand_back() -> None:
    """Leave the processors to the networks of other processes of this run, whose deadlines go on."""
    os.nice(NICENESS)


@pytest.fixture(autouse=True)
def _networks_one_of_a_group_and_first(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Fail a test that starts a network where another process might do the same; let those that do go first."""
    if not hasattr(request.config, "workerinput"):
        return
    group = group_of(request.path)
    if group in NETWORKS:
        _own(tmp_path_factory.getbasetemp().parent / group)
    else:
        _stand_back()
