"""A profile becomes the thresholds of its own job, and of no other."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from shutil import copytree

import pytest

from pol.errors import JobError, ProfileError
from pol.executor.hardware import HALVES, Hardware
from pol.executor.hardware_backend import hardware_backend
from pol.executor.names import Engine
from pol.job.document import dump_job
from pol.job.load import load_job
from pol.job.paths import DOCUMENT
from pol.job.tolerance import thresholds_of
from pol.local.inspect import inspect_job
from pol.local.run import run_locally
from pol.replay.calibrate import judge, measure
from pol.replay.consent import add_tolerance, tolerance_of
from pol.replay.controls import HardwareControl
from pol.replay.profile import Profile
from pol.rules.tolerance import BF16
from pol.state.canonical import state_tree
from pol.work.records import RoundSlot
from pol.work.segments import run_segment, slot_state
from tests.support.tolerant import CONTROLS
from tests.unit.pol.replay.conftest import FIXTURE


@pytest.fixture(scope="module")
def profile() -> Profile:
    return measure(FIXTURE, CONTROLS, segments=3, random=Random(1)).profile()


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return Path(copytree(FIXTURE, tmp_path / "job"))


def test_the_thresholds_are_those_of_the_profile(job: Path, profile: Profile) -> None:
    before = load_job(job).job
    changed = add_tolerance(job, profile)
    tolerance = load_job(job).job.document.tolerance
    assert tolerance is not None
    assert (tolerance.precision, thresholds_of(tolerance)) == (profile.precision, dict(profile.thresholds))
    assert changed.id != before.id
    assert changed.profiled_id == before.id
    assert (inspect_job(before).precision, inspect_job(before).thresholds) == ("", 0)
    assert (inspect_job(changed).precision, inspect_job(changed).thresholds) == ("fp32", len(profile.tensors))


def test_a_job_that_has_thresholds_may_be_measured_again_and_gets_others(job: Path, profile: Profile) -> None:
    add_tolerance(job, profile)
    measured = measure(job, CONTROLS, segments=2, random=Random(2))
    assert measured.job == profile.job
    assert not judge(profile, measured).rejected
    again = measured.profile(16)
    add_tolerance(job, again)
    assert load_job(job).job.document.tolerance == tolerance_of(again, load_job(job).job)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda profile: replace(profile, job=bytes(32)), "job"),
        (lambda profile: replace(profile, segment_steps=1), "segment_steps"),
        (lambda profile: replace(profile, tensors=profile.tensors[1:]), "tensors"),
        (
            lambda profile: replace(
                profile, tensors=(replace(profile.tensors[0], name="global.other"), *profile.tensors[1:])
            ),
            "tensors",
        ),
    ],
)
def test_a_profile_of_another_job_is_refused(
    job: Path, profile: Profile, change: Callable[[Profile], Profile], field: str
) -> None:
    before = (job / DOCUMENT).read_bytes()
    with pytest.raises(ProfileError) as caught:
        add_tolerance(job, change(profile))
    assert caught.value.field == field
    assert "assay job calibrate" in caught.value.remedy
    assert (job / DOCUMENT).read_bytes() == before


def test_a_job_is_trained_exactly_unless_it_is_asked_otherwise(job: Path, profile: Profile, tmp_path: Path) -> None:
    exact = run_locally(FIXTURE, 1)
    add_tolerance(job, profile)
    assert state_tree(run_locally(job, 1).state).root == state_tree(exact.state).root
    steps: list[int] = []
    ran = run_locally(
        job,
        1,
        Engine("numpy", threads=1),
        lambda _round, _slot, step, _loss: steps.append(step),
        tmp_path / "run",
        keep_states=True,
        hardware=True,
    )
    assert steps
    assert state_tree(ran.state).root != state_tree(exact.state).root
    loaded = load_job(job)
    start = slot_state(loaded, loaded.global_state, loaded.local_state)
    _, boundary = run_segment(loaded, RoundSlot(0, 0), 0, start, hardware_backend(Hardware(threads=1)))
    assert (tmp_path / "run" / "states" / f"{boundary.global_root.hex()}.state").exists()


def test_hardware_arithmetic_at_home_needs_the_consent_and_one_machine(job: Path, profile: Profile) -> None:
    with pytest.raises(JobError, match="does not consent") as caught:
        run_locally(job, 1, hardware=True)
    assert "--tolerance" in caught.value.remedy
    add_tolerance(job, profile)
    with pytest.raises(JobError, match="only one machine"):
        run_locally(job, 1, hardware=True, machines=2)


def test_a_precision_is_part_of_the_consent(profile: Profile) -> None:
    narrow = (HardwareControl(Hardware(BF16, threads=1)), HardwareControl(Hardware(BF16, order=HALVES, threads=1)))
    other = measure(FIXTURE, narrow, segments=2, random=Random(1)).profile()
    job = load_job(FIXTURE).job
    assert (tolerance_of(profile, job).precision, tolerance_of(other, job).precision) == ("fp32", "bf16")
    assert dump_job(replace(job.document, tolerance=tolerance_of(other, job))) != dump_job(job.document)
