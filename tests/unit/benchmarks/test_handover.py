"""What owners send each other goes from disk to disk, between real processes."""

import pytest

from benchmarks import handover, memory
from benchmarks.figures import Row

SIZE = 48 * 2**20


@pytest.mark.skipif(not memory.AVAILABLE, reason="this system does not say what a process had")
def test_no_process_has_what_it_sends_or_receives_in_memory() -> None:
    figures = handover.run(SIZE)
    assert not figures.failed
    assert len(figures.rows) == len(handover.WAYS) + len(handover.WAYS_OF_DATA)
    for row in figures.rows:
        assert row.value > 0
        # of 48 MiB: far less for who only hands on; who opens a result reads it in parts of 16 MiB
        assert (row.columns["validator grew"] or 0) < 40, row
        assert (row.columns.get("other grew") or 0) < 80, row


def test_a_process_that_grows_with_the_bytes_fails() -> None:
    rows = [Row("way", 1.0, "s", columns={"validator grew": 3.0, "other grew": 97.0})]
    figures = handover.judged(rows)
    assert figures.failed
    assert figures.notes == ["way: a process grew by more than 96 MiB"]
