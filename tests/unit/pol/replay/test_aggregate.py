"""The end of a round: a defined sequence of exact operations in slot order."""

import numpy as np
import pytest

from domain.hashing import merkle_root
from pol.errors import NotFinite, ReplayError, StateError
from pol.executor.backend import backend
from pol.job.load import LoadedJob
from pol.state.arrays import State
from pol.state.canonical import state_tree
from pol.work.aggregate import aggregate, weighted_mean

NUMPY = backend("numpy")


def _updates(loaded: LoadedJob, scale: float = 1.0) -> list[tuple[int, State]]:
    generator = np.random.default_rng(3)
    return [
        (count, {s.name: (generator.standard_normal(s.shape) * scale).astype(np.float32) for s in loaded.job.updated})
        for count in (96, 128, 32, 64)
    ]  # fmt: skip


def test_is_the_weighted_mean_taken_off_the_opening_state(loaded: LoadedJob) -> None:
    updates = _updates(loaded, 0.1)
    result = aggregate(loaded, loaded.global_state, updates, NUMPY)
    for name, before in loaded.global_state.items():
        total = np.sum([c * update[name].astype(np.float64) for c, update in updates], axis=0)
        mean = (total / 320).astype(np.float32)
        np.testing.assert_array_equal(result.state[name], before - mean)
    tree = state_tree(result.state)
    assert (result.root, result.count) == (tree.root, tree.count)


def test_says_the_root_of_each_tensor(loaded: LoadedJob) -> None:
    result = aggregate(loaded, loaded.global_state, _updates(loaded), NUMPY)
    leaves = state_tree(result.state).leaves[1:]  # every tensor of this job fits one chunk
    assert [name for name, _ in result.tensor_roots] == sorted(result.state)
    assert [root for _, root in result.tensor_roots] == [merkle_root([leaf]) for leaf in leaves]


def test_both_back_ends_agree(loaded: LoadedJob) -> None:
    updates = _updates(loaded)
    found = {
        aggregate(loaded, loaded.global_state, updates, backend(name)).root
        for name in ("numpy", "torch")
    }
    assert len(found) == 1


def test_the_order_of_slots_is_part_of_the_rule() -> None:
    big, small = np.array([1e30], np.float32), np.array([1.0], np.float32)
    updates = [(1, {"a": big}), (1, {"a": -big}), (2, {"a": small})]
    assert weighted_mean(updates, "a") == np.float32(0.5)
    assert weighted_mean([updates[0], updates[2], updates[1]], "a") == 0


def test_the_sum_is_fp64_and_rounded_once() -> None:
    updates = [(3, {"a": np.array([0.1], np.float32)}), (5, {"a": np.array([1e-9], np.float32)})]
    wide = (3 * float(np.float32(0.1)) + 5 * float(np.float32(1e-9))) / 8
    assert weighted_mean(updates, "a")[0] == np.float32(wide)
    assert weighted_mean(updates, "a").dtype == np.float32


def test_one_changed_update_or_count_changes_the_root(loaded: LoadedJob) -> None:
    updates = _updates(loaded)
    root = aggregate(loaded, loaded.global_state, updates, NUMPY).root
    count, update = updates[1]
    other = {**update, "0.bias": update["0.bias"] + np.float32(1e-3)}
    for changed in ((count, other), (count + 32, update)):
        given = [updates[0], changed, *updates[2:]]
        assert aggregate(loaded, loaded.global_state, given, NUMPY).root != root


def test_bad_updates_are_refused(loaded: LoadedJob) -> None:
    start = loaded.global_state
    (count, update), *_ = _updates(loaded)
    with pytest.raises(ReplayError):
        aggregate(loaded, start, [], NUMPY)
    with pytest.raises(ReplayError):
        aggregate(loaded, start, [(0, update)], NUMPY)
    with pytest.raises(StateError):
        aggregate(loaded, start, [(count, {"0.bias": update["0.bias"]})], NUMPY)
    with pytest.raises(NotFinite):
        aggregate(loaded, start, [(count, {**update, "0.bias": update["0.bias"] * np.inf})], NUMPY)
    huge = {name: np.full_like(array, -3e38) for name, array in update.items()}
    full = {name: np.full_like(array, 3e38) for name, array in start.items()}
    with pytest.raises(NotFinite):
        aggregate(loaded, full, [(count, huge)], NUMPY)
