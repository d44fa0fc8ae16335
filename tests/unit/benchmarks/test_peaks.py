"""The memory that steps declare, beside what processes really have."""

import pytest

from benchmarks import memory, peaks


@pytest.mark.skipif(not memory.AVAILABLE, reason="this system does not say what a process had")
def test_a_step_declares_about_what_it_takes() -> None:
    (row,) = peaks.run(["digits"]).rows
    assert 0.5 < (row.ratio or 0) < peaks.GOAL
    assert all(found for found in row.columns.values())
