"""A Chromium for all tests here, and a page of it for each."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import Browser, NoBrowser, Page, find_chromium, running

SHOTS = "ASSAY_SCREENSHOTS"
"""Names the folder that screenshots are written to; without it they are taken and thrown away."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        program = find_chromium()
    except NoBrowser as reason:
        pytest.skip(f"no browser: {reason}")
    with running(program) as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.page()
    yield page
    complaints = page.complaints()
    page.close()
    assert complaints == []


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    given = os.environ.get(SHOTS)
    found = Path(given).resolve() if given else tmp_path
    found.mkdir(parents=True, exist_ok=True)
    return found
