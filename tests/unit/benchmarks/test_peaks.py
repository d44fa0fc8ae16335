"""The memory that steps declare, beside what processes really have."""

import pytest

from benchmarks import memory, peaks
from benchmarks.figures import Row


@pytest.mark.skipif(not memory.AVAILABLE, reason="this system does not say what a process had")
def test_a_step_declares_about_what_it_takes() -> None:
    (row,) = peaks.run(["digits"]).rows
    assert 0.5 < (row.ratio or 0) < peaks.GOAL
    assert all(found for found in row.columns.values())


def test_what_declares_too_little_fails_as_what_declares_too_much() -> None:
    figures = peaks.judged([Row(str(value), value, "MiB", 1.0) for value in (0.7, 0.8, 1.2, 1.4)])
    assert figures.failed
    assert [note.partition(":")[0] for note in figures.notes] == ["0.7", "1.4"]
