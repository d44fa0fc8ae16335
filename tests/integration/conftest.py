"""Every application that a test here runs in its process has three followers, and all four must agree."""

from collections.abc import Iterator

import pytest

from tests.support.four_apps import FourApplications


@pytest.fixture(scope="package", autouse=True)
def four_applications() -> Iterator[FourApplications]:
    """Record the applications of all tests of this folder."""
    with FourApplications().recording() as four:
        yield four


@pytest.fixture(autouse=True)
def _four_agree(four_applications: FourApplications) -> Iterator[None]:
    """Fail a test whose application got other results than its followers."""
    yield
    assert not (difference := four_applications.check()), difference
