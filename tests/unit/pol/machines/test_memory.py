"""The memory of a group's processes: what the plan says, in the first segment and in all later ones."""

import os
import subprocess
import sys
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import assay
from pol.capture.build import build
from pol.executor.names import NATIVE, Engine
from pol.executor.numpy_backend import NumpyBackend
from pol.job.load import load_job
from pol.job.paths import GLOBAL_STATE, LOCAL_STATE
from pol.machines.form import GroupSpec
from pol.machines.group import Group
from pol.machines.member import _Slot
from pol.machines.parts import forms_of, plan_of
from pol.machines.process import MALLOC
from pol.native.library import load_library
from pol.split import costs
from pol.split.costs import PARTS, cost_of
from pol.split.exchanges import Form, Forms, In, Message, Moves, Out
from pol.split.machine import Machine
from pol.split.member import Member
from pol.split.plan import make_plan
from pol.state.arrays import Array
from pol.work.executor import OutOfMemory
from pol.work.records import RoundSlot
from tests.unit.pol.tiny import FIXTURE

SEGMENTS, WIDTH, ROWS = 3, 1_280, 4_096
ENOUGH = 1.3
SPEC = GroupSpec(
    machines=2,
    machine=Machine(speed=10**9, memory=2**31, bandwidth=10**8),
    memory=2**31,
    engine=Engine(NATIVE, threads=1),
    shape=(2, 1),
    patience=120.0,
)
pytestmark = pytest.mark.skipif(load_library() is None, reason="no native kernels")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wide layers, whose states, gradients and activations count for more than the libraries of a process."""
    folder = tmp_path_factory.mktemp("wide") / "job"
    torch.manual_seed(1)
    hidden: list[torch.nn.Module] = []
    for _ in range(3):
        hidden += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()]
    model = torch.nn.Sequential(torch.nn.Linear(8, WIDTH), torch.nn.Tanh(), *hidden, torch.nn.Linear(WIDTH, 5))
    rows: dict[str, Any] = {"x": np.ones((ROWS, 8), np.float32), "y": np.arange(ROWS) % 5}
    spec = assay.JobSpec(
        name="wide",
        model=model,
        loss=assay.cross_entropy(),
        train=rows,
        holdout={name: column[:8] for name, column in rows.items()},
        batch=ROWS,
        steps=SEGMENTS,
        round_steps=SEGMENTS,
        segment_steps=1,
        optimizer=assay.AdamW(),
        schedule=0.001,
    )
    build(spec, folder, check=False)
    return folder


def train(job: Path, folder: Path, memory: int) -> None:
    """Train all segments of a share in one group whose processes have this limit."""
    loaded = load_job(job, with_states=False)
    roots = loaded.job.document.global_root, loaded.job.document.local_root
    with Group(job, forms_of(loaded.job), folder, replace(SPEC, memory=memory)) as group:
        group.open(job / GLOBAL_STATE, job / LOCAL_STATE, roots)
        for index in range(SEGMENTS):
            group.run_segment(RoundSlot(0, 0), index)


@pytest.mark.parametrize(("parts", "factor"), [((1,), 1.3), (PARTS, 1.8)])
def test_the_peak_is_within_a_factor_of_the_plan(
    parts: tuple[int, ...], factor: float, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With that much more memory every segment runs in one group, and with that much less not even one does.

    With parts of a batch, products of the whole batch need the most. For these, the plan says what the executor with
    FP64 needs, and native kernels need less.
    """
    monkeypatch.setattr(costs, "PARTS", parts)
    plan = plan_of(load_job(job, with_states=False).job.document, SPEC)
    assert plan.parts == parts[-1]
    said = max(machine.memory for machine in cost_of(plan).machines)
    train(job, tmp_path / "enough", int(ENOUGH * said))
    with pytest.raises(OutOfMemory):
        train(job, tmp_path / "little", int(said / factor))


class Link:
    """A link that sends at once and keeps nothing."""

    def send(self, message: Message) -> None:
        assert len(message) == 1

    def receive(self, forms: Forms) -> Message:
        return tuple(np.zeros(form.shape, form.dtype) for form in forms)

    def flush(self) -> None:
        pass


def test_a_member_keeps_no_message_that_it_has_sent() -> None:
    """The array of a message is freed while the next block runs, and not only with the next message."""
    alive: list[bool] = []

    def moves() -> Moves[dict[str, Array]]:
        array = np.ones(10, np.float32)
        known = weakref.ref(array)
        message = (array,)
        del array
        yield Out(1, message)
        del message
        alive.append(known() is not None)
        (array,) = yield In(1, (Form(np.dtype("<f4"), (3,)),))
        return {"x": array}

    slot: Any = _Slot.__new__(_Slot)
    slot._channels, slot._sent, slot._messages = {1: Link()}, 0, 0
    assert slot._drive(moves())["x"].tolist() == [0, 0, 0]
    assert alive == [False]
    assert (slot._sent, slot._messages) == (40, 1)


def test_a_step_takes_the_tensors_that_it_changes() -> None:
    """So each old tensor is freed after its last use, and no state is in memory twice."""
    loaded = load_job(FIXTURE)
    plan = make_plan(loaded.job.document.step, [SPEC.machine])
    slot: Any = _Slot.__new__(_Slot)
    slot._job, slot._data, slot._columns = loaded.job, loaded.data, {"x"}
    slot._member = Member(plan, 0, 1, NumpyBackend())
    states = {"global": loaded.global_state, "local": loaded.local_state}
    slot._tensors = {f"{part}.{name}": array for part, state in states.items() for name, array in state.items()}
    slot._tensors["local.constant"] = np.zeros(1, np.float32)
    before = set(slot._tensors)
    inputs = slot._inputs(0, 0)
    assert before <= inputs.keys()
    assert {name for name in inputs if name.startswith("batch.")} == {"batch.x"}
    assert set(slot._tensors) == before - set(plan.homes)
    assert "local.constant" in slot._tensors
    assert plan.homes


KEEPING = """
from pathlib import Path
import numpy as np
from pol.executor.native_backend import NativeBackend
from pol.job.program import ProgramBuilder
from pol.native.library import load_library

def held_memory():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmData:"))

library = load_library()
builder = ProgramBuilder()
left, right = builder.input("a", "f32", (64, 2048)), builder.input("b", "f32", (2048, 4096))
builder.output("c", builder.node("matmul", left, right, bits=15))
program = builder.build()
given = {"a": np.ones((64, 2048), np.float32), "b": np.ones((2048, 4096), np.float32)}
for bounded in (False, True):
    compiled = NativeBackend(library, 1, bounded=bounded).compile(program, 7)
    library.forget()
    before = held_memory()
    compiled.run(given)
    print(held_memory() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not report memory")
def test_an_unbounded_back_end_keeps_no_memory_of_a_run() -> None:
    """The packed operands of a product are half as large as its operands."""
    done = subprocess.run(
        [sys.executable, "-c", KEEPING], env=os.environ | MALLOC, check=True, stdout=subprocess.PIPE, text=True
    )
    unbounded, bounded = map(int, done.stdout.split())
    packed = 2 * 2_048 * 4_096
    assert unbounded < packed // 4
    assert bounded >= packed
