"""The root of some work on this machine. ``tests/unit/benchmarks/test_exactness.py`` has it on others."""

import pytest

from pol.executor.backend import backend
from pol.executor.names import BACKENDS, Engine
from tests.unit.pol.executor.stand_in import exact

PINNED = "b483bf295d0163e5bd2efbc8879001ddb79c0695c80b30f6c43475b1d1512750"
"""Root of the work on any machine; it changes with the executor version only."""


@pytest.mark.parametrize("name", BACKENDS)
def test_this_process(name: str) -> None:
    assert exact(backend(Engine(name))) == PINNED
