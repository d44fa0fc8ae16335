"""Groups of processes that train a slot together: the roots of one process, and losses."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pol.errors import ExecutionError, NotFiniteStep, ReplayError, StateError
from pol.executor.backend import backend
from pol.executor.names import NUMPY, Engine
from pol.job.load import LoadedJob, load_job
from pol.job.write import write_job
from pol.local.run import run_locally
from pol.machines.form import GroupSpec, spec_here
from pol.machines.group import Group
from pol.machines.parts import forms_of
from pol.split.machine import Machine
from pol.state.arrays import State
from pol.state.canonical import encode_state, read_state
from pol.work.executor import OutOfMemory
from pol.work.records import Boundary, RoundSlot
from pol.work.segments import SlotState, run_segment, slot_state
from tests.unit.pol.tiny import FIXTURE, tiny_source

PART = RoundSlot(0, 0)
SPEC = GroupSpec(
    machines=2,
    machine=Machine(speed=10**9, memory=2**31, bandwidth=10**8),
    memory=2**31,
    engine=Engine(threads=1),
    shape=(2, 1),
    patience=60.0,
)


@pytest.fixture(scope="module")
def loaded() -> LoadedJob:
    return load_job(FIXTURE)


@pytest.fixture(scope="module")
def alone(loaded: LoadedJob) -> list[tuple[Boundary, SlotState]]:
    """The boundaries after two segments in one process."""
    state = slot_state(loaded, loaded.global_state, loaded.local_state)
    found = []
    for index in range(2):
        state, boundary = run_segment(loaded, PART, index, state, backend(Engine(NUMPY)))
        found.append((boundary, state))
    return found


@pytest.fixture
def states(tmp_path: Path, loaded: LoadedJob) -> tuple[Path, Path]:
    folder = tmp_path / "files"
    folder.mkdir()
    paths = folder / "global", folder / "local"
    for path, state in zip(paths, (loaded.global_state, loaded.local_state), strict=True):
        path.write_bytes(encode_state(state))
    return paths


def roots_of(loaded: LoadedJob) -> tuple[bytes, bytes]:
    return loaded.job.document.global_root, loaded.job.document.local_root


@pytest.fixture
def group(tmp_path: Path, loaded: LoadedJob, states: tuple[Path, Path]) -> Iterator[Group]:
    with Group(FIXTURE, forms_of(loaded.job), tmp_path / "files", SPEC) as made:
        made.open(*states, roots_of(loaded))
        yield made


def same(first: State, second: State) -> bool:
    return first.keys() == second.keys() and all((first[name] == second[name]).all() for name in first)


def test_two_processes_give_the_roots_of_one(
    group: Group, loaded: LoadedJob, alone: list[tuple[Boundary, SlotState]], tmp_path: Path
) -> None:
    losses: list[tuple[int, float]] = []
    for index, (boundary, _) in enumerate(alone):
        assert group.run_segment(PART, index, lambda step, loss: losses.append((step, loss))) == boundary
    group.write(tmp_path / "end.global", tmp_path / "end.local")
    document, end = loaded.job.document, alone[-1][1]
    assert same(read_state(tmp_path / "end.global", document.global_tensors), end.global_state)
    assert same(read_state(tmp_path / "end.local", document.local_tensors), end.local_state)
    assert [step for step, _ in losses] == list(range(2 * document.segment_steps))
    assert group.sent > 0
    assert group.losses == []


@pytest.mark.parametrize("machine", [0, 1])
def test_after_a_loss_the_rest_goes_on_from_the_last_boundary(
    group: Group, alone: list[tuple[Boundary, SlotState]], machine: int
) -> None:
    assert group.run_segment(PART, 0) == alone[0][0]
    os.kill(group.members.pids[machine], signal.SIGKILL)
    assert group.run_segment(PART, 1) == alone[1][0]
    assert len(group.losses) == 1
    assert len(group.members.pids) == 1


def test_a_loss_before_the_first_segment(group: Group, alone: list[tuple[Boundary, SlotState]]) -> None:
    os.kill(group.members.pids[1], signal.SIGKILL)
    assert [group.run_segment(PART, index) for index in range(2)] == [boundary for boundary, _ in alone]


def test_a_frozen_machine_is_lost_at_the_deadline(
    tmp_path: Path, loaded: LoadedJob, states: tuple[Path, Path], alone: list[tuple[Boundary, SlotState]]
) -> None:
    with Group(FIXTURE, forms_of(loaded.job), tmp_path / "files", replace(SPEC, patience=8.0)) as group:
        group.open(*states, roots_of(loaded))
        frozen = group.members.pids[1]
        os.kill(frozen, signal.SIGSTOP)
        assert group.run_segment(PART, 0) == alone[0][0]
        assert len(group.losses) == 1
        # It was ended, so it can't wake up later.
        with pytest.raises(ProcessLookupError):
            os.kill(frozen, signal.SIGCONT)


def test_without_machines_the_error_says_so(group: Group) -> None:
    for process in group.members.pids.values():
        os.kill(process, signal.SIGKILL)
    with pytest.raises(ReplayError, match="no machine is left"):
        group.run_segment(PART, 0)


def test_another_state_is_refused(tmp_path: Path, loaded: LoadedJob, states: tuple[Path, Path], group: Group) -> None:
    with pytest.raises(StateError, match="expected root"):
        group.open(*states, (bytes(32), roots_of(loaded)[1]))
    states[0].write_bytes(states[0].read_bytes()[:-1])
    assert group.members.pids


def test_members_end_with_the_group(tmp_path: Path, loaded: LoadedJob) -> None:
    with Group(FIXTURE, forms_of(loaded.job), tmp_path / "files", SPEC) as group:
        pids = list(group.members.pids.values())
    for process in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
    assert list((tmp_path / "files").iterdir()) == []


def test_a_member_has_a_hard_limit_of_memory(tmp_path: Path, loaded: LoadedJob) -> None:
    with pytest.raises((OutOfMemory, ReplayError)):
        Group(FIXTURE, forms_of(loaded.job), tmp_path / "files", replace(SPEC, memory=2**25))


def test_shapes_that_there_are_not(tmp_path: Path, loaded: LoadedJob) -> None:
    with pytest.raises(ExecutionError, match="cannot form"):
        Group(FIXTURE, forms_of(loaded.job), tmp_path / "files", replace(SPEC, shape=(1, 3)))


def test_a_step_without_a_result_stops_the_job(
    tmp_path: Path, loaded: LoadedJob, states: tuple[Path, Path], group: Group
) -> None:
    huge = {name: np.where(True, np.float32(3e38), value) for name, value in loaded.global_state.items()}
    states[0].write_bytes(encode_state(huge))
    state = slot_state(loaded, huge, loaded.local_state)
    group.open(*states, state.roots)
    with pytest.raises(NotFiniteStep) as alone:
        run_segment(loaded, PART, 0, state, backend(Engine(NUMPY)))
    with pytest.raises(NotFiniteStep) as together:
        group.run_segment(PART, 0)
    assert (together.value.step, together.value.field) == (alone.value.step, alone.value.field)


def test_a_whole_job(tmp_path: Path) -> None:
    job = tmp_path / "job"
    write_job(job, tiny_source(2, 2, 2))
    alone = run_locally(job, out=tmp_path / "alone", keep_states=True)
    together = run_locally(job, out=tmp_path / "together", machines=2, keep_states=True)
    assert [report.state_root for report in together.rounds] == [report.state_root for report in alone.rounds]
    traces = [json.loads((tmp_path / name / "trace.json").read_text())["shares"] for name in ("alone", "together")]
    assert traces[0] == traces[1]
    assert (tmp_path / "alone/model.safetensors").read_bytes() == (tmp_path / "together/model.safetensors").read_bytes()


def test_several_machines_on_a_gpu_are_refused() -> None:
    with pytest.raises(ExecutionError, match="together on cpu"):
        spec_here(2, Engine("torch", "cuda"))
