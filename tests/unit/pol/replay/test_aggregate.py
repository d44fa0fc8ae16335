"""The end of a round: a defined sequence of exact operations in slot order."""

import tracemalloc
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.hashing import merkle_root
from pol.errors import NotFinite, ReplayError, StateError
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.load import LoadedJob
from pol.state.arrays import Array, State
from pol.state.canonical import state_specs, state_tree
from pol.values import TensorSpec
from pol.work.train import aggregate
from pol.work.updates.averaged import mean

NUMPY = backend(Engine("numpy"))


def _updates(loaded: LoadedJob) -> list[State]:
    generator = np.random.default_rng(3)
    return [
        {s.name: generator.standard_normal(s.shape).astype(np.float32) for s in loaded.job.updated}
        for _ in range(loaded.job.document.slots)
    ]


def mean_of(updates: Sequence[State]) -> Array:
    """Return the aggregate of the one tensor ``a``."""
    return mean(updates, state_specs(updates[0]), len(updates))["a"]


def test_is_the_mean_of_the_closing_states(loaded: LoadedJob) -> None:
    updates = _updates(loaded)
    result = aggregate(loaded, loaded.global_state, updates, NUMPY)
    for name in loaded.global_state:
        first, second = (update[name].astype(np.float64) for update in updates)
        np.testing.assert_array_equal(result.state[name], ((first + second) / 2).astype(np.float32))
    tree = state_tree(result.state)
    assert (result.root, result.count) == (tree.root, tree.count)


def test_says_the_root_of_each_tensor(loaded: LoadedJob) -> None:
    result = aggregate(loaded, loaded.global_state, _updates(loaded), NUMPY)
    leaves = state_tree(result.state).leaves[1:]  # every tensor of this job fits one chunk
    assert [name for name, _ in result.tensor_roots] == sorted(result.state)
    assert [root for _, root in result.tensor_roots] == [merkle_root([leaf]) for leaf in leaves]


def test_both_back_ends_agree(loaded: LoadedJob) -> None:
    updates = _updates(loaded)
    found = {aggregate(loaded, loaded.global_state, updates, backend(Engine(name))).root for name in ("numpy", "torch")}
    assert len(found) == 1


def test_the_order_of_slots_is_part_of_the_rule() -> None:
    big, small = np.array([1e30], np.float32), np.array([1.0], np.float32)
    updates = [{"a": big}, {"a": -big}, {"a": small}, {"a": small}]
    assert mean_of(updates) == np.float32(0.5)
    assert mean_of([updates[0], *updates[2:], updates[1]]) == 0


def test_the_sum_is_fp64_and_rounded_once() -> None:
    numbers = [np.float32(number) for number in (0.1, 1e-9, 0.3)]
    updates = [{"a": np.array([number])} for number in numbers]
    wide = sum(float(number) for number in numbers) / 3
    assert mean_of(updates)[0] == np.float32(wide)
    assert mean_of(updates).dtype == np.float32


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_the_mean_of_one_slot_is_its_own_bits(numbers: list[float]) -> None:
    array = np.array(numbers, np.float32)
    assert mean_of([{"a": array}]).tobytes() == (array + np.float32(0.0)).tobytes()


def test_updates_are_taken_one_by_one_and_none_is_kept() -> None:
    size, slots = 1 << 20, 12
    spec = TensorSpec("a", "f32", (size // 4,))

    def updates() -> Iterator[State]:
        for slot in range(slots):
            yield {"a": np.full(spec.shape, slot, np.float32)}

    tracemalloc.start()
    found = mean(updates(), (spec,), slots)["a"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found == (slots - 1) / 2).all()
    # the sum in FP64, one update, and that in canonical form
    assert peak < 5 * size


def test_one_changed_update_changes_the_root(loaded: LoadedJob) -> None:
    updates = _updates(loaded)
    root = aggregate(loaded, loaded.global_state, updates, NUMPY).root
    other = {**updates[1], "0.bias": updates[1]["0.bias"] + np.float32(1e-3)}
    assert aggregate(loaded, loaded.global_state, [updates[0], other], NUMPY).root != root


def test_bad_updates_are_refused(loaded: LoadedJob) -> None:
    start = loaded.global_state
    first, second = _updates(loaded)
    for number in ([], [first], [first, second, second]):
        with pytest.raises(ReplayError, match=f"2 slots, not {len(number)}"):
            aggregate(loaded, start, number, NUMPY)
    with pytest.raises(StateError):
        aggregate(loaded, start, [first, {"0.bias": second["0.bias"]}], NUMPY)
    infinite = {**second, "0.bias": second["0.bias"] * np.inf}
    with pytest.raises(NotFinite):
        aggregate(loaded, start, [first, infinite], NUMPY)
