"""Updates and aggregations that a group of processes recomputes: the answers of one process, also for wrong files."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from domain.proof.reasons import ShareReason
from domain.proof.records import AnswerKind
from pol.errors import ReplayError, StateError
from pol.job.load import load_job
from pol.rules.commitment import boundary_root
from pol.state.arrays import State
from pol.state.canonical import encode_state, state_tree
from pol.state.stored import file_root
from pol.work.records import RoundSlot
from tests.unit.pol.odd_jobs import halved, infinite, write_odd_job
from tests.unit.validator.test_together import SEED, SPEC, changed, made, opened, run
from tests.unit.validator.trained import JOB, PART, N, Trained, train
from validator.work import requests
from validator.work.checks import exact
from validator.work.together import Together

HUGE = 3e38
Check = requests.UpdateCheck
Audit = requests.UpdateAudit
Sum = requests.AggregationAudit


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("share"))


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Together]:
    found = made(SPEC, tmp_path_factory.mktemp("group"), tmp_path_factory.getbasetemp())
    yield found
    found.pool.close()


def junk(folder: Path) -> Path:
    (folder / "junk").write_bytes(b"junk")
    return folder / "junk"


def rooted(path: Path, state: State) -> requests.RootedFile:
    path.write_bytes(encode_state(state))
    return requests.RootedFile(path, state_tree(state).root)


def odd(folder: Path) -> tuple[Path, requests.RootedFile, requests.OpenedStates]:
    """A job whose aggregation is infinite, and states whose difference is too large."""
    job = folder / "odd"
    write_odd_job(job, halved, infinite)
    loaded = load_job(job)
    opening = rooted(folder / "low", changed(loaded.global_state, -HUGE))
    end, local = rooted(folder / "high", changed(loaded.global_state, HUGE)), rooted(folder / "l", loaded.local_state)
    files = requests.StateFiles(end.path, local.path)
    return job, opening, requests.OpenedStates(files, (), boundary_root(end.root, local.root))


def same_answer(together: Together, function: Callable[[Any], Any], request: Any) -> Any:
    found = run(together, function, request)
    assert found == function(request)
    return found


CHECKS: dict[str, tuple[Callable[[Check, Path], Check], ShareReason]] = {
    "right": (lambda right, _: right, ShareReason.NONE),
    "another boundary": (
        lambda right, _: replace(right, closing=replace(right.closing, root=bytes(32))),
        ShareReason.OPENING_MISMATCH,
    ),
    "no state": (
        lambda right, folder: replace(
            right, closing=replace(right.closing, files=replace(right.closing.files, local_state=junk(folder)))
        ),
        ShareReason.OPENING_MISMATCH,
    ),
    "another update": (lambda right, _: replace(right, update_root=bytes(32)), ShareReason.UPDATE_MISMATCH),
    "another local state": (lambda right, _: replace(right, local_root=bytes(32)), ShareReason.UPDATE_MISMATCH),
    "another file": (lambda right, folder: replace(right, update=junk(folder)), ShareReason.MALFORMED),
    "a file of another state": (
        lambda right, _: replace(right, local_out=right.round_opening.parent / "local.state"),
        ShareReason.MALFORMED,
    ),
}


@pytest.mark.parametrize("name", CHECKS)
def test_an_update_is_checked_as_in_one_process(
    trained: Trained, together: Together, name: str, tmp_path: Path
) -> None:
    change, reason = CHECKS[name]
    right = Check(JOB, JOB / "global.state", opened(trained, N), *trained.sent, *trained.roots, SPEC.engine)
    assert same_answer(together, exact.check_update, change(right, tmp_path)).reason == reason


def test_a_damaged_file_of_its_own_is_no_fault_of_the_provider(
    trained: Trained, together: Together, tmp_path: Path
) -> None:
    check = Check(JOB, junk(tmp_path), opened(trained, N), *trained.sent, *trained.roots, SPEC.engine)
    for compute in (exact.check_update, lambda asked: run(together, exact.check_update, asked)):
        with pytest.raises(StateError):
            compute(check)


def test_an_update_without_a_result(trained: Trained, together: Together, tmp_path: Path) -> None:
    job, opening, closing = odd(tmp_path)
    check = Check(job, opening.path, closing, *trained.sent, *trained.roots, SPEC.engine)
    assert same_answer(together, exact.check_update, check).reason == ShareReason.NOT_FINITE
    segments = load_job(job).job.document.share_segments
    stop = requests.StopCheck(job, RoundSlot(0, 0), segments, 0, opening.path, closing, SPEC.engine)
    assert same_answer(together, exact.check_stop, stop).reason == ShareReason.NONE
    audit = Audit(job, opening, closing, (SEED,), SPEC.engine)
    assert same_answer(together, exact.recompute_update, audit).kind == AnswerKind.STOPPED
    # With another root on the chain, the winner has sent wrong states, and no answer is right.
    wrong = replace(audit, round_opening=replace(opening, root=bytes(32)))
    assert same_answer(together, exact.recompute_update, wrong).fault == exact.WRONG_STATES


def test_an_update_that_does_not_stop(trained: Trained, together: Together) -> None:
    stop = requests.StopCheck(JOB, PART, N, 0, JOB / "global.state", opened(trained, N), SPEC.engine)
    assert same_answer(together, exact.check_stop, stop).reason == ShareReason.NOT_STOPPED
    wrong = replace(stop, last=replace(stop.last, root=bytes(32)))
    assert same_answer(together, exact.check_stop, wrong).reason == ShareReason.OPENING_MISMATCH


def test_a_seat_recomputes_an_update(trained: Trained, together: Together, tmp_path: Path) -> None:
    opening = rooted(tmp_path / "opening", load_job(JOB).global_state)
    right = Audit(JOB, opening, opened(trained, N), (SEED,), SPEC.engine)
    assert same_answer(together, exact.recompute_update, right).kind == AnswerKind.FINISHED
    for wrong in (
        replace(right, round_opening=replace(opening, root=bytes(32))),
        replace(right, round_opening=replace(opening, path=junk(tmp_path))),
        replace(right, closing=replace(right.closing, metrics=(5,))),
    ):
        assert same_answer(together, exact.recompute_update, wrong).fault == exact.WRONG_STATES


def test_a_seat_recomputes_an_aggregation(trained: Trained, together: Together, tmp_path: Path) -> None:
    job = load_job(JOB)
    opening = rooted(tmp_path / "opening", job.global_state)
    update = requests.RootedFile(trained.sent[0], trained.share.update_root)
    right = Sum(JOB, opening, (update,) * job.job.document.slots, (SEED,), SPEC.engine)
    assert same_answer(together, exact.recompute_aggregation, right).kind == AnswerKind.FINISHED
    directory, first, closing = odd(tmp_path)
    high = requests.RootedFile(closing.files.global_state, file_root(closing.files.global_state))
    stopped = Sum(directory, first, (high,) * load_job(directory).job.document.slots, (SEED,), SPEC.engine)
    assert same_answer(together, exact.recompute_aggregation, stopped).kind == AnswerKind.STOPPED
    # A file with another root comes before an aggregation without a result.
    wrong = [replace(high, root=bytes(32)), replace(high, path=junk(tmp_path))]
    cases = [replace(stopped, updates=(file, *stopped.updates[1:])) for file in wrong]
    for other in (replace(right, opening=replace(opening, root=bytes(32))), *cases):
        assert same_answer(together, exact.recompute_aggregation, other).fault == exact.WRONG_STATES
    fewer = replace(right, updates=right.updates[1:])
    for compute in (exact.recompute_aggregation, lambda asked: run(together, exact.recompute_aggregation, asked)):
        with pytest.raises(ReplayError):
            compute(fewer)


def test_the_files_of_others_are_only_read(trained: Trained, together: Together) -> None:
    before = [(path.read_bytes(), path.stat().st_nlink) for path in (*trained.paths(N), *trained.sent)]
    check = Check(JOB, JOB / "global.state", opened(trained, N), *trained.sent, *trained.roots, SPEC.engine)
    run(together, exact.check_update, check)
    assert [(path.read_bytes(), path.stat().st_nlink) for path in (*trained.paths(N), *trained.sent)] == before
