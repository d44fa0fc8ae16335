"""Products: integers of 15 bits, an exact sum, one rounding."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pol.executor.names import NUMPY, TORCH
from pol.limits import MAX_SUMMED
from pol.ops.product import LARGEST_DIGIT, scale_rows
from pol.state.arrays import Array
from tests.unit.pol.executor.ops import HOSTILE, NOT_FINITE, apply, bits, both, floats


def integers_of(row: list[float]) -> tuple[list[int], int]:
    """The rule in plain Python integers: q and s of one row."""
    exact = [Fraction(value) for value in row]
    largest = max(abs(value) for value in exact)
    if not largest:
        return [0] * len(row), 0
    shift = 13 - (math.frexp(float(largest))[1] - 1)
    scaled = [round(value * Fraction(2) ** shift) for value in exact]  # ties to even
    if max(map(abs, scaled)) > 16256:
        shift -= 1
        scaled = [round(value * Fraction(2) ** shift) for value in exact]
    return scaled, shift


def rounded(value: Fraction) -> np.float32:
    """The nearest FP32 number (the sums have fewer than 53 bits, so FP64 is exact on the way)."""
    assert Fraction(float(value)) == value
    with np.errstate(over="ignore"):
        return np.float32(float(value))


def reference(a: Array, b: Array) -> Array:
    result = np.empty((a.shape[0], b.shape[1]), np.float32)
    rows = [integers_of(row.tolist()) for row in a]
    columns = [integers_of(column.tolist()) for column in b.T]
    for i, (p, s) in enumerate(rows):
        for j, (q, t) in enumerate(columns):
            total = sum(x * y for x, y in zip(p, q, strict=True))
            result[i, j] = rounded(Fraction(total) * Fraction(2) ** -(s + t))
    return result


def hostile(rows: int, columns: int, seed: int) -> Array:
    chosen = np.random.default_rng(seed).choice(HOSTILE[np.abs(HOSTILE) < 1e30], (rows, columns))
    chosen[0] = 0.0
    chosen[-1] = np.float32(1e-45)
    return np.asarray(chosen)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 2), (5, 7, 4), (4, 33, 6), (2, 130, 3)])
def test_equals_integers(shape: tuple[int, int, int], seed: int) -> None:
    m, k, n = shape
    for a, b in (
        (floats(m, k, seed=seed), floats(k, n, seed=seed + 10)),
        (floats(m, k, seed=seed, spread=20), floats(k, n, seed=seed, spread=60)),
        (hostile(m, k, seed), hostile(k, n, seed + 1)),
    ):
        assert bits(both("matmul", a, b)) == bits(reference(a, b))


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(np.float32, (2, 3), elements=st.floats(-(2.0**60), 2.0**60, width=32)),
    hnp.arrays(np.float32, (3, 2), elements=st.floats(-(2.0**60), 2.0**60, width=32)),
)
def test_equals_integers_for_any_numbers(a: Array, b: Array) -> None:
    assert bits(both("matmul", a, b)) == bits(reference(a, b))


@pytest.mark.parametrize(
    ("value", "digit", "shift"),
    [
        (1.0, 8192, 13),
        (16256.0, 16256, 0),
        (16256.5, 16256, 0),  # a tie, to even
        (16256.75, 8128, -1),
        (16383.75, 8192, -1),
        (2.0**-149, 8192, 162),
        (0.0, 0, 0),
        (-3.4028235e38, -8192, -115),
    ],
)
def test_scale_of_a_row(value: float, digit: int, shift: int) -> None:
    q, inverse = scale_rows(np.array([[value, 0.0]], np.float32), -1)
    assert (q[0, 0], inverse[0, 0]) == (digit, 2.0**-shift)
    assert integers_of([value, 0.0]) == ([digit, 0], shift)


def test_rounds_again_from_the_number() -> None:
    """A second rounding of the first integers would give another result."""
    q, _ = scale_rows(np.array([[16383.75, 2.75]], np.float32), -1)
    assert q.tolist() == [[8192.0, 1.0]]  # 2.75 / 2 is 1.375, not 3 / 2 (which would give 2)


def test_digits_never_exceed_their_bound() -> None:
    x = floats(64, 300, seed=3, spread=40)
    for axis in (-1, -2):
        q, _ = scale_rows(x, axis)
        assert np.abs(q).max() <= LARGEST_DIGIT
        assert np.array_equal(q, np.rint(q))
        assert (np.abs(q).max(axis=axis) >= 8128).all()  # and 15 bits are used


def test_largest_sum_is_exact() -> None:
    """2b + log2 K stays below 53: at the largest K and digits, one unit more or less is seen."""
    a = np.full((1, MAX_SUMMED), 16256.0, np.float32)
    b = a.T.copy()
    total = MAX_SUMMED * 16256**2
    assert both("matmul", a, b)[0, 0] == np.float32(total)
    left, _ = scale_rows(a, -1)
    right, _ = scale_rows(b, -2)
    assert int((left @ right)[0, 0]) == total
    right[17, 0] -= 1
    assert int((left @ right)[0, 0]) == total - 16256


def test_bound_is_tight() -> None:
    """With operands of 22 bits the sum leaves FP64 and depends on its order; with 15 it cannot."""
    k = 65536
    generator = np.random.default_rng(2)
    order = generator.permutation(k)
    for size, same in ((2**14, True), (2**24, False)):
        a = generator.integers(size // 2, size, (8, k)).astype(np.float64)
        b = (generator.integers(size // 2, size, (k, 8)) | 1).astype(np.float64)
        agree = np.array_equal(a @ b, a[:, order] @ b[order])
        exact = a[:1].astype(object).astype(int) @ b[:, :1].astype(object).astype(int)
        assert (int((a[:1] @ b[:, :1])[0, 0]) == int(exact[0, 0])) is same
        assert agree or not same


def test_order_of_the_summed_dimension_does_not_matter() -> None:
    a, b = floats(17, 900, seed=1), floats(900, 13, seed=2)
    order = np.random.default_rng(0).permutation(900)
    assert bits(both("matmul", a, b)) == bits(both("matmul", a[:, order].copy(), b[order].copy()))


def test_close_to_fp64() -> None:
    a, b = floats(40, 700, seed=1), floats(700, 30, seed=2)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=0)[None, :]
    assert (np.abs(both("matmul", a, b) - exact) / scale).max() < 2.0**-13


def test_batches_are_products_of_their_own() -> None:
    a, b = floats(2, 3, 4, 5), floats(2, 3, 5, 6, seed=1)
    found = both("matmul", a, b)
    for i in range(2):
        for j in range(3):
            assert bits(found[i, j]) == bits(reference(a[i, j], b[i, j]))


def test_views_give_the_same_bits() -> None:
    a, b = floats(9, 50), floats(50, 8, seed=1)
    turned = np.asfortranarray(a)
    assert bits(apply("numpy", "matmul", [turned, b[:, ::-1]])) == bits(
        apply("torch", "matmul", [a, b[:, ::-1].copy()])
    )


def test_signs_of_zero_do_not_show() -> None:
    a = np.array([[-0.0, 0.0], [-1.0, 1.0], [1e-30, -1.0]], np.float32)
    b = np.array([[5.0, -0.0, -1.0], [-0.0, -0.0, 0.0]], np.float32)
    found = both("matmul", a, b)
    assert not np.signbit(found[found == 0]).any()


def test_a_library_that_returns_minus_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "matmul", lambda a, b: -np.zeros((2, 2)))
    monkeypatch.setattr(torch, "matmul", lambda a, b: -torch.zeros((2, 2), dtype=torch.float64))
    for name in (NUMPY, TORCH):
        assert not np.signbit(apply(name, "matmul", [floats(2, 3), floats(3, 2)])).any()


@pytest.mark.parametrize("value", NOT_FINITE)
def test_a_row_that_is_not_finite_gives_nan(value: float) -> None:
    a, b = floats(3, 4), floats(4, 3, seed=1)
    a[1, 2] = value
    found = both("matmul", a, b)
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[[0, 2]]).all()


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 3, 0)])
def test_empty(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    assert both("matmul", floats(m, k), floats(k, n)).shape == (m, n)


def test_overflow_and_underflow() -> None:
    large, small = np.full((1, 4), 3e38, np.float32), np.full((4, 1), 1e-45, np.float32)
    assert both("matmul", large, large.T.copy())[0, 0] == np.inf
    assert both("matmul", small.T.copy(), small)[0, 0] == 0.0
    assert bits(both("matmul", large, small)) == bits(reference(large, small))
