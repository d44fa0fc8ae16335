"""Jobs that go on from what another one left: without torch, from the document to the check of a trace."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from domain.limits import SAMPLES_MAX
from pol.errors import JobError
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.checkpoint import checked, read_training
from pol.job.cost import memory_size
from pol.job.document import OPTIONAL, Job, check_document, order_terms, parse_job
from pol.job.load import load_job, verify_job
from pol.job.strict_json import dump_json
from pol.job.write import JobSource, write_job
from pol.limits import Limits
from pol.local.inspect import inspect_job
from pol.local.run import LocalRun, run_locally
from pol.machines.parts import write_own_state
from pol.replay.replay import replay_segment, verify_trace
from pol.replay.trace_file import read_trace
from pol.state.canonical import state_tree
from pol.state.stored import file_root
from pol.state.tensors import dump_safetensors, load_safetensors
from pol.work.records import RoundSlot
from pol.work.train import train_share
from tests.unit.pol.tiny import tiny_source

SLOTS, STEPS = 3, 2
Change = Callable[[dict[str, Any]], object]


def source(rounds: int, slots: int = SLOTS) -> JobSource:
    """Return a job with rounds of two steps."""
    return tiny_source(rounds, slots, STEPS)


def after(ran: LocalRun, rounds: int) -> JobSource:
    """Return that job where ``ran`` left it."""
    return replace(
        source(rounds, ran.position.slots),
        global_state=ran.state,
        local_state=ran.locals[0],
        first_step=ran.position.step,
        slot_states=ran.locals,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("going-on")


@pytest.fixture(scope="module")
def first(folder: Path) -> LocalRun:
    """Two rounds."""
    write_job(folder / "first", source(2))
    return run_locally(folder / "first", out=folder / "first" / "run")


@pytest.fixture(scope="module")
def second(folder: Path, first: LocalRun) -> Job:
    """Two more, in ``folder / "second"``."""
    return write_job(folder / "second", after(first, 2))


@pytest.fixture(scope="module")
def ran(folder: Path, second: Job) -> LocalRun:
    return run_locally(folder / "second", out=folder / "second" / "run", keep_states=True)


def test_two_jobs_are_one_bit_for_bit(folder: Path, first: LocalRun, ran: LocalRun) -> None:
    write_job(folder / "whole", source(4))
    whole = run_locally(folder / "whole")
    assert ran.position == replace(whole.position, job=ran.position.job)
    assert ran.position.step == 4 * STEPS
    assert len(set(ran.position.local_roots)) == SLOTS
    assert np.array_equal(np.vstack([first.losses, ran.losses]), whole.losses)


def test_a_job_may_be_cut_anywhere(folder: Path, ran: LocalRun, tmp_path: Path) -> None:
    """Into four, and where a run ended before its job did."""
    write_job(tmp_path / "0", source(3))
    at = run_locally(tmp_path / "0", rounds=1)
    for number in (1, 2, 3):
        write_job(tmp_path / str(number), after(at, 1))
        at = run_locally(tmp_path / str(number))
    assert at.position == replace(ran.position, job=at.position.job)


def test_with_one_slot_there_is_one_local_state(tmp_path: Path) -> None:
    write_job(tmp_path / "first", source(1, 1))
    before = run_locally(tmp_path / "first")
    job = write_job(tmp_path / "second", after(before, 1))
    assert job.document.start.step == STEPS
    assert not job.document.start.local_roots
    assert not (tmp_path / "second" / "slots.state").exists()
    write_job(tmp_path / "whole", source(2, 1))
    here, there = run_locally(tmp_path / "second"), run_locally(tmp_path / "whole")
    assert here.position == replace(there.position, job=job.id)


def test_a_job_that_begins_at_step_0_has_no_start(folder: Path, first: LocalRun) -> None:
    fields = json.loads((folder / "first" / "job.json").read_bytes())
    assert not fields.keys() & OPTIONAL.keys()
    assert load_job(folder / "first").slot_local(1) is None


def test_a_job_without_rounds_stands_where_it_began(first: LocalRun, folder: Path) -> None:
    nothing = run_locally(folder / "second", rounds=0)
    assert nothing.position == replace(first.position, job=nothing.position.job)
    checked(nothing)


def test_what_is_said_of_it(second: Job, folder: Path, first: LocalRun) -> None:
    document = second.document
    assert inspect_job(second).first_step == document.start.step == 2 * STEPS
    # a provider gets the states of all slots, and an order knows them by the bytes of its payload
    assert second.payload[3].path == "slots.state"
    assert second.payload[3].size == (SLOTS - 1) * order_terms(second).local_bytes
    size = sum((folder / "second" / file.path).stat().st_size for file in second.payload)
    assert size == second.payload_size == order_terms(second).delivered_bytes
    assert order_terms(second).local_root == first.position.local_roots[0]
    more = memory_size(document) - memory_size(load_job(folder / "first").job.document)
    assert more == order_terms(second).local_bytes


# --- checks of others ----------------------------------------------------------------------------


def test_its_trace_holds(ran: LocalRun, folder: Path) -> None:
    trace = read_trace(folder / "second" / "run" / "trace.json")
    for segments in (None, 1):
        assert all(c.holds for c in verify_trace(trace, folder / "second", segments=segments))


def test_a_slot_that_begins_with_the_state_of_another_one_is_found(ran: LocalRun, folder: Path) -> None:
    loaded, part = load_job(folder / "second"), RoundSlot(0, 2)
    engine = backend(Engine("numpy"))
    opened = loaded.global_state, loaded.local_state
    # as every slot of another job does
    wrong = train_share(replace(loaded, slots=None), part, *opened, backend=engine)
    right = replay_segment(loaded, part, 0, *opened, engine).boundary
    assert wrong.boundaries[0].root == ran_boundary(folder, part, 0)
    assert right.root == ran_boundary(folder, part, 1) != wrong.boundaries[1].root


def ran_boundary(folder: Path, part: RoundSlot, index: int) -> bytes:
    trace = read_trace(folder / "second" / "run" / "trace.json")
    return trace.shares[part.round * SLOTS + part.slot].boundaries[index].root


def test_only_the_first_step_of_a_job_begins_so(ran: LocalRun, folder: Path) -> None:
    """Later rounds, and the other segments of the first one, go on from where a slot is."""
    loaded, part, engine = load_job(folder / "second"), RoundSlot(1, 1), backend(Engine("numpy"))
    here = replay_segment(loaded, part, 0, ran.state, ran.locals[1], engine).boundary
    there = replay_segment(loaded, part, 0, ran.state, ran.locals[2], engine).boundary
    assert here.local_root != there.local_root


# --- the document --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("start", lambda f: f.update(start={"step": 0, "local_roots": []})),
        ("start.step", lambda f: f["start"].update(step=-1)),
        ("start.step", lambda f: f["start"].update(step=2**62)),
        ("start.step", lambda f: f["start"].update(step=SAMPLES_MAX // SLOTS)),
        ("start.step", lambda f: f["start"].pop("step")),
        ("start.more", lambda f: f["start"].update(more=1)),
        ("start.local_roots", lambda f: f["start"]["local_roots"].pop()),
        ("start.local_roots", lambda f: f["start"]["local_roots"].append("00" * 32)),
        ("start.local_roots[0]", lambda f: f["start"]["local_roots"].reverse()),
        ("start.local_roots[1]", lambda f: f["start"]["local_roots"].__setitem__(1, "00")),
        ("start.local_roots", lambda f: f["start"].update(local_roots=[f["local_root"]] * SLOTS)),
    ],
)
def test_a_start_that_is_none(second: Job, folder: Path, field: str, change: Change) -> None:
    fields = json.loads((folder / "second" / "job.json").read_bytes())
    change(fields)
    with pytest.raises(JobError) as caught:
        parse_job(dump_json(fields))
    assert caught.value.field == field


def test_more_states_than_a_machine_takes(second: Job) -> None:
    size = second.document.slot_states_size
    check_document(second.document, Limits(data_size=size))
    with pytest.raises(JobError, match=r"start\.local_roots: .*more than"):
        check_document(second.document, Limits(data_size=size - 1))


def flip(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


def copy_of(folder: Path, to: Path) -> Path:
    """Return a job of the same bytes that may be changed."""
    job = load_job(folder / "second").job
    for file in job.payload:
        (to / file.path).parent.mkdir(parents=True, exist_ok=True)
        (to / file.path).write_bytes((folder / "second" / file.path).read_bytes())
    return to


def test_other_states_of_slots_are_refused(second: Job, folder: Path, tmp_path: Path) -> None:
    path = copy_of(folder, tmp_path) / "slots.state"
    data = path.read_bytes()
    half = len(data) // 2
    loaded = load_job(tmp_path)
    for other in (
        flip(data, half - 1),
        flip(data, len(data) - 1),
        flip(data, 5),
        data[half:] + data[:half],
        data[:-1],
        data + b"\0",
        b"",
    ):
        path.write_bytes(other)
        with pytest.raises(JobError, match=r"slots\.state"):
            load_job(tmp_path)
        with pytest.raises(JobError, match=r"slots\.state"):
            verify_job(tmp_path)
    with pytest.raises(ValueError, match="without the states of slots"):
        load_job(tmp_path, with_states=False).slot_local(1)
    # what changes after it was loaded is noticed, too
    with pytest.raises(JobError, match=r"slots\.state"):
        loaded.slot_local(1)
    path.unlink()
    with pytest.raises(JobError, match=r"slots\.state"):
        load_job(tmp_path)


def test_the_state_of_a_slot_is_copied(second: Job, folder: Path, tmp_path: Path) -> None:
    """The copy has the root that the document names, or the machines that open it find that it has not."""
    for slot in range(1, second.document.slots):
        path = tmp_path / f"{slot}.local"
        assert write_own_state(folder / "second", slot, path) == file_root(path)
    assert not write_own_state(folder / "second", 0, tmp_path / "0.local")
    copy_of(folder, tmp_path / "other")
    slots = tmp_path / "other" / "slots.state"
    slots.write_bytes(flip(slots.read_bytes(), -1))
    path = tmp_path / "wrong.local"
    assert write_own_state(tmp_path / "other", second.document.slots - 1, path) != file_root(path)


def test_an_older_file_of_slots_does_not_stay(second: Job, folder: Path, tmp_path: Path) -> None:
    copy_of(folder, tmp_path)
    write_job(tmp_path, source(2))
    assert not (tmp_path / "slots.state").exists()


# --- files of a result ---------------------------------------------------------------------------


def saved(folder: Path, to: Path) -> Path:
    """Return a copy of what the first job left."""
    run = folder / "first" / "run"
    (to / "model.training").mkdir(parents=True)
    for file in (run / "model.safetensors", *(run / "model.training").iterdir()):
        (to / file.relative_to(run)).write_bytes(file.read_bytes())
    return to


def test_it_is_read_as_it_was_written(first: LocalRun, folder: Path) -> None:
    for path in (folder / "first" / "run", folder / "first" / "run" / "model.safetensors"):
        found = read_training(path)
        assert found.position == first.position
        assert [state_tree(s).root for s in (found.state, *found.locals)] == [
            first.position.global_root,
            *first.position.local_roots,
        ]
    assert len(found.locals[1:]) == SLOTS - 1


def test_no_byte_of_it_may_change(first: LocalRun, folder: Path, tmp_path: Path) -> None:
    to = saved(folder, tmp_path)
    for name in ("model.safetensors", "model.training/00001.safetensors", "model.training/position.json"):
        data = (to / name).read_bytes()
        for at in (9, len(data) // 2, len(data) - 2):
            (to / name).write_bytes(flip(data, at))
            with pytest.raises(JobError) as caught:
                list(read_training(to).locals)
            assert caught.value.field == "resume"
            assert name in caught.value.reason
        (to / name).write_bytes(data)
    list(read_training(to).locals)


def test_files_of_two_trainings_do_not_go_together(first: LocalRun, folder: Path, tmp_path: Path) -> None:
    to = saved(folder, tmp_path)
    state = load_safetensors(to / "model.safetensors")
    tuned = {name: np.array(array) for name, array in state.items()}
    next(iter(tuned.values())).reshape(-1)[0] += 1
    (to / "model.safetensors").write_bytes(dump_safetensors(tuned))
    with pytest.raises(JobError, match="was changed, or belongs to another training"):
        read_training(to)


def test_what_is_missing_is_said(first: LocalRun, folder: Path, tmp_path: Path) -> None:
    to = saved(folder, tmp_path / "here")
    with pytest.raises(JobError, match="there is no training at"):
        read_training(tmp_path / "there")
    (to / "model.training" / "00002.safetensors").unlink()
    with pytest.raises(JobError, match=r"00002\.safetensors cannot be read"):
        list(read_training(to).locals)
    (to / "model.training" / "position.json").unlink()
    with pytest.raises(JobError, match=r"position\.json, which holds the position"):
        read_training(to)
    (to / "model.training" / "position.json").write_bytes(b" " * 2**19)
    with pytest.raises(JobError, match="more than 262144"):
        read_training(to)


def test_states_that_were_changed_in_memory(first: LocalRun) -> None:
    checked(first)
    name = next(iter(first.state))
    changed = {**first.state, name: first.state[name] + np.float32(1)}
    with pytest.raises(JobError, match="the global state was changed"):
        checked(replace(first, state=changed))
    with pytest.raises(JobError, match="slot 0 was changed"):
        checked(replace(first, locals=first.locals[::-1]))
    with pytest.raises(JobError, match="one local state per slot"):
        checked(replace(first, locals=first.locals[:2]))
