"""What all tests share: how they are divided over processes, and Hypothesis without a clock."""

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# A busy machine is no reason to fail: examples are bounded in number, tests by pytest-timeout.
settings.register_profile("assay", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("assay")

_PROCESSES = ("tests/integration/", "tests/e2e/")


class FileScheduling(LoadScopeScheduling):
    """Keeps each file in one process, and everything that starts networks in the same one.

    So fixtures are made once, and never do two networks start at a time.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return "processes" if path.startswith(_PROCESSES) else path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduling:
    """Divide tests as above (a hook of pytest-xdist)."""
    return FileScheduling(config, log)
