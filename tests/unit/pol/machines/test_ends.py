"""The end of a round on machines of a group: the states and the roots of one process, for each kind of update."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import assay
from pol.capture.build import build
from pol.errors import AggregationFailed, ReplayError, StateError, UpdateFailed
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.document import JobDocument
from pol.job.load import LoadedJob, load_job
from pol.job.updates import CLOSING
from pol.job.write import write_job
from pol.machines.ends import end_of
from pol.machines.form import CLOSE, OUTER, EndFile, EndForm, FileForm, GroupSpec
from pol.machines.group import Group
from pol.machines.members import Members
from pol.machines.messages import Held, TensorLeaves
from pol.machines.parts import forms_of, step_files
from pol.machines.starters import Processes, Starter
from pol.split.machine import Machine
from pol.split.plan import make_plan
from pol.state.arrays import State
from pol.state.canonical import encode_state, read_state, state_tree
from pol.state.stored import file_root
from pol.values import TensorSpec
from pol.work.executor import WorkerDied
from pol.work.segments import SlotState
from pol.work.train import aggregate, share_update
from tests.support.places import start_over_tcp
from tests.unit.pol.mlp import write_mlp_job
from tests.unit.pol.odd_jobs import halved, infinite, write_odd_job
from tests.unit.pol.replay.test_coded_updates import spec as coded_spec
from tests.unit.pol.tiny import tiny_source

ONE = backend(Engine("numpy"))
SPEC = GroupSpec(
    machines=2,
    machine=Machine(speed=10**9, memory=2**31, bandwidth=10**8),
    memory=2**31,
    engine=Engine("numpy", threads=1),
    shape=(2, 1),
    patience=60.0,
)


@dataclass(frozen=True)
class Round:
    """A round of a job with made-up states, in files and in memory."""

    loaded: LoadedJob
    opening: State
    ends: tuple[State, State]
    reads: dict[str, list[Path]]

    @property
    def document(self) -> JobDocument:
        return self.loaded.job.document


def dense(folder: Path) -> None:
    write_mlp_job(folder)


def closing(folder: Path) -> None:
    write_job(folder, replace(tiny_source(2, 2, 2), aggregation=CLOSING))


def coded(update: Any) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        build(replace(coded_spec(), update=update), folder, check=False)

    return make


KINDS: dict[str, Callable[[Path], None]] = {
    "dense": dense,
    "closing": closing,
    "sparse": coded(assay.Sparse(chunk=64, keep=4)),
    "quantised": coded(assay.Quantised(bits=4, block=16)),
    "dgc": coded(assay.DGC(chunk=64, keep=4, warmup=(8,))),
}


def moved(state: State, seed: int, scale: float = 0.1) -> dict[str, Any]:
    """Return a state whose numbers are others."""
    generator = np.random.default_rng(seed)
    return {
        name: (array + scale * generator.standard_normal(array.shape)).astype(np.float32)
        if array.dtype == np.float32
        else array
        for name, array in state.items()
    }


def written(path: Path, state: State) -> Path:
    path.write_bytes(encode_state(state))
    return path


@pytest.fixture(scope="module", params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Round:
    folder = tmp_path_factory.mktemp("round")
    KINDS[request.param](folder / "job")
    loaded = load_job(folder / "job")
    opening = moved(loaded.global_state, 1)
    ends = moved(opening, 2), moved(loaded.local_state, 3)
    update = share_update(loaded, opening, SlotState(*ends), ONE).update
    first = written(folder / "opening", opening)
    states = [written(folder / f"end{index}", state) for index, state in enumerate(ends)]
    other = share_update(loaded, opening, SlotState(moved(opening, 4), ends[1]), ONE).update
    updates = [
        written(folder / f"update{slot}", (update, other)[slot % 2]) for slot in range(loaded.job.document.slots)
    ]
    return Round(loaded, opening, ends, {CLOSE: [first, *states], OUTER: [first, *updates]})


def started(round: Round, folder: Path, starter: Starter | None = None, machines: int = 2) -> Group:
    job, reads = round.reads[CLOSE][0].parent / "job", (round.reads[CLOSE][0].parent,)
    spec = replace(SPEC, machines=machines, shape=(machines, 1))
    return Group(job, forms_of(round.loaded.job), folder, spec, starter or Processes(machines), reads)


@contextmanager
def remote(round: Round, folder: Path) -> Iterator[Group]:
    with (
        start_over_tcp(2, Engine("numpy", threads=1), folder) as (_, starter),
        started(round, folder, starter) as group,
    ):
        yield group


def expected(round: Round, program: str) -> list[State]:
    """The states that one process makes."""
    if program == CLOSE:
        result = share_update(round.loaded, round.opening, SlotState(*round.ends), ONE)
        return [result.update, result.local_out]
    updates = [load(round, path) for path in round.reads[OUTER][1:]]
    return [aggregate(round.loaded, round.opening, updates, ONE).state]


def load(round: Round, path: Path) -> State:
    return read_state(path, round.loaded.job.update_tensors)


def compare(group: Group, round: Round) -> None:
    for program in (CLOSE, OUTER):
        reads = round.reads[program]
        assert group.hash(program, reads) == tuple(file_root(path) for path in reads)
        roots = group.make(program, reads)
        states = expected(round, program)
        assert roots == tuple(state_tree(state).root for state in states)
        for index, state in enumerate(states):
            assert b"".join(group.made(index)) == encode_state(state)


@pytest.mark.parametrize("machines", [1, 2, 3])
def test_machines_make_the_states_of_one_process(made: Round, tmp_path: Path, machines: int) -> None:
    with started(made, tmp_path / "files", machines=machines) as group:
        compare(group, made)
        assert group.losses == []


@pytest.mark.parametrize("made", ["sparse"], indirect=True)
def test_machines_elsewhere_get_only_what_they_need(made: Round, tmp_path: Path) -> None:
    with remote(made, tmp_path / "files") as group:
        compare(group, made)


@pytest.mark.parametrize("made", ["sparse"], indirect=True)
def test_pieces_are_removed_with_the_group(made: Round, tmp_path: Path) -> None:
    whole = made.reads[CLOSE][0].stat().st_size
    with remote(made, tmp_path / "files") as group:
        group.hash(CLOSE, made.reads[CLOSE])
        sizes = [path.stat().st_size for path in (tmp_path / "files").glob("pieces-*/*.0")]
        assert len(sizes) == 2
        assert max(sizes) < whole
        made_first = list((tmp_path / "files").glob("pieces-*"))
        group.make(CLOSE, made.reads[CLOSE])
        assert list((tmp_path / "files").glob("pieces-*")) == made_first
    assert not list((tmp_path / "files").glob("pieces-*"))


def holders(form: EndForm) -> list[dict[int, int]]:
    """For each file that a program reads, the number of tensors of each machine."""
    return [{m: sum(m in readers for readers in file.readers) for m in range(2)} for file in form.reads]


def test_no_machine_needs_all_tensors(made: Round) -> None:
    for program in (CLOSE, OUTER):
        form = end_of(made.document, program, 2, SPEC.machine).form
        for file in form.reads:
            if len(file.keepers) > 2 and program == CLOSE:
                assert set(file.keepers) == {0, 1}
        first = form.reads[0]
        assert all(0 < count < len(first.keepers) for count in holders(form)[0].values())


@pytest.mark.parametrize("made", ["sparse"], indirect=True)
def test_a_loss_costs_only_a_try(made: Round, tmp_path: Path) -> None:
    with started(made, tmp_path / "files") as group:
        group.hash(CLOSE, made.reads[CLOSE])
        os.kill(group.members.pids[1], signal.SIGKILL)
        compare(group, made)
        assert len(group.losses) == 1
        assert len(group.members.pids) == 1


def standing(group: Group) -> tuple[bytes, bytes] | None:
    return group.roots


@pytest.mark.parametrize("made", ["sparse"], indirect=True)
def test_a_group_that_has_ended_a_round_stands_nowhere(made: Round, tmp_path: Path) -> None:
    with started(made, tmp_path / "files") as group:
        group.make(CLOSE, made.reads[CLOSE])
        assert standing(group) is None
        with pytest.raises(ReplayError, match="opened no states"):
            group.run_step(0)
        document = made.document
        folder = made.reads[CLOSE][0].parent / "job"
        roots = document.global_root, document.local_root
        group.open(folder / "global.state", folder / "local.state", roots)
        assert standing(group) == roots
        with pytest.raises(ReplayError, match="one update for each of"):
            group.make(OUTER, made.reads[OUTER][1:])


@pytest.mark.parametrize("how", ["junk", "short", "not finite"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_file_that_is_no_state_of_the_job(tmp_path: Path, elsewhere: bool, how: str) -> None:
    dense(tmp_path / "job")
    loaded = load_job(tmp_path / "job")
    end = moved(loaded.global_state, 2), loaded.local_state
    reads = [written(tmp_path / str(n), state) for n, state in enumerate((loaded.global_state, *end))]
    round = Round(loaded, loaded.global_state, end, {CLOSE: reads})
    start = remote(round, tmp_path / "files") if elsewhere else started(round, tmp_path / "files")
    data = bytearray(reads[1].read_bytes())
    data[-4:] = np.float32(np.nan).tobytes()
    reads[1].write_bytes(bytes(data) if how == "not finite" else b"junk" if how == "junk" else bytes(data[:-1]))
    with start as group:
        with pytest.raises(StateError):
            group.make(CLOSE, reads) if how == "not finite" else group.hash(CLOSE, reads)
        assert group.is_over or elsewhere
    assert not list((tmp_path / "files").iterdir())


def test_tensors_that_no_step_reads_are_kept_by_all_machines(tmp_path: Path) -> None:
    """The residues of a codec are as large as the weights. They go where the fewest bytes are."""
    KINDS["sparse"](tmp_path / "job")
    document = load_job(tmp_path / "job").job.document
    _, local = step_files(make_plan(document.step, [SPEC.machine] * 2, 2), document)
    pairs = zip(document.local_tensors, local.keepers, strict=True)
    assert 1 in {keeper for spec, keeper in pairs if spec.name.startswith("update_residue.")}


def held(*tensors: tuple[str, bytes]) -> Held:
    leaves = tuple(TensorLeaves(name, data) for name, data in tensors)
    return Held(tensors=leaves, metrics=(), sent=0, messages=0, cpu_us=0)


def test_each_machine_reports_what_it_has_read_and_all_have_the_same_bytes() -> None:
    specs = TensorSpec("a", "f32", (3,)), TensorSpec("b", "f32", (5,))
    file = EndFile(specs, FileForm(keepers=(0, 1), readers=((0, 1), (1,))))
    first, second = bytes(32), b"2" * 32
    members: Any = Members.__new__(Members)
    members.sent = members.messages = members.cpu_us = 0

    def roots(*answers: Held) -> Any:
        return members._roots(dict(enumerate(answers)), [file], ["0."])

    right = roots(held(("0.a", first)), held(("0.b", second)))
    assert right == roots(held(("0.a", first)), held(("0.b", second), ("0.a", first)))
    wrong = (
        (held(("0.a", first)), held()),
        (held(("0.a", first), ("0.b", second)), held()),
        (held(("0.a", first)), held(("0.b", second), ("0.a", second))),
        (held(("0.a", first + first)), held(("0.b", second))),
        (held(("0.a", first)), held(("0.c", second))),
    )
    for answers in wrong:
        with pytest.raises(WorkerDied):
            roots(*answers)


def test_an_end_without_a_result(tmp_path: Path) -> None:
    write_odd_job(tmp_path / "job", halved, infinite)
    loaded = load_job(tmp_path / "job")
    slots = loaded.job.document.slots
    huge = np.float32(3e38)
    states = [{n: np.full_like(a, s * huge) for n, a in loaded.global_state.items()} for s in (-1, 1)]
    first, second = [written(tmp_path / str(number), state) for number, state in enumerate(states)]
    local = written(tmp_path / "local", loaded.local_state)
    round = Round(loaded, states[0], (states[1], loaded.local_state), {CLOSE: [first, second, local]})
    errors = []
    for program, reads in ((CLOSE, round.reads[CLOSE]), (OUTER, [first, *[second] * slots])):
        with started(round, tmp_path / program) as group, pytest.raises((UpdateFailed, AggregationFailed)) as found:
            group.make(program, reads)
        errors.append(str(found.value))
    with pytest.raises(UpdateFailed) as update:
        share_update(loaded, states[0], SlotState(*round.ends), ONE)
    with pytest.raises(AggregationFailed) as aggregation:
        aggregate(loaded, states[0], [states[1]] * slots, ONE)
    assert errors == [str(update.value), str(aggregation.value)]
