"""Lint tests search for no garbage: they make syntax trees without circles, and each search looks at all of them."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="package")
def _no_search_for_garbage() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()
