"""A trial of a job on several machines: the verdicts of a trial in one process."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import assay
from domain.legs.reasons import LegEnd
from pol.capture.build import build
from pol.executor.names import Engine
from pol.job.document import order_terms
from pol.job.load import load_job
from pol.machines.form import spec_here
from pol.machines.pool import GroupPool, OneGroup
from pol.replay.trial import TrialRequest, try_payload
from pol.replay.trial_together import try_together
from pol.work.executor import TaskTimeout
from tests.support.tolerant import tolerant
from tests.unit.pol.odd_jobs import (
    SLOTS,
    Change,
    beyond_the_table,
    broad,
    halved,
    infinite,
    infinite_in_slot_one,
    products,
    write_odd_job,
)
from tests.unit.pol.replay.test_coded_updates import spec as coded_spec
from tests.unit.validator.trained import JOB
from validator.work.together import Together

ENGINE = Engine("numpy", threads=1, memory=1 << 30)
CASES: dict[str, tuple[Change, Change | None, int]] = {
    "right": (halved, None, 0),
    "a segment": (infinite, None, LegEnd.DECLINED_NOT_FINITE),
    "the first step of another slot": (infinite_in_slot_one, None, LegEnd.DECLINED_NOT_FINITE),
    "an aggregation": (halved, infinite, LegEnd.DECLINED_NOT_FINITE),
    "a row that is not there": (beyond_the_table, None, LegEnd.DECLINED_NOT_FINITE),
}


def ask(function: Callable[..., Any], *args: Any, timeout: float) -> Any:
    del timeout
    return function(*args)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[GroupPool]:
    hosting = OneGroup(spec_here((2, 1), ENGINE))
    made = GroupPool(hosting, ask, tmp_path / "groups", tmp_path / "scratch")
    yield made
    made.close()


def request(job: Path, **changes: Any) -> TrialRequest:
    terms = order_terms(load_job(job).job)
    base = TrialRequest(directory=job, terms=terms, slot=0, slots=range(SLOTS), memory=0, engine=ENGINE)
    return replace(base, **changes)


@pytest.mark.parametrize("name", CASES)
def test_a_trial_has_the_verdict_of_one_process(pool: GroupPool, name: str, tmp_path: Path) -> None:
    step, outer, decline = CASES[name]
    write_odd_job(tmp_path / "job", step, outer)
    asked = request(tmp_path / "job")
    found, alone = try_together(pool, asked, inf, Event()), try_payload(asked)
    assert (found.decline, found.text, found.terms) == (alone.decline, alone.text, alone.terms)
    assert found.decline == decline
    assert (found.times is None) == (alone.times is None)
    if found.times is not None and alone.times is not None:
        assert min(found.times.segment, found.times.outer, found.times.speed) > 0
        assert found.times.close == alone.times.close
    assert not any((tmp_path / "scratch").iterdir())


def test_no_state_of_a_tried_job_is_whole_in_one_process(
    pool: GroupPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the sandbox is this process, which checks the job. The members are others, and hold their own tensors."""
    write_odd_job(tmp_path / "job", halved)
    asked = request(tmp_path / "job")

    def whole(*_args: object) -> None:
        raise AssertionError("a state is read as a whole")

    for place in ("pol.job.load", "pol.state.canonical", "pol.job.slots"):
        monkeypatch.setattr(f"{place}.read_next_state", whole)
    found = try_together(pool, asked, inf, Event())
    assert (found.decline, found.text) == (0, "")
    assert found.times is not None
    assert min(found.times.segment, found.times.outer, found.times.speed) > 0


def test_the_code_of_an_update_is_timed(pool: GroupPool, tmp_path: Path) -> None:
    build(replace(coded_spec(), update=assay.Sparse(chunk=64, keep=4)), tmp_path / "job", check=False)
    asked = request(tmp_path / "job", slots=range(1))
    found = try_together(pool, asked, inf, Event())
    assert found.times is not None, found.text
    assert found.times.close > 0


def test_work_counts_on_all_machines(pool: GroupPool, tmp_path: Path) -> None:
    """A long segment takes longer than a short one, wherever it is computed."""
    times = []
    for number, count in enumerate((1, 100)):
        write_odd_job(tmp_path / str(number), products(count))
        trial = try_together(pool, request(tmp_path / str(number)), inf, Event())
        assert trial.times is not None
        times.append(trial.times.segment)
    assert times[1] > 2 * times[0]


def test_each_machine_needs_the_memory_of_a_device(pool: GroupPool, tmp_path: Path) -> None:
    write_odd_job(tmp_path / "job", broad(1 << 24))
    found = try_together(pool, request(tmp_path / "job", memory=100 << 20), inf, Event())
    assert found.decline == LegEnd.DECLINED_BAD_JOB
    assert "each machine needs" in found.text
    assert "the bid has" in found.text


def test_another_job_and_one_that_does_not_load_are_not_tried(pool: GroupPool, tmp_path: Path) -> None:
    write_odd_job(tmp_path / "job")
    asked = request(tmp_path / "job")
    other = replace(asked, terms=replace(asked.terms, rounds=3))
    found = try_together(pool, other, inf, Event())
    assert (found.terms, found.times, found.decline) == (asked.terms, None, 0)
    (tmp_path / "job" / "global.state").unlink()
    found = try_together(pool, asked, inf, Event())
    assert found.decline == LegEnd.DECLINED_BAD_JOB
    assert "global.state" in found.text


def test_a_trial_ends_at_its_deadline_and_a_daemon_gives_it_to_the_group(pool: GroupPool, tmp_path: Path) -> None:
    write_odd_job(tmp_path / "job", products(100), segment_steps=10**6)
    together = Together(pool)
    assert together.takes(try_payload)
    with pytest.raises(TaskTimeout):
        together.run(try_payload, request(tmp_path / "job"), time.monotonic() + 4.0, Event())
    assert not pool.processes()


def test_a_job_in_hardware_arithmetic_is_tried_by_one_machine(
    pool: GroupPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def formed(*_args: object) -> None:
        raise AssertionError("a group is formed")

    monkeypatch.setattr(pool, "group", formed)
    for precision, decline in (("fp32", 0), ("tf32", LegEnd.DECLINED_BY_CHOICE)):
        asked = request(tolerant(JOB, tmp_path / precision, precision), slots=range(1), hardware=True)
        found = try_together(pool, asked, inf, Event())
        assert (found.decline, found.times is None) == (decline, bool(decline))
