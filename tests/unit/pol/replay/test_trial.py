"""A trial finds what loading does not: results that are none, wherever they are, and how long the job takes."""

from itertools import pairwise
from pathlib import Path

import pytest

from pol.errors import AggregationFailed, NotFiniteStep, StepFailed
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.load import load_job
from pol.replay.trial import try_job
from pol.work.trials import TrialTimes
from tests.unit.pol.odd_jobs import (
    Change,
    beyond_the_table,
    halved,
    infinite,
    infinite_in_slot_one,
    products,
    write_odd_job,
)


def trial(
    directory: Path, step: Change = halved, outer: Change | None = None, slot: int = 0, slots: int = 1
) -> TrialTimes:
    write_odd_job(directory, step, outer)
    return try_job(load_job(directory), slot, range(slots), backend(Engine("numpy")))


def test_a_job_that_has_results_is_timed(tmp_path: Path) -> None:
    small = trial(tmp_path / "small")
    assert small.segment > 0
    assert small.outer > 0
    assert small.speed > 10**7


def test_what_takes_longer_is_found_to(tmp_path: Path) -> None:
    times = [trial(tmp_path / str(count), products(count)) for count in (1, 48)]
    assert all(4 * before.segment < after.segment for before, after in pairwise(times))
    times = [trial(tmp_path / f"outer{count}", outer=products(count)) for count in (1, 48)]
    assert all(4 * before.outer < after.outer for before, after in pairwise(times))


def test_a_first_segment_that_is_not_finite(tmp_path: Path) -> None:
    with pytest.raises(NotFiniteStep):
        trial(tmp_path, infinite)


def test_an_aggregation_that_is_not_finite(tmp_path: Path) -> None:
    with pytest.raises(AggregationFailed):
        trial(tmp_path, outer=infinite)


def test_rows_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(StepFailed):
        trial(tmp_path, beyond_the_table)


def test_the_first_step_of_every_slot_of_the_leg_is_tried(tmp_path: Path) -> None:
    with pytest.raises(NotFiniteStep, match="slot 1, step 0"):
        trial(tmp_path / "0", infinite_in_slot_one, slots=2)
    with pytest.raises(NotFiniteStep):
        trial(tmp_path / "1", infinite_in_slot_one, slot=1)
    # A leg may have other slots.
    trial(tmp_path / "2", infinite_in_slot_one)
