"""What all tests share: how they are divided over processes, and Hypothesis without a clock."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no reason to fail: examples are bounded in number, tests by pytest-timeout.
settings.register_profile("assay", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("assay")

_HERE = Path(__file__).parent
_PROCESSES = ("integration", "e2e")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep each file in one process, and everything that starts networks in the same one.

    So fixtures are made once, and never do two networks start at a time.
    """
    for item in items:
        part = item.path.relative_to(_HERE)
        group = "processes" if part.parts[0] in _PROCESSES else str(part)
        item.add_marker(pytest.mark.xdist_group(group))
