"""A trace file from anybody: it is refused or found wrong, and neither stops nor fills the machine that reads it."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from domain import codec, plain
from pol.errors import TraceError
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.load import load_job
from pol.job.program import ProgramBuilder
from pol.job.updates import DIFFERENCE
from pol.job.write import JobSource, write_job
from pol.local.run import run_locally
from pol.replay.replay import STATES_FOLDER, StateFolder, verify_trace
from pol.replay.trace_file import (
    TOKENS_MAX,
    ShareRecord,
    read_trace,
    share_record,
    trace_root,
)
from pol.work.records import RoundSlot
from pol.work.train import aggregate, train_share
from tests.unit.pol.replay.conftest import FIXTURE

NUMPY = backend(Engine("numpy"))


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a run of the checked-in job, with its states."""
    folder = tmp_path_factory.mktemp("run")
    run_locally(FIXTURE, out=folder, keep_states=True)
    return folder


def described(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "trace.json").read_text())
    return value


def written(tmp_path: Path, value: object) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(value))
    return path


def test_a_trace_of_many_small_values_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(b'{"version":3,"more":[' + b"[]," * (TOKENS_MAX // 2) + b"0]}")
    with pytest.raises(TraceError, match=f"more than {TOKENS_MAX}"):
        read_trace(path)


def test_a_device_or_a_pipe_is_no_trace(tmp_path: Path, run_folder: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe", tmp_path):
        with pytest.raises(TraceError, match="plain file"):
            read_trace(path)
    (tmp_path / "link.json").symlink_to(run_folder / "trace.json")
    assert len(read_trace(tmp_path / "link.json").shares) == 4  # a link of one's own is fine


@pytest.mark.parametrize("name", ["round", "slot"])
def test_numbers_that_no_share_can_have_are_refused(tmp_path: Path, run_folder: Path, name: str) -> None:
    value = described(run_folder)
    value["shares"][0][name] = 2**32
    with pytest.raises(TraceError, match=name):
        read_trace(written(tmp_path, value))


def test_a_trace_that_is_not_of_the_jobs_slots_and_segments_is_no_trace(tmp_path: Path, run_folder: Path) -> None:
    value = described(run_folder)
    shares = value["shares"]
    for wrong in (shares[:-1], shares[:1] + shares[2:], [*shares, shares[-1]], shares[::-1]):
        trace = read_trace(written(tmp_path, {**value, "shares": wrong}))
        with pytest.raises(TraceError, match="one share per slot and round"):
            verify_trace(trace, FIXTURE)
    short = {**shares[0], "boundaries": shares[0]["boundaries"][:-1]}
    short["trace_root"] = trace_root(
        plain.read(ShareRecord, short).boundaries,
    ).hex()
    trace = read_trace(written(tmp_path, {**value, "shares": [short, *shares[1:]]}))
    assert verify_trace(trace, FIXTURE)[0].fault == "the share has 4 segments, not 5"


def test_drawn_segments_start_from_the_slots_own_local_state(tmp_path: Path, run_folder: Path) -> None:
    """A share that is honest but for the momentum that it starts with is no continuation of the slot."""
    loaded = load_job(FIXTURE)
    value = described(run_folder)
    value["rounds"], value["shares"] = value["rounds"][:1], []
    states = StateFolder(tmp_path / STATES_FOLDER, loaded)
    updates = []
    for slot in range(2):
        part = RoundSlot(0, slot)
        local = loaded.local_state
        if slot == 1:
            local = {name: array + np.float32(0.5) for name, array in local.items()}
        share = train_share(loaded, part, loaded.global_state, local, backend=NUMPY, on_boundary=states.keep)
        roots = share.update_root, share.local_out_root
        record = share_record(part, share.boundaries, *roots)
        value["shares"].append(codec.to_plain(record))
        updates.append(share.update)
    root = aggregate(loaded, loaded.global_state, updates, NUMPY).root
    value["rounds"][0]["state_root"] = root.hex()
    trace = read_trace(written(tmp_path, value))
    for segments in (1, None):
        kept = tmp_path / STATES_FOLDER
        first, second = verify_trace(trace, FIXTURE, segments=segments, states=kept)[:2]
        assert first.holds
        assert not second.holds, segments


def test_drawn_segments_of_an_honest_trace_hold(run_folder: Path) -> None:
    trace = read_trace(run_folder / "trace.json")
    checks = verify_trace(trace, FIXTURE, segments=1, states=run_folder / STATES_FOLDER)
    assert all(check.holds for check in checks)


def test_a_state_that_is_a_device_is_refused(run_folder: Path, tmp_path: Path) -> None:
    trace = read_trace(run_folder / "trace.json")
    folder = tmp_path / STATES_FOLDER
    folder.mkdir()
    (folder / f"{trace.shares[0].boundaries[0].global_root.hex()}.state").symlink_to("/dev/zero")
    with pytest.raises(TraceError, match="opened"):
        verify_trace(trace, FIXTURE, segments=1, states=folder)


def test_an_aggregation_without_a_result_is_a_fault(tmp_path: Path) -> None:
    """``outer`` of this job divides by the weight, which the first round makes zero."""
    directory = tmp_path / "job"
    write_job(directory, _source())
    loaded = load_job(directory)
    share = train_share(
        loaded,
        RoundSlot(0, 0),
        loaded.global_state,
        loaded.local_state,
        backend=NUMPY,
    )
    roots = share.update_root, share.local_out_root
    record = share_record(RoundSlot(0, 0), share.boundaries, *roots)
    value = {
        "version": 3,
        "job": loaded.job.id.hex(),
        "rounds": [{"state_root": "00" * 32}],
        "shares": [codec.to_plain(record)],
    }
    checks = verify_trace(read_trace(written(tmp_path, value)), directory)
    assert [check.holds for check in checks] == [True, False]
    assert "NaN or infinity" in checks[1].fault


def _source() -> JobSource:
    """One weight w = 1 that a step makes 0; ``outer`` is w / (w - update)."""
    step, outer, evaluate = ProgramBuilder(), ProgramBuilder(), ProgramBuilder()
    weight = step.input("global.w", "f32", (1,))
    changed = step.node("sub", weight, step.input("batch.x", "f32", (1,)))
    step.output("global.w", changed)
    step.output("metric.loss", step.node("sum", changed, dims=[0], keepdim=False))
    weight = outer.input("global.w", "f32", (1,))
    rest = outer.node("sub", weight, outer.input("aggregate.w", "f32", (1,)))
    outer.output("global.w", outer.node("div", weight, rest))
    loss = evaluate.node("sum", evaluate.input("global.w", "f32", (1,)), dims=[0], keepdim=False)
    evaluate.output("metric.loss", loss)
    one = np.ones(1, np.float32)
    return JobSource(
        name="zero",
        seed=1,
        rounds=1,
        slots=1,
        round_steps=1,
        batch=1,
        segment_steps=1,
        aggregation=DIFFERENCE,
        step=step.build(),
        outer=outer.build(),
        eval=evaluate.build(),
        metrics=("loss",),
        global_state={"w": one},
        local_state={},
        data={"x": one},
    )
