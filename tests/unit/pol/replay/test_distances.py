"""Distances are relative to the update of the reference, and do not depend on the machine that measures them."""

from math import fsum

import numpy as np
import pytest

from pol.replay import distances as module
from pol.replay.distances import SegmentEnd, distances
from pol.rules.tolerance import FAR, PARTS, SAME, Distance, parts_of
from pol.state.arrays import Array
from pol.values import f32_bits


def end(array: Array, metric: float = 1.0) -> SegmentEnd:
    return SegmentEnd(global_state={"w": array}, local_state={}, metrics={"loss": f32_bits(metric)})


def between(start: Array, reference: Array, other: Array) -> Distance:
    return distances(end(start), end(reference), end(other))["global.w"]


def floats(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


def test_a_distance_is_relative_to_the_way_of_the_reference() -> None:
    start, reference = floats(0, 0, 0, 0), floats(1, 1, 2, 0)
    assert between(start, reference, reference) == SAME
    # An element is half of the largest update away, and all together an eighth of the sum of updates.
    assert between(start, reference, floats(1, 1, 2, 0.5)) == Distance(largest=PARTS // 4, mean=PARTS // 8)


def test_a_claim_cannot_make_its_own_scale_larger() -> None:
    start, honest = floats(0, 0), floats(1, 1)
    far = floats(1_000, 1)
    assert between(start, honest, far).largest == FAR.largest
    assert between(start, honest, start) == Distance(largest=PARTS, mean=PARTS)


def test_a_tensor_that_the_reference_left_as_it_was() -> None:
    start = floats(1, 2)
    assert between(start, start, start) == SAME
    assert between(start, start, floats(1, np.nextafter(np.float32(2), np.float32(3)))) == FAR


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_never_the_same(number: float) -> None:
    start, reference = floats(0, 0), floats(1, 1)
    assert between(start, reference, floats(1, number)) == FAR
    assert between(start, floats(1, number), floats(1, number)) == FAR


def test_integers_have_to_be_equal() -> None:
    start, one, two = (np.array([number], np.int64) for number in (0, 10**6, 10**6 + 1))
    assert between(start, one, one) == SAME
    assert between(start, one, two) == FAR


def test_a_metric_is_relative_to_itself() -> None:
    here, there = end(floats(1), 2.0), end(floats(1), 3.0)
    assert distances(end(floats(0)), here, there)["metric.loss"] == Distance(largest=PARTS // 2, mean=PARTS // 2)


def test_both_states_are_measured() -> None:
    state = {"w": floats(1)}
    whole = SegmentEnd(global_state=state, local_state={"v": floats(2)}, metrics={})
    assert set(distances(whole, whole, whole)) == {"global.w", "local.v"}


def test_sums_do_not_depend_on_blocks_of_memory_or_on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    start, reference = (random.standard_normal(1_001).astype(np.float32) for _ in range(2))
    other = reference + random.standard_normal(1_001).astype(np.float32) * np.float32(1e-3)
    whole = between(start, reference, other)
    wide = [array.astype(np.float64) for array in (start, reference, other)]
    difference, update = (np.abs(wide[2] - wide[1]), np.abs(wide[1] - wide[0]))
    ratio = fsum(difference) / fsum(update)
    assert abs(whole.mean - ratio * PARTS) < 2
    assert whole.largest == parts_of(int(difference.max() * 2**60), int(update.max() * 2**60))
    monkeypatch.setattr(module, "_BLOCK", 64)
    assert abs(between(start, reference, other).mean - whole.mean) <= 1
    assert between(start, reference, other).largest == whole.largest
    permuted = random.permutation(1_001)
    assert between(start[permuted], reference[permuted], other[permuted]).largest == whole.largest
