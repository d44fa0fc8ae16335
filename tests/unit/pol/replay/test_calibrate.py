"""Calibration: drawn segments begin with the right states, and honest runs of other arithmetic pass its profile."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from host.process import start_child
from pol.errors import ExecutionError, ProfileError
from pol.executor.backend import backend
from pol.executor.hardware import REVERSED, Hardware
from pol.executor.hardware_backend import hardware_backend
from pol.executor.names import Engine
from pol.job.load import LoadedJob
from pol.local.run import run_locally
from pol.replay.calibrate import Measurement, draw_segments, judge, measure, write_starts
from pol.replay.controlled import read_states
from pol.replay.controls import EXACT, HardwareControl, find_controls
from pol.replay.distances import SegmentEnd, distances
from pol.replay.trace_file import read_trace
from pol.rules.tolerance import BF16, SAME, Distance, within
from pol.state.canonical import state_tree
from pol.work.records import RoundSlot
from pol.work.segments import run_steps, slot_state
from tests.unit.pol.replay.conftest import FIXTURE

PLAIN = HardwareControl(Hardware(threads=1))
CONTROLS = (PLAIN, HardwareControl(Hardware(order=REVERSED, threads=1)))


@pytest.fixture(scope="module")
def measured() -> Measurement:
    """The tiny job under three controls, one of which is exact arithmetic."""
    return measure(FIXTURE, (*CONTROLS, HardwareControl(None)), segments=3, runs=2, random=Random(1))


def test_segments_are_drawn_from_all_parts_of_the_time(loaded: LoadedJob) -> None:
    document = loaded.job.document
    every = document.rounds * document.slots * document.share_segments
    places = draw_segments(document, 10**6, document.rounds, Random(1))
    assert len(set(places)) == len(places) == every
    draws = {draw_segments(document, 2, document.rounds, Random(seed)) for seed in range(50)}
    assert len(draws) > 3
    assert all(first.round <= second.round for first, second in draws)
    assert {place.round for seed in range(20) for place in draw_segments(document, 3, 1, Random(seed))} == {0}


def test_a_segment_begins_with_the_states_of_the_training(loaded: LoadedJob, tmp_path: Path) -> None:
    document = loaded.job.document
    places = draw_segments(document, 10**6, document.rounds, Random(1))
    starts = tmp_path / "starts"
    starts.mkdir()
    write_starts(loaded, places, backend(Engine("numpy")), starts, lambda what, done, total: None)
    done = run_locally(FIXTURE, document.rounds, Engine("numpy"), out=tmp_path / "run")
    assert done.trace is not None
    shares = {(share.round, share.slot): share for share in read_trace(done.trace).shares}
    for number, place in enumerate(places):
        start = read_states(starts, str(number), document)
        boundary = shares[place.round, place.slot].boundaries[place.segment]
        assert state_tree(start.global_state).root == boundary.global_root
        assert state_tree(start.local_state).root == boundary.local_root


def test_every_end_is_compared_with_every_other(measured: Measurement) -> None:
    assert [control.name for control in measured.controls] == [control.name for control in CONTROLS] + [EXACT]
    assert len(measured.comparisons) == 3 * 6 * 5
    same = [each for each in measured.comparisons if each.reference == each.other]
    assert same
    assert all(distance == SAME for each in same for distance in each.distances.values())
    other = [each for each in measured.comparisons if EXACT in (each.reference, each.other)]
    assert all(any(distance != SAME for distance in each.distances.values()) for each in other[:2])
    assert all(each.machine and each.versions for each in measured.controls)


def test_honest_runs_pass_their_profile_and_lower_precision_does_not(measured: Measurement, loaded: LoadedJob) -> None:
    inexact = replace(
        measured,
        comparisons=tuple(each for each in measured.comparisons if EXACT not in (each.reference, each.other)),
    )
    profile = inexact.profile()
    assert judge(profile, inexact).holds

    def ended(hardware: Hardware) -> SegmentEnd:
        begun = slot_state(loaded, loaded.global_state, loaded.local_state)
        state, metrics = run_steps(loaded, RoundSlot(0, 0), 0, begun, hardware_backend(hardware))
        named = dict(zip(loaded.job.document.metrics, metrics, strict=True))
        return SegmentEnd(state.global_state, state.local_state, named)

    start = SegmentEnd(loaded.global_state, loaded.local_state, {})
    right, narrow = ended(Hardware()), ended(Hardware(precision=BF16))
    assert within(distances(start, right, ended(Hardware(order=REVERSED))), profile.thresholds)
    assert not within(distances(start, right, narrow), profile.thresholds)


def test_a_profile_that_rejects_honest_work_or_is_loose(measured: Measurement) -> None:
    profile = measured.profile(1)
    name = profile.tensors[0].name
    worse = replace(
        measured,
        comparisons=(
            replace(
                measured.comparisons[0],
                distances={**measured.comparisons[0].distances, name: Distance(largest=2**31, mean=0)},
            ),
        ),
    )
    check = judge(profile, worse)
    assert [tensor for _, tensor in check.rejected] == [name]
    assert not check.holds
    loose = judge(measured.profile(5), measured, 4)
    assert loose.loose
    assert not loose.rejected
    assert not loose.holds
    for change in ({"job": bytes(32)}, {"precision": BF16}, {"segment_steps": 10**6}):
        with pytest.raises(ProfileError):
            judge(profile, replace(measured, **change))


def test_calibration_needs_two_ends_and_a_hardware_arithmetic() -> None:
    with pytest.raises(ExecutionError, match="first control is exact"):
        measure(FIXTURE, (HardwareControl(None),))
    with pytest.raises(ExecutionError, match="no two ends"):
        measure(FIXTURE, (PLAIN,), segments=1)


def test_a_control_that_ends_by_a_signal_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(command: list[str], **options: object) -> object:
        return start_child(["/bin/sh", "-c", "kill -ILL $$"], **options)  # type: ignore[arg-type]

    monkeypatch.setattr("pol.replay.calibrate.start_child", killed)
    with pytest.raises(ExecutionError, match="ended by signal 4"):
        measure(FIXTURE, CONTROLS, segments=1)


def test_controls_of_this_machine() -> None:
    controls = find_controls(exact=True)
    assert len({control.name for control in controls}) == len(controls) > 4
    assert controls[0].hardware is not None
    assert controls[-1].name == EXACT
    assert all(control.hardware is None or control.hardware.device == "cpu" for control in controls)
    assert controls[0].environment["OMP_NUM_THREADS"] == "1"
    gpu = find_controls(device="cuda")
    assert [control.hardware.device for control in gpu if control.hardware] == ["cuda", "cuda", "cuda", "cpu"]
    assert all(control.hardware and control.hardware.device == "cuda" for control in find_controls(BF16, "cuda"))
