"""What runs in the pool, with a real job: a right share passes, and each kind of wrong share gives its own reason."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from domain.reasons import ShareReason
from pol.executor.backend import backend
from pol.job.document import order_terms
from pol.job.load import load_job
from pol.rules.commitment import boundary_root, update_claim
from pol.state.arrays import State
from pol.state.canonical import decode_state, encode_state, state_tree
from pol.work.aggregate import aggregate
from tests.unit.validator.trained import JOB, PART, N, Trained, train
from validator.decide.records import ReplayOutcome
from validator.work import numerics
from validator.work.numerics import Claimed


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("share"))


def bent(state: State, factor: float = 1.5) -> dict[str, np.ndarray]:
    return {name: (array * np.float32(factor)).astype(array.dtype) for name, array in state.items()}


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
        assert outcome.inner_roots[-1] == outcome.root
    root = update_claim(trained.share.update_root, trained.share.local_out_root)
    assert trained.update() == ReplayOutcome(0, root, ())


def test_states_that_do_not_hash_to_the_leaf(trained: Trained) -> None:
    claimed = replace(trained.claimed(1), opening_root=bytes(32))
    assert trained.segment(1, claimed).reason == ShareReason.OPENING_MISMATCH
    assert trained.update(closing_root=bytes(32)).reason == ShareReason.OPENING_MISMATCH


@pytest.mark.parametrize("data", [b"", b"junk" * 100, bytes(2**16)])
def test_states_that_are_none(trained: Trained, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "state"
    path.write_bytes(data)
    for pair in ((path, trained.paths(1)[1]), (trained.paths(1)[0], path)):
        outcome = numerics.check_segment(JOB, PART, 1, pair, trained.claimed(1), "numpy")
        assert outcome.reason == ShareReason.OPENING_MISMATCH
        assert not numerics.opening_holds(JOB, pair, trained.boundaries[1].root)


def test_a_trace_that_training_does_not_lead_to(trained: Trained) -> None:
    claimed = replace(trained.claimed(2), closing_root=bytes(32))
    outcome = trained.segment(2, claimed)
    assert outcome.reason == ShareReason.SEGMENT_MISMATCH
    assert outcome.root == trained.boundaries[3].root  # what evidence carries


def test_another_loss_than_replay_finds(trained: Trained) -> None:
    claimed = replace(trained.claimed(2), metrics=(0x3F800000,))
    assert trained.segment(2, claimed).reason == ShareReason.METRICS_MISMATCH


@pytest.mark.parametrize("field", ["update_root", "local_out"])
def test_an_update_that_does_not_follow_from_the_trace(trained: Trained, field: str) -> None:
    outcome = trained.update(**{field: bytes(32)})
    assert outcome.reason == ShareReason.UPDATE_MISMATCH
    assert outcome.root == update_claim(trained.share.update_root, trained.share.local_out_root)


@pytest.mark.parametrize("which", [0, 1])
def test_blobs_that_are_not_what_was_claimed(trained: Trained, tmp_path: Path, which: int) -> None:
    other = tmp_path / "other"
    state = (trained.share.update, trained.share.local_out)[which]
    claimed = Claimed(
        b"", trained.boundaries[N].root, (), trained.share.update_root, trained.share.local_out_root
    )
    for data in (b"garbage", encode_state(bent(state))):
        other.write_bytes(data)
        sent = [*trained.sent]
        sent[which] = other
        outcome = numerics.check_update(
            JOB, JOB / "global.state", trained.paths(N), (sent[0], sent[1]), claimed
        )
        assert outcome.reason == ShareReason.MALFORMED


def closing_at_the_edge(trained: Trained, folder: Path) -> tuple[tuple[Path, Path], bytes]:
    """Return the files of a finite closing state whose difference to the opening one is not finite."""
    huge = {
        name: np.where(array > 0, np.float32(-3.4e38), np.float32(3.4e38)).astype(array.dtype)
        for name, array in load_job(JOB).global_state.items()
    }
    opening = {name: -array for name, array in huge.items()}
    (folder / "opening").write_bytes(encode_state(opening))
    (folder / "closing").write_bytes(encode_state(huge))
    pair = (folder / "closing", trained.paths(N)[1])
    local = state_tree(trained.states[N][1]).root
    return pair, boundary_root(state_tree(huge).root, local)


def test_an_update_that_is_not_finite_ends_in_a_reason_and_no_error(
    trained: Trained, tmp_path: Path
) -> None:
    pair, root = closing_at_the_edge(trained, tmp_path)
    opening = tmp_path / "opening"
    claimed = Claimed(b"", root, (), bytes(32), bytes(32))
    outcome = numerics.check_update(JOB, opening, pair, trained.sent, claimed)
    assert outcome.reason == ShareReason.NOT_FINITE
    opened = state_tree({name: -a for name, a in _decode(tmp_path / "closing").items()}).root
    audited = numerics.audit_update(JOB, (opening, opened), pair, root)
    assert (audited.reason, audited.root) == (ShareReason.NOT_FINITE, b"")


def _decode(path: Path) -> dict[str, np.ndarray]:
    return decode_state(path.read_bytes(), load_job(JOB).job.document.global_tensors)


def test_a_step_that_is_not_finite(trained: Trained, tmp_path: Path) -> None:
    huge = bent(trained.states[1][0], 1e30)
    path = tmp_path / "huge"
    path.write_bytes(encode_state(huge))
    root = boundary_root(state_tree(huge).root, state_tree(trained.states[1][1]).root)
    claimed = replace(trained.claimed(1), opening_root=root)
    pair = (path, trained.paths(1)[1])
    outcome = numerics.check_segment(JOB, PART, 1, pair, claimed, "numpy")
    assert outcome.reason == ShareReason.NOT_FINITE
    assert numerics.recompute_states(JOB, PART, 1, 2, pair, "numpy") is None


# Rounds, and what auditors do


def test_validator_and_auditor_aggregate_alike(trained: Trained) -> None:
    loaded = load_job(JOB)
    opening, update = JOB / "global.state", trained.sent[0]
    pairs = [(128, trained.share.update), (192, trained.share.update)]
    wanted = aggregate(loaded, loaded.global_state, pairs, backend("numpy"))
    encoded = numerics.aggregate_round(JOB, opening, [(128, update), (192, update)], "numpy")
    assert encoded is not None
    assert (encoded.root, encoded.data) == (wanted.root, encode_state(wanted.state))
    root = trained.share.update_root
    audited = numerics.audit_aggregation(
        JOB,
        (opening, loaded.job.document.global_root),
        [(128, update, root), (192, update, root)],
        "numpy",
    )
    assert audited == ReplayOutcome(0, encoded.root, encoded.inner_roots)
    for start, claimed in ((bytes(32), root), (loaded.job.document.global_root, bytes(32))):
        refused = numerics.audit_aggregation(
            JOB, (opening, start), [(128, update, claimed)], "numpy"
        )
        assert (refused.reason, refused.root) == (ShareReason.OPENING_MISMATCH, b"")


def test_updates_that_lead_to_no_finite_state(trained: Trained, tmp_path: Path) -> None:
    update = {n: np.full_like(a, 3.4e38) for n, a in trained.share.update.items()}
    start = {n: np.full_like(a, -3.4e38) for n, a in trained.states[0][0].items()}
    (tmp_path / "u").write_bytes(encode_state(update))
    (tmp_path / "s").write_bytes(encode_state(start))
    assert numerics.aggregate_round(JOB, tmp_path / "s", [(1, tmp_path / "u")], "numpy") is None
    audited = numerics.audit_aggregation(
        JOB,
        (tmp_path / "s", state_tree(start).root),
        [(1, tmp_path / "u", state_tree(update).root)],
        "numpy",
    )
    assert (audited.reason, audited.root) == (ShareReason.NOT_FINITE, b"")


def test_an_auditor_finds_the_update_that_the_validator_finds(trained: Trained) -> None:
    opening = (JOB / "global.state", load_job(JOB).job.document.global_root)
    root = trained.boundaries[N].root
    audited = numerics.audit_update(JOB, opening, trained.paths(N), root)
    assert (audited.reason, audited.root) == (0, trained.update().root)
    for start, closing in (((opening[0], bytes(32)), root), (opening, bytes(32))):
        refused = numerics.audit_update(JOB, start, trained.paths(N), closing)
        assert (refused.reason, refused.root) == (ShareReason.OPENING_MISMATCH, b"")


def test_recomputed_states_are_those_that_the_provider_had(trained: Trained) -> None:
    for start, index in ((0, 3), (1, 3), (2, 3)):
        found = numerics.recompute_states(JOB, PART, start, index, trained.paths(start), "numpy")
        assert found is not None
        root, first, second = found
        assert root == trained.boundaries[index].root
        assert (first, second) == tuple(path.read_bytes() for path in trained.paths(index))
    assert numerics.opening_holds(JOB, trained.paths(3), trained.boundaries[3].root)
    assert not numerics.opening_holds(JOB, trained.paths(2), trained.boundaries[3].root)


def test_sizes_are_those_of_the_encoded_states(trained: Trained) -> None:
    sizes = numerics.sizes(JOB)
    assert sizes.global_state == (JOB / "global.state").stat().st_size
    assert sizes.local_state == (JOB / "local.state").stat().st_size
    assert sizes.update == trained.sent[0].stat().st_size


def test_result_chunks_make_the_state(trained: Trained) -> None:
    path = trained.paths(N)[0]
    chunks = numerics.result_chunks(path)
    assert len(chunks) == load_job(JOB).job.document.global_chunks
    assert b"".join(chunks) == path.read_bytes()
