"""What runs in the pool, with a real job: a right share passes, and each kind of wrong share gives its own reason."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from domain.hashing import merkle_root
from domain.proof.reasons import ShareReason
from domain.proof.records import AnswerKind
from pol.errors import StepFailed
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.document import order_terms
from pol.job.load import load_job
from pol.replay.replay import replay_segment
from pol.rules.commitment import boundary_root, chunk_leaf, update_claim
from pol.rules.tiers.answers import answer_digests
from pol.state.arrays import State
from pol.state.canonical import chunks_of, encode_state, state_tree
from pol.work.aggregation import root_of_parts
from pol.work.places import boundary_step
from pol.work.train import aggregate
from tests.support.chain_market import digest
from tests.unit.pol.mlp import write_mlp_job
from tests.unit.validator.trained import (
    JOB,
    PART,
    N,
    Trained,
    check_segment,
    check_update,
    opened_at,
    train,
)
from validator.decide.records import Recomputed, ReplayOutcome
from validator.work import numerics, requests
from validator.work.checks import exact

SEED = digest("seed of a stage")
NOT_THERE = "the states that the winner sent do not have the roots on the chain"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("share"))


def bent(state: State, factor: float = 1.5) -> dict[str, np.ndarray]:
    return {name: (array * np.float32(factor)).astype(array.dtype) for name, array in state.items()}


def holds(opened: requests.OpenedStates) -> bool:
    return numerics.opening_holds(requests.OpeningCheck(JOB, opened))


def audit_segment(index: int, start: requests.OpenedStates, *, seed: bytes = SEED, name: str = "numpy") -> Recomputed:
    """Replay a segment as a seat does."""
    asked = requests.SegmentAudit(
        directory=JOB, part=PART, index=index, start=start, seeds=(seed,), engine=Engine(name)
    )
    return exact.recompute_segment(asked)


def audit_aggregation(job: Path, opening: requests.RootedFile, updates: tuple[requests.RootedFile, ...]) -> Recomputed:
    """Aggregate a round as a seat does."""
    asked = requests.AggregationAudit(
        directory=job, opening=opening, updates=updates, seeds=(SEED,), engine=Engine("numpy")
    )
    return exact.recompute_aggregation(asked)


def check_stop(
    index: int,
    last: requests.OpenedStates,
    *,
    steps: int = 0,
    job: Path = JOB,
    opening: Path = JOB / "global.state",
) -> ReplayOutcome:
    asked = requests.StopCheck(
        directory=job,
        part=PART,
        index=index,
        steps=steps,
        round_opening=opening,
        last=last,
        engine=Engine("numpy"),
    )
    return exact.check_stop(asked)


def recompute_states(
    start: int, index: int, states: tuple[Path, Path], to: tuple[Path, Path]
) -> numerics.Written | None:
    asked = requests.StatesReplay(
        directory=JOB,
        part=PART,
        start=start,
        index=index,
        states=requests.StateFiles(*states),
        engine=Engine("numpy"),
        to=requests.StateFiles(*to),
    )
    return numerics.recompute_states(asked)


def test_a_job_loads_to_the_terms_that_an_order_names(tmp_path: Path) -> None:
    outcome = numerics.load(JOB)
    assert outcome.terms == order_terms(load_job(JOB).job)
    missing = numerics.load(tmp_path)
    assert missing.terms is None
    assert missing.text


def test_a_right_share_passes_at_every_place(trained: Trained) -> None:
    for index in range(N):
        outcome = trained.segment(index)
        assert (outcome.reason, outcome.root) == (0, trained.boundaries[index + 1].root)
    root = update_claim(trained.share.update_root, trained.share.local_out_root, trained.boundaries[N].metrics)
    assert trained.update() == ReplayOutcome(0, root)


def test_states_that_do_not_hash_to_the_leaf(trained: Trained) -> None:
    _, last = trained.ends(1)
    assert trained.segment(1, (bytes(32), last)).reason == ShareReason.OPENING_MISMATCH
    assert trained.segment(1, metrics=(0x3F800000,)).reason == ShareReason.OPENING_MISMATCH
    assert trained.update(closing_root=bytes(32)).reason == ShareReason.OPENING_MISMATCH


@pytest.mark.parametrize("data", [b"", b"junk" * 100, bytes(2**16)])
def test_states_that_are_none(trained: Trained, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "state"
    path.write_bytes(data)
    metrics = trained.boundaries[1].metrics
    for pair in ((path, trained.paths(1)[1]), (trained.paths(1)[0], path)):
        start, end = trained.ends(1)
        outcome = check_segment(1, opened_at(pair, metrics, start), end)
        assert outcome.reason == ShareReason.OPENING_MISMATCH
        assert not holds(opened_at(pair, metrics, start))


def test_a_trace_that_training_does_not_lead_to(trained: Trained) -> None:
    first, _ = trained.ends(2)
    outcome = trained.segment(2, (first, bytes(32)))
    assert outcome.reason == ShareReason.SEGMENT_MISMATCH
    assert outcome.root == trained.boundaries[3].root


def test_another_loss_than_replay_finds(trained: Trained) -> None:
    first, last = trained.ends(2)
    after = trained.boundaries[3]
    forged = boundary_root(after.global_root, after.local_root, (0x3F800000,))
    assert forged != last
    assert trained.segment(2, (first, forged)).reason == ShareReason.SEGMENT_MISMATCH


@pytest.mark.parametrize("which", [0, 1])
def test_an_update_that_does_not_follow_from_the_trace(trained: Trained, which: int) -> None:
    update, local_out = trained.roots
    roots = [(bytes(32), local_out), (update, bytes(32))][which]
    outcome = trained.update(roots=roots)
    assert outcome.reason == ShareReason.UPDATE_MISMATCH
    assert outcome.root == update_claim(
        trained.share.update_root, trained.share.local_out_root, trained.boundaries[N].metrics
    )


@pytest.mark.parametrize("which", [0, 1])
def test_blobs_that_are_not_what_was_claimed(trained: Trained, tmp_path: Path, which: int) -> None:
    other = tmp_path / "other"
    state = (trained.share.update, trained.share.local_out)[which]
    for data in (b"garbage", encode_state(bent(state))):
        other.write_bytes(data)
        sent = [*trained.sent]
        sent[which] = other
        end = trained.boundaries[N]
        closing = opened_at(trained.paths(N), end.metrics, end.root)
        outcome = check_update(closing, (sent[0], sent[1]), trained.roots)
        assert outcome.reason == ShareReason.MALFORMED


@pytest.fixture(scope="module")
def outer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job whose updates are differences, which may be infinite where both states are finite."""
    folder = tmp_path_factory.mktemp("outer")
    write_mlp_job(folder)
    return folder


def filled(state: State, value: float) -> dict[str, np.ndarray]:
    return {name: np.full_like(array, value) for name, array in state.items()}


def test_an_update_that_is_not_finite_ends_in_a_reason_and_no_error(
    trained: Trained, outer: Path, tmp_path: Path
) -> None:
    job = load_job(outer)
    start, end = filled(job.global_state, -3.4e38), filled(job.global_state, 3.4e38)
    opening, pair = tmp_path / "opening", (tmp_path / "closing", outer / "local.state")
    opening.write_bytes(encode_state(start))
    pair[0].write_bytes(encode_state(end))
    root = boundary_root(state_tree(end).root, job.job.document.local_root)
    roots = bytes(32), bytes(32)
    closing = opened_at(pair, (), root)
    outcome = check_update(closing, trained.sent, roots, job=outer, opening=opening)
    assert outcome.reason == ShareReason.NOT_FINITE
    known = requests.RootedFile(opening, state_tree(start).root)
    found = exact.recompute_update(requests.UpdateAudit(outer, known, closing, (SEED,), Engine("numpy")))
    local = load_job(outer).local_state
    assert found == stopped(0, [], end, local)


def test_a_step_that_is_not_finite(trained: Trained, tmp_path: Path) -> None:
    huge = bent(trained.states[1][0], 1e30)
    path = tmp_path / "huge"
    path.write_bytes(encode_state(huge))
    root = boundary_root(state_tree(huge).root, state_tree(trained.states[1][1]).root)
    pair = (path, trained.paths(1)[1])
    opened = opened_at(pair, (), root)
    outcome = check_segment(1, opened, trained.ends(1)[1])
    assert outcome.reason == ShareReason.NOT_FINITE
    assert recompute_states(1, 2, pair, (path, path)) is None
    # A seat says where it stopped, and shows by the digest that it came that far.
    found = audit_segment(1, opened)
    first = boundary_step(load_job(JOB).job.document, PART.round, 1)
    assert found == stopped(first, [], huge, trained.states[1][1])


@pytest.mark.parametrize("name", ["numpy", "native"])
def test_a_seat_shows_how_far_it_came_before_the_job_stopped(name: str, tmp_path: Path) -> None:
    """The states of the last step that has a result are in the digest, although the next one was taken in place."""
    job = load_job(JOB)
    opening, momentum = job.global_state, filled(job.local_state, 1e30)
    pair = tmp_path / "global", tmp_path / "local"
    for path, state in zip(pair, (opening, momentum), strict=True):
        path.write_bytes(encode_state(state))
    reached: list[tuple[bytes, State, State]] = []
    with pytest.raises(StepFailed):
        replay_segment(
            job,
            PART,
            0,
            opening,
            momentum,
            backend(Engine("numpy")),
            lambda state: reached.append((state.root, state.global_state, state.local_state)),
        )
    ((inner, *last),) = reached
    root = boundary_root(state_tree(opening).root, state_tree(momentum).root)
    found = audit_segment(0, opened_at(pair, (), root), name=name)
    first = boundary_step(job.job.document, PART.round, 0)
    assert found == stopped(first + 1, [inner], *last)


def test_a_share_that_ends_where_the_job_stops_is_checked_there(trained: Trained, outer: Path, tmp_path: Path) -> None:
    huge, path = bent(trained.states[1][0], 1e30), tmp_path / "huge"
    path.write_bytes(encode_state(huge))
    pair = (path, trained.paths(1)[1])
    root = boundary_root(state_tree(huge).root, state_tree(trained.states[1][1]).root)
    ends = check_stop(1, opened_at(pair, (), root))
    assert ends == ReplayOutcome(0, b"")
    # A share is paid for its steps before the stop, so their number is checked.
    assert check_stop(1, opened_at(pair, (), root), steps=1).reason == ShareReason.NOT_STOPPED
    # Where training goes on, nobody stops; and nobody brings other states for it.
    for index in range(N):
        metrics, at = trained.boundaries[index].metrics, trained.boundaries[index].root
        goes_on = check_stop(index, opened_at(trained.paths(index), metrics, at))
        assert goes_on.reason == ShareReason.NOT_STOPPED
    other = check_stop(1, opened_at(pair, (), bytes(32)))
    assert other.reason == ShareReason.OPENING_MISMATCH
    # Behind the last segment it is the update.
    job = load_job(outer)
    last = job.job.document.share_segments
    start, end = filled(job.global_state, -3.4e38), filled(job.global_state, 3.4e38)
    (tmp_path / "start").write_bytes(encode_state(start))
    (tmp_path / "end").write_bytes(encode_state(end))
    closing = boundary_root(state_tree(end).root, job.job.document.local_root)
    states = (tmp_path / "end", outer / "local.state")
    for first, reason in ((tmp_path / "start", 0), (tmp_path / "end", ShareReason.NOT_STOPPED)):
        found = check_stop(last, opened_at(states, (), closing), job=outer, opening=first)
        assert found.reason == reason


# Rounds, and what seats do


def test_a_seat_shows_by_the_digest_that_it_took_every_step(trained: Trained) -> None:
    """Two seats of one stage say the same; of another stage, or without the state, nobody could know it."""
    for index in range(N):
        metrics, start = trained.boundaries[index].metrics, trained.boundaries[index].root
        opened = opened_at(trained.paths(index), metrics, start)
        found = audit_segment(index, opened)
        assert (found.fault, found.root) == ("", trained.boundaries[index + 1].root)
        steps = load_job(JOB).job.document.segment_steps
        inner = step_roots(trained, index)
        assert len(inner) == steps
        pieces = [encode_state(state) for state in trained.states[index + 1]]
        assert (found.digest,) == answer_digests([SEED], inner, pieces)
        again = audit_segment(index, opened)
        assert again == found
        other = audit_segment(index, opened, seed=digest("another stage"))
        assert (other.root, other.digest == found.digest) == (found.root, False)
    metrics = trained.boundaries[1].metrics
    wrong = audit_segment(1, opened_at(trained.paths(1), metrics, bytes(32)))
    assert wrong.fault


def step_roots(trained: Trained, index: int) -> list[bytes]:
    roots: list[bytes] = []
    replay_segment(
        load_job(JOB),
        PART,
        index,
        *trained.states[index],
        backend(Engine("numpy")),
        lambda state: roots.append(state.root),
    )
    return roots


def stopped(step: int, inner: list[bytes], *states: State) -> Recomputed:
    (made,) = answer_digests([SEED], inner, [encode_state(state) for state in states])
    return Recomputed("", AnswerKind.STOPPED, b"", made, step)


def written(root: bytes, *places: Path) -> numerics.Written:
    return numerics.Written(root, tuple(sha256(place.read_bytes()).digest() for place in places))


def test_validator_and_seat_aggregate_alike(trained: Trained, tmp_path: Path) -> None:
    loaded = load_job(JOB)
    opening, update = JOB / "global.state", trained.sent[0]
    other = trained.folder / "other"
    other.write_bytes(encode_state(bent(trained.share.update)))
    updates = [trained.share.update, bent(trained.share.update)]
    wanted = aggregate(loaded, loaded.global_state, updates, backend(Engine("numpy")))
    place = tmp_path / "made"
    asked = requests.RoundAggregation(0, 1, JOB, opening, (update, other), Engine("numpy"), place)
    made = numerics.aggregate_round(asked)
    assert made is not None
    leaves = dict(zip(made.names, made.leaves, strict=True))
    assert root_of_parts(loaded.job.document.global_tensors, [leaves]) == wanted.root
    assert place.read_bytes() == encode_state(wanted.state)
    assert made.digest == sha256(place.read_bytes()).digest()
    root = trained.share.update_root
    known = loaded.job.document.global_root
    sent = (
        requests.RootedFile(update, root),
        requests.RootedFile(other, state_tree(updates[1]).root),
    )
    found = audit_aggregation(JOB, requests.RootedFile(opening, known), sent)
    (answer,) = answer_digests([SEED], [], [place.read_bytes()])
    assert found == Recomputed("", AnswerKind.FINISHED, wanted.root, answer)
    for start, claimed in ((bytes(32), root), (known, bytes(32))):
        wrong = (requests.RootedFile(update, claimed),) * 2
        refused = audit_aggregation(JOB, requests.RootedFile(opening, start), wrong)
        assert refused == Recomputed(NOT_THERE)


def test_updates_that_lead_to_no_finite_state(outer: Path, tmp_path: Path) -> None:
    job = load_job(outer)
    start = filled(job.global_state, -3.4e38)
    update = {spec.name: np.full_like(start[spec.name], 3.4e38) for spec in job.job.updated}
    (tmp_path / "u").write_bytes(encode_state(update))
    (tmp_path / "s").write_bytes(encode_state(start))
    updates, place = (tmp_path / "u",) * 2, tmp_path / "made"
    asked = requests.RoundAggregation(0, 1, outer, tmp_path / "s", updates, Engine("numpy"), place)
    assert numerics.aggregate_round(asked) is None
    opening = requests.RootedFile(tmp_path / "s", state_tree(start).root)
    sent = (requests.RootedFile(tmp_path / "u", state_tree(update).root),) * 2
    found = audit_aggregation(outer, opening, sent)
    assert found == stopped(0, [], start)


def test_a_seat_finds_the_update_that_the_validator_finds(trained: Trained) -> None:
    opening = requests.RootedFile(JOB / "global.state", load_job(JOB).job.document.global_root)
    closing = opened_at(trained.paths(N), trained.boundaries[N].metrics, trained.boundaries[N].root)
    found = exact.recompute_update(requests.UpdateAudit(JOB, opening, closing, (SEED,), Engine("numpy")))
    sent = [path.read_bytes() for path in trained.sent]
    (made,) = answer_digests([SEED], [], sent)
    assert found == Recomputed("", AnswerKind.FINISHED, trained.update().root, made)
    wrong = (
        (replace(opening, root=bytes(32)), closing),
        (opening, replace(closing, root=bytes(32))),
    )
    for start, end in wrong:
        refused = exact.recompute_update(requests.UpdateAudit(JOB, start, end, (SEED,), Engine("numpy")))
        assert refused == Recomputed(NOT_THERE)


def test_recomputed_states_are_those_that_the_provider_had(trained: Trained, tmp_path: Path) -> None:
    for start, index in ((0, 3), (1, 3), (2, 3)):
        opened = trained.paths(start)
        made = tmp_path / f"global{start}", tmp_path / f"local{start}"
        found = recompute_states(start, index, opened, made)
        assert found == written(trained.boundaries[index].root, *made)
        there = [path.read_bytes() for path in trained.paths(index)]
        assert [path.read_bytes() for path in made] == there
    root, metrics = trained.boundaries[3].root, trained.boundaries[3].metrics
    assert holds(opened_at(trained.paths(3), metrics, root))
    assert not holds(opened_at(trained.paths(2), metrics, root))
    assert not holds(opened_at(trained.paths(3), (), root))


def test_sizes_are_those_of_the_encoded_states(trained: Trained) -> None:
    sizes = numerics.sizes(JOB)
    assert sizes.global_state == (JOB / "global.state").stat().st_size
    assert sizes.local_state == (JOB / "local.state").stat().st_size
    assert sizes.update == trained.sent[0].stat().st_size


def test_the_lengths_of_chunks_make_the_state(trained: Trained) -> None:
    path = trained.paths(N)[0]
    lengths = numerics.result_lengths(path)
    assert len(lengths) == load_job(JOB).job.document.global_chunks
    assert lengths == [len(chunk) for chunk in chunks_of(path.read_bytes())]


def test_bytes_with_the_right_hashes_that_are_no_state_do_not_hold(trained: Trained, tmp_path: Path) -> None:
    """A provider can commit to a NaN, whose chunks have hashes like any other."""
    end = trained.boundaries[N]
    opened = opened_at(trained.paths(N), end.metrics, end.root)
    assert holds(opened)
    local = merkle_root([chunk_leaf(chunk) for chunk in chunks_of(opened.files.local_state.read_bytes())])
    for number, is_state in ((np.float32(1), True), (np.float32(np.nan), False)):
        data = opened.files.global_state.read_bytes()[:-4] + number.tobytes()
        changed = tmp_path / "global"
        changed.write_bytes(data)
        root = boundary_root(merkle_root([chunk_leaf(chunk) for chunk in chunks_of(data)]), local, opened.metrics)
        files = replace(opened.files, global_state=changed)
        assert holds(replace(opened, files=files, root=root)) is is_state
