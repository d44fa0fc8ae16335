"""A trace file from anybody: it is refused or found wrong, and neither stops nor fills the machine that reads it."""

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from domain import codec
from pol.errors import TraceError
from pol.executor.backend import backend
from pol.job.load import load_job
from pol.job.program import ProgramBuilder
from pol.job.write import JobSource, write_job
from pol.local.run import run_locally, slot_ranges
from pol.replay.check_trace import STATES_FOLDER, StateFolder, verify_trace
from pol.replay.trace_file import broken_link, read_trace, share_record
from pol.work.aggregate import aggregate
from pol.work.train import train_share
from tests.unit.pol.replay.conftest import FIXTURE

NUMPY = backend("numpy")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a run of the checked-in job, two slots, with its states."""
    folder = tmp_path_factory.mktemp("run")
    keep = StateFolder(folder / STATES_FOLDER, load_job(FIXTURE)).keep
    run_locally(FIXTURE, slots=2, out=folder, on_boundary=keep)
    return folder


def described(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "trace.json").read_text())
    return value


def written(tmp_path: Path, value: object) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(value))
    return path


def test_a_device_or_a_pipe_is_no_trace(tmp_path: Path, run_folder: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe", tmp_path):
        with pytest.raises(TraceError, match="plain file"):
            read_trace(path)
    (tmp_path / "link.json").symlink_to(run_folder / "trace.json")
    assert read_trace(tmp_path / "link.json").slots == 2  # a link of one's own is fine


@pytest.mark.parametrize("name", ["round", "slot"])
def test_numbers_that_no_leaf_can_hold_are_refused(
    tmp_path: Path, run_folder: Path, name: str
) -> None:
    value = described(run_folder)
    value["shares"][0][name] = 2**32
    with pytest.raises(TraceError, match=name):
        read_trace(written(tmp_path, value))
    value["shares"][0][name] = 2**32 - 1
    trace = read_trace(written(tmp_path, value))
    assert broken_link(trace.job, trace.shares[0])


def test_a_million_slots_cost_nothing(tmp_path: Path, run_folder: Path) -> None:
    value = described(run_folder)
    value["slots"] = 2**20
    trace = read_trace(written(tmp_path, value))
    tracemalloc.start()
    try:
        with pytest.raises(TraceError, match="each slot in each round"):
            verify_trace(trace, FIXTURE)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000  # two rounds of them: 200 MB
    finally:
        tracemalloc.stop()


def test_drawn_places_start_from_the_slots_own_local_state(
    tmp_path: Path, run_folder: Path
) -> None:
    """A share that is honest but for the momentum that it starts with is no continuation of the slot."""
    loaded = load_job(FIXTURE)
    value = described(run_folder)
    value["rounds"], value["shares"] = value["rounds"][:1], []
    states = StateFolder(tmp_path / STATES_FOLDER, loaded)
    updates = []
    for slot, part in enumerate(slot_ranges(loaded.job, 0, 2)):
        local = loaded.local_state
        if slot == 1:
            local = {name: array + np.float32(0.5) for name, array in local.items()}
        share = train_share(
            loaded, part, loaded.global_state, local, backend=NUMPY, on_boundary=states.keep
        )
        roots = share.update_root, share.local_out_root
        record = share_record(loaded.job.id, slot, part, share.boundaries, *roots)
        value["shares"].append(codec.to_plain(record))
        updates.append((part.count, share.update))
    root = aggregate(loaded, loaded.global_state, updates, NUMPY).root
    value["rounds"][0]["state_root"] = root.hex()
    trace = read_trace(written(tmp_path, value))
    for segments in (1, None):
        kept = tmp_path / STATES_FOLDER
        first, second = verify_trace(trace, FIXTURE, segments=segments, states=kept)[:2]
        assert first.holds
        assert not second.holds, segments


def test_drawn_places_of_an_honest_trace_hold(run_folder: Path) -> None:
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
        slot_ranges(loaded.job, 0, 1)[0],
        loaded.global_state,
        loaded.local_state,
        backend=NUMPY,
    )
    part = slot_ranges(loaded.job, 0, 1)[0]
    roots = share.update_root, share.local_out_root
    record = share_record(loaded.job.id, 0, part, share.boundaries, *roots)
    value = {
        "version": 1,
        "job": loaded.job.id.hex(),
        "slots": 1,
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
        name="zero", seed=1, rounds=1, samples_per_round=1, batch=1, segment_length=1,
        step=step.build(), outer=outer.build(), eval=evaluate.build(), metrics=("loss",),
        global_state={"w": one}, local_state={}, data={"x": one},
    )  # fmt: skip
