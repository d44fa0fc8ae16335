"""A segment that a group of processes recomputes: the answers of one process, for right and for wrong shares."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from domain.proof.reasons import ShareReason
from domain.proof.records import AnswerKind
from pol.errors import ExecutionError, RangeError
from pol.executor.names import Engine
from pol.job.load import load_job
from pol.job.write import write_job
from pol.machines.form import GroupSpec
from pol.machines.pool import GroupPool, OneGroup
from pol.rules.commitment import boundary_root
from pol.split.machine import Machine
from pol.state.arrays import State
from pol.state.canonical import encode_state, state_tree
from pol.work.cluster.dispatch import NodeReport
from pol.work.executor import LOCAL, OutOfMemory, PoolClosed, TaskTimeout, WorkerDied
from pol.work.records import RoundSlot
from pol.work.replayer import Lane
from tests.support.chain_market import digest
from tests.unit.pol.tiny import tiny_source
from tests.unit.validator.trained import JOB, PART, N, Trained, opened_at, train
from validator.decide.records import Recomputed
from validator.watch.recompute import recomputing
from validator.work import numerics, requests
from validator.work.checks import exact
from validator.work.together import Together, start_together

SEED = digest("seed of a stage")
SPEC = GroupSpec(
    machines=2,
    machine=Machine(speed=10**9, memory=2**31, bandwidth=10**8),
    memory=2**31,
    engine=Engine("numpy", threads=1),
    shape=(2, 1),
    patience=60.0,
)
Change = Callable[[requests.OpenedStates, Path], requests.OpenedStates]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("share"))


def ask(function: Callable[..., Any], *args: Any, timeout: float) -> Any:
    del timeout
    return function(*args)


def made(spec: GroupSpec, folder: Path, reads: Path) -> Together:
    return Together(GroupPool(OneGroup(spec), ask, folder / "groups", folder / "scratch", (reads,)))


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Together]:
    found = made(SPEC, tmp_path_factory.mktemp("group"), tmp_path_factory.getbasetemp())
    yield found
    found.pool.close()


def run(together: Together, function: Callable[[Any], Any], request: Any) -> Any:
    return together.run(function, request, inf, Event())


def opened(trained: Trained, index: int) -> requests.OpenedStates:
    return opened_at(trained.paths(index), trained.boundaries[index].metrics, trained.boundaries[index].root)


def written(folder: Path, first: State, second: State) -> requests.OpenedStates:
    """These states in files, with the root that they have."""
    paths = folder / "other.global", folder / "other.local"
    for path, state in zip(paths, (first, second), strict=True):
        path.write_bytes(encode_state(state))
    return opened_at(paths, (), boundary_root(state_tree(first).root, state_tree(second).root))


def changed(state: State, value: float) -> dict[str, Any]:
    return {name: np.full_like(array, value) if array.dtype == np.float32 else array for name, array in state.items()}


def from_other_states(value: float, *, local: bool) -> Change:
    def change(_: requests.OpenedStates, folder: Path) -> requests.OpenedStates:
        job = load_job(JOB)
        first, second = job.global_state, job.local_state
        return written(folder, *((first, changed(second, value)) if local else (changed(first, value), second)))

    return change


def with_bytes(data: bytes) -> Change:
    def change(right: requests.OpenedStates, folder: Path) -> requests.OpenedStates:
        path = folder / "junk"
        path.write_bytes(data)
        return replace(right, files=replace(right.files, local_state=path))

    return change


def not_finite(right: requests.OpenedStates, folder: Path) -> requests.OpenedStates:
    """A file in which a number is not finite."""
    data = bytearray(right.files.local_state.read_bytes())
    data[-4:] = np.float32(np.inf).tobytes()
    return with_bytes(bytes(data))(right, folder)


CASES: dict[str, tuple[int, Change, ShareReason, AnswerKind | None]] = {
    "right": (3, lambda right, _: right, ShareReason.NONE, AnswerKind.FINISHED),
    "another root": (1, lambda right, _: replace(right, root=bytes(32)), ShareReason.OPENING_MISMATCH, None),
    "another metric": (1, lambda right, _: replace(right, metrics=(5,)), ShareReason.OPENING_MISMATCH, None),
    "no state": (1, with_bytes(b"junk"), ShareReason.OPENING_MISMATCH, None),
    "a state that is not finite": (1, not_finite, ShareReason.OPENING_MISMATCH, None),
    "another start": (0, from_other_states(0.5, local=False), ShareReason.SEGMENT_MISMATCH, AnswerKind.FINISHED),
    "a stop in the first step": (0, from_other_states(1e30, local=False), ShareReason.NOT_FINITE, AnswerKind.STOPPED),
    "a stop in the second step": (0, from_other_states(1e30, local=True), ShareReason.NOT_FINITE, AnswerKind.STOPPED),
}


@pytest.mark.parametrize("name", CASES)
def test_a_group_gives_the_answers_of_one_process(
    trained: Trained, together: Together, name: str, tmp_path: Path
) -> None:
    index, change, reason, kind = CASES[name]
    start = change(opened(trained, index), tmp_path)
    check = requests.SegmentCheck(
        directory=JOB,
        part=PART,
        index=index,
        start=start,
        end_root=trained.boundaries[index + 1].root,
        engine=SPEC.engine,
    )
    found = run(together, exact.check_segment, check)
    assert found == exact.check_segment(check)
    assert found.reason == reason
    audit = requests.SegmentAudit(directory=JOB, part=PART, index=index, start=start, seeds=(SEED,), engine=SPEC.engine)
    answer = run(together, exact.recompute_segment, audit)
    assert answer == exact.recompute_segment(audit)
    assert bool(answer.fault) == (kind is None)
    assert kind is None or answer.kind == kind
    if kind is AnswerKind.STOPPED or name == "right":
        stop = requests.StopCheck(
            directory=JOB,
            part=PART,
            index=index,
            steps=1,
            round_opening=JOB / "global.state",
            last=start,
            engine=SPEC.engine,
        )
        assert run(together, exact.check_stop, stop) == exact.check_stop(stop)


def test_a_wrong_step_and_a_wrong_boundary_are_found(trained: Trained, together: Together) -> None:
    """The share claims the end of another segment, or the right states with other metrics."""
    right = trained.boundaries[2]
    roots = (
        trained.boundaries[1].root,
        boundary_root(right.global_root, right.local_root, tuple(bits ^ 1 for bits in right.metrics)),
    )
    for wrong in roots:
        check = requests.SegmentCheck(
            directory=JOB, part=PART, index=1, start=opened(trained, 1), end_root=wrong, engine=SPEC.engine
        )
        found = run(together, exact.check_segment, check)
        assert (found.reason, found.root) == (ShareReason.SEGMENT_MISMATCH, right.root)
        assert found == exact.check_segment(check)


def test_a_slot_begins_with_a_local_state_of_its_own(together: Together, tmp_path: Path) -> None:
    """In a job that goes on with another one, boundary 0 has the local state of slot 0 for all slots."""
    job, source = tmp_path / "job", tiny_source(1, 2, 1)
    own = changed(source.local_state, 0.25)
    write_job(job, replace(source, first_step=1, slot_states=(source.local_state, own)))
    start = written(tmp_path, source.global_state, source.local_state)
    answers = []
    for slot in range(2):
        part = RoundSlot(0, slot)
        audit = requests.SegmentAudit(job, part, 0, start, (SEED,), SPEC.engine)
        answers.append(run(together, exact.recompute_segment, audit))
        assert answers[-1] == exact.recompute_segment(audit)
    assert answers[0].root != answers[1].root


@pytest.mark.parametrize(("part", "index"), [(PART, N), (PART, -1), (RoundSlot(0, 99), 0)])
def test_places_that_there_are_not(trained: Trained, together: Together, part: RoundSlot, index: int) -> None:
    audit = requests.SegmentAudit(
        directory=JOB, part=part, index=index, start=opened(trained, 1), seeds=(SEED,), engine=SPEC.engine
    )
    for recompute in (exact.recompute_segment, lambda asked: run(together, exact.recompute_segment, asked)):
        with pytest.raises(RangeError):
            recompute(audit)


def test_the_states_of_others_are_only_read(trained: Trained, together: Together) -> None:
    before = [path.read_bytes() for path in trained.paths(1)]
    modes = [(path.stat().st_ino, path.stat().st_nlink) for path in trained.paths(1)]
    audit = requests.SegmentAudit(
        directory=JOB, part=PART, index=1, start=opened(trained, 1), seeds=(SEED,), engine=SPEC.engine
    )
    run(together, exact.recompute_segment, audit)
    assert [path.read_bytes() for path in trained.paths(1)] == before
    assert [(path.stat().st_ino, path.stat().st_nlink) for path in trained.paths(1)] == modes


def test_states_that_no_provider_sent_are_recomputed(trained: Trained, together: Together, tmp_path: Path) -> None:
    for number, (start, index) in enumerate(((0, 2), (1, 3))):
        written = []
        for name, compute in (("one", numerics.recompute_states), ("group", None)):
            to = requests.StateFiles(tmp_path / f"{name}{number}.global", tmp_path / f"{name}{number}.local")
            asked = requests.StatesReplay(
                directory=JOB,
                part=PART,
                start=start,
                index=index,
                states=requests.StateFiles(*trained.paths(start)),
                engine=SPEC.engine,
                to=to,
            )
            written.append(compute(asked) if compute else run(together, numerics.recompute_states, asked))
            found = to.global_state.read_bytes(), to.local_state.read_bytes()
            assert found == tuple(path.read_bytes() for path in trained.paths(index))
        assert written[0] == written[1]
        assert written[0] is not None
        assert written[0].root == trained.boundaries[index].root


def test_a_group_that_stands_at_the_states_reads_the_files(
    trained: Trained, together: Together, tmp_path: Path
) -> None:
    """An answer says what the winner sent, and not what the group knows from before."""
    right = opened(trained, 1)
    bad = tmp_path / "bad"
    bad.write_bytes(b"junk")
    for start in (right, replace(right, files=replace(right.files, local_state=bad))):
        states = requests.StatesReplay(
            directory=JOB,
            part=PART,
            start=0,
            index=1,
            states=requests.StateFiles(*trained.paths(0)),
            engine=SPEC.engine,
            to=requests.StateFiles(tmp_path / f"{start.files.local_state.name}.g", tmp_path / "l"),
        )
        run(together, numerics.recompute_states, states)
        (tmp_path / "l").unlink()
        audit = requests.SegmentAudit(JOB, PART, 1, start, (SEED,), SPEC.engine)
        assert run(together, exact.recompute_segment, audit) == exact.recompute_segment(audit)


def test_each_process_has_the_limit(trained: Trained, tmp_path: Path) -> None:
    audit = requests.SegmentAudit(
        directory=JOB, part=PART, index=1, start=opened(trained, 1), seeds=(SEED,), engine=SPEC.engine
    )
    tight = made(replace(SPEC, memory=2**25), tmp_path, trained.folder)
    with pytest.raises((OutOfMemory, WorkerDied)):
        run(tight, exact.recompute_segment, audit)


def test_a_challenger_may_use_several_machines(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment goes to the group, and every other place to this process."""
    asked: list[GroupSpec] = []
    original = Together.recompute_segment

    def seen(self: Together, *args: Any) -> Recomputed:
        lease = self.pool.hosting.lease()
        assert lease is not None
        asked.append(lease.spec)
        lease.end()
        return original(self, *args)

    monkeypatch.setattr(Together, "recompute_segment", seen)
    (tmp_path / "blobs").mkdir()
    for path in trained.paths(1):
        (tmp_path / "blobs" / path.name).write_bytes(path.read_bytes())
    paths = tmp_path / "blobs" / "1.global", tmp_path / "blobs" / "1.local"
    start = opened_at(paths, trained.boundaries[1].metrics, trained.boundaries[1].root)
    audit = requests.SegmentAudit(directory=JOB, part=PART, index=1, start=start, seeds=(SEED,), engine=Engine("numpy"))
    with recomputing("local", Engine("numpy", memory=2**31), tmp_path, machines=(2, 1)) as run_it:
        assert run_it(exact.recompute_segment, audit) == exact.recompute_segment(audit)
        assert run_it(lambda _: Recomputed("another place"), audit) == Recomputed("another place")
    assert [spec.memory for spec in asked] == [2**31]
    with pytest.raises(ExecutionError), recomputing("local", Engine("torch", "cuda"), tmp_path, machines=2):
        pass


def test_a_daemon_replays_segments_in_groups_and_all_else_in_processes(trained: Trained, tmp_path: Path) -> None:
    ended: list[tuple[str, BaseException | None]] = []

    def lane(name: str) -> Lane:
        def note(_seconds: float, error: BaseException | None) -> None:
            ended.append((name, error))

        return Lane(name=name, processes=1, folder=tmp_path / "scratch", reads=(JOB, trained.folder), ended=note)

    engine = Engine("numpy", threads=1, memory=2**31)
    told: list[tuple[NodeReport, ...]] = []
    lanes = [lane("own"), lane("seats")]
    replayer = start_together(LOCAL, engine, lanes, ("own", "seats"), (2, 1), tmp_path, told.append)
    try:
        for name in ("own", "seats"):
            audit = requests.SegmentAudit(JOB, PART, 1, opened(trained, 1), (SEED,), engine)
            assert replayer.recompute(name, exact.recompute_segment, audit, 60.0) == exact.recompute_segment(audit)
            assert len(replayer.groups[name].pool.processes()) == 2
            # A process has made the form of the job.
            assert ended == [(name, None)] * 2
            ended.clear()
        last = opened(trained, N)
        stop = requests.StopCheck(JOB, PART, N, 0, JOB / "global.state", last, engine)
        assert replayer.recompute("own", exact.check_stop, stop, 60.0) == exact.check_stop(stop)
        check = requests.UpdateCheck(JOB, JOB / "global.state", last, *trained.sent, *trained.roots, engine)
        assert replayer.recompute("own", exact.check_update, check, 60.0) == exact.check_update(check)
        assert replayer.recompute_all("own", numerics.sizes, [JOB], 60.0) == [numerics.sizes(JOB)]
        assert replayer.width("own") == 1
        ended.clear()
        with pytest.raises(TaskTimeout):
            replayer.recompute("own", exact.recompute_segment, audit, 0.0)
        assert isinstance(ended[0][1], TaskTimeout)
        replayer.tend()
        assert replayer.groups["own"].pool.processes()
        tasks = ("check_stop", 1), ("check_update", 1), ("recompute_segment", 2)
        assert [node.ended for node in told[-1]] == [tasks] * 2
    finally:
        replayer.close()
    assert not replayer.groups["own"].pool.processes()
    with pytest.raises(PoolClosed):
        replayer.recompute("own", exact.recompute_segment, audit, 60.0)
