"""Products: integers of 8, 15 or 22 bits, exact sums, one rounding."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pol.executor.names import BACKENDS, NUMPY, TORCH
from pol.limits import MAX_SUMMED
from pol.ops.product import BITS, BLOCK, largest_digit, scale_rows
from pol.state.arrays import Array
from tests.unit.pol.executor.ops import HOSTILE, NOT_FINITE, apply, bits, both, floats

every_precision = pytest.mark.parametrize("precision", BITS)


def integers_of(row: list[float], precision: int = 15) -> tuple[list[int], int]:
    """The rule in plain Python integers: q and s of one row."""
    exact = [Fraction(value) for value in row]
    largest = max(abs(value) for value in exact)
    if not largest:
        return [0] * len(row), 0
    shift = precision - 2 - (math.frexp(float(largest))[1] - 1)
    scaled = [round(value * Fraction(2) ** shift) for value in exact]  # ties to even
    if max(map(abs, scaled)) > {8: 127, 15: 16_256, 22: 2_080_768}[precision]:
        shift -= 1
        scaled = [round(value * Fraction(2) ** shift) for value in exact]
    return scaled, shift


def rounded(value: Fraction) -> np.float32:
    """The nearest FP32 number (the sums have fewer than 53 bits, so FP64 is exact on the way)."""
    assert Fraction(float(value)) == value
    with np.errstate(over="ignore"):
        return np.float32(float(value))


def reference(a: Array, b: Array, precision: int = 15) -> Array:
    result = np.empty((a.shape[0], b.shape[1]), np.float32)
    rows = [integers_of(row.tolist(), precision) for row in a]
    columns = [integers_of(column.tolist(), precision) for column in b.T]
    for i, (p, s) in enumerate(rows):
        for j, (q, t) in enumerate(columns):
            products = [x * y for x, y in zip(p, q, strict=True)]
            total = 0.0
            for first in range(0, len(products), 2_048):
                block = sum(products[first : first + 2_048])
                assert abs(block) < 2**53
                total += float(block)
            result[i, j] = rounded(Fraction(total) * Fraction(2) ** -(s + t))
    return result


def hostile(rows: int, columns: int, seed: int) -> Array:
    chosen = np.random.default_rng(seed).choice(HOSTILE[np.abs(HOSTILE) < 1e30], (rows, columns))
    chosen[0] = 0.0
    chosen[-1] = np.float32(1e-45)
    return np.asarray(chosen)


@every_precision
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 2), (5, 7, 4), (4, 33, 6), (2, 130, 3)])
def test_equals_integers(shape: tuple[int, int, int], seed: int, precision: int) -> None:
    m, k, n = shape
    for a, b in (
        (floats(m, k, seed=seed), floats(k, n, seed=seed + 10)),
        (floats(m, k, seed=seed, spread=20), floats(k, n, seed=seed, spread=60)),
        (hostile(m, k, seed), hostile(k, n, seed + 1)),
    ):
        assert bits(both("matmul", a, b, bits=precision)) == bits(reference(a, b, precision))


@settings(max_examples=90, deadline=None)
@given(
    hnp.arrays(np.float32, (2, 3), elements=st.floats(-(2.0**60), 2.0**60, width=32)),
    hnp.arrays(np.float32, (3, 2), elements=st.floats(-(2.0**60), 2.0**60, width=32)),
    st.sampled_from(BITS),
)
def test_equals_integers_for_any_numbers(a: Array, b: Array, precision: int) -> None:
    assert bits(both("matmul", a, b, bits=precision)) == bits(reference(a, b, precision))


@pytest.mark.parametrize("summed", [2_047, 2_048, 2_049, 4_095, 4_096, 4_097, 6_200])
def test_blocks_of_22_bits(summed: int) -> None:
    """Sums of whole blocks, and of one that is shorter; some leave FP64, so that their order shows."""
    a, b = floats(3, summed, seed=1, spread=3), floats(summed, 2, seed=2, spread=3)
    assert bits(both("matmul", a, b, bits=22)) == bits(reference(a, b, 22))


def test_blocks_are_added_first_to_last() -> None:
    """After two blocks the sum is odd and above 2^53; from the last one on every sum is exact."""
    most = largest_digit(22)
    a = np.repeat(np.array([most, most, -most, -most], np.float32), BLOCK)[None]
    a[0, BLOCK] -= 1
    b = np.full((4 * BLOCK, 1), most - 1, np.float32)
    assert both("matmul", a, b, bits=22)[0, 0] == -most
    assert both("matmul", a[:, ::-1].copy(), b, bits=22)[0, 0] == -(most - 1)
    assert bits(both("matmul", a, b, bits=22)) == bits(reference(a, b, 22))


def test_many_rows_of_several_blocks() -> None:
    """Rows are taken in parts, which change nothing."""
    a, b = floats(2 * BLOCK + 3, BLOCK + 5, seed=1), floats(BLOCK + 5, 4, seed=2)
    found = both("matmul", a, b, bits=22)
    for row in (0, BLOCK - 1, BLOCK, 2 * BLOCK, 2 * BLOCK + 2):
        assert bits(found[row : row + 1]) == bits(both("matmul", a[row : row + 1], b, bits=22))


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
    q, inverse = scale_rows(np.array([[value, 0.0]], np.float32), -1, 15)
    assert (q[0, 0], inverse[0, 0]) == (digit, 2.0**-shift)
    assert integers_of([value, 0.0]) == ([digit, 0], shift)


@pytest.mark.parametrize(
    ("value", "precision", "digit", "shift"),
    [
        (1.0, 8, 64, 6),
        (127.0, 8, 127, 0),
        (127.5, 8, 64, -1),
        (2.0**-149, 8, 64, 155),
        (-3.4028235e38, 8, -64, -122),
        (1.0, 22, 2**20, 20),
        (2_080_768.0, 22, 2_080_768, 0),
        (2_080_768.5, 22, 2_080_768, 0),
        (2_080_768.625, 22, 1_040_384, -1),
        (2.0**-149, 22, 2**20, 169),
        (-3.4028235e38, 22, -(2**20), -108),
    ],
)
def test_scale_of_a_row_in_other_precisions(value: float, precision: int, digit: int, shift: int) -> None:
    q, inverse = scale_rows(np.array([[value, 0.0]], np.float32), -1, precision)
    assert (q[0, 0], inverse[0, 0]) == (digit, 2.0**-shift)
    assert integers_of([value, 0.0], precision) == ([digit, 0], shift)


def test_rounds_again_from_the_number() -> None:
    """A second rounding of the first integers would give another result."""
    q, _ = scale_rows(np.array([[16383.75, 2.75]], np.float32), -1, 15)
    assert q.tolist() == [[8192.0, 1.0]]  # 2.75 / 2 is 1.375, not 3 / 2 (which would give 2)


@every_precision
def test_digits_never_exceed_their_bound(precision: int) -> None:
    x = floats(64, 300, seed=3, spread=40)
    for axis in (-1, -2):
        q, _ = scale_rows(x, axis, precision)
        assert np.abs(q).max() <= largest_digit(precision)
        assert np.array_equal(q, np.rint(q))
        # and all bits are used
        assert (np.abs(q).max(axis=axis) >= largest_digit(precision) // 2).all()


@pytest.mark.parametrize(("precision", "summed"), [(8, MAX_SUMMED), (15, MAX_SUMMED), (22, BLOCK)])
def test_largest_sum_is_exact(precision: int, summed: int) -> None:
    """At the largest sum of the largest integers, one unit more or less is seen."""
    most = largest_digit(precision)
    a = np.full((1, summed), most, np.float32)
    b = a.T.copy()
    total = summed * most**2
    assert total < 2**53
    assert both("matmul", a, b, bits=precision)[0, 0] == np.float32(total)
    left, _ = scale_rows(a, -1, precision)
    right, _ = scale_rows(b, -2, precision)
    assert int((left @ right)[0, 0]) == total
    right[17, 0] -= 1
    assert int((left @ right)[0, 0]) == total - most


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
    assert bits(both("matmul", a, b, bits=15)) == bits(both("matmul", a[:, order].copy(), b[order].copy(), bits=15))


@every_precision
def test_close_to_fp64(precision: int) -> None:
    a, b = floats(40, 700, seed=1), floats(700, 30, seed=2)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=0)[None, :]
    error = (np.abs(both("matmul", a, b, bits=precision) - exact) / scale).max()
    assert error < 2.0 ** (2 - precision)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(BITS))
def test_any_numbers_in_any_layout(seed: int, precision: int) -> None:
    """Subnormal, huge and infinite numbers, NaN, rows of zeros, turned operands, batches, blocks of any length."""
    rng = np.random.default_rng(seed)
    rows, columns = (int(size) for size in rng.integers(1, 8, 2))
    summed = int(rng.choice([1, 7, 8, 9, 33, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 1]))
    batch = [int(size) for size in rng.integers(1, 3, rng.integers(0, 3))]
    a, b = (
        rng.choice(np.concatenate([HOSTILE, NOT_FINITE[: rng.integers(0, 4)]]), shape)
        for shape in ([*batch, rows, summed], [*batch, summed, columns])
    )
    a[..., 0, :] = 0.0
    plain = both("matmul", a, b, bits=precision)
    whole = np.isfinite(a).all(-1)[..., None] & np.isfinite(b).all(-2)[..., None, :]
    assert np.array_equal(np.isnan(plain), ~whole)
    for name in BACKENDS:
        turned = [np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) for x in (a, b)]
        assert bits(apply(name, "matmul", turned, bits=precision)) == bits(plain)


def test_batches_are_products_of_their_own() -> None:
    a, b = floats(2, 3, 4, 5), floats(2, 3, 5, 6, seed=1)
    found = both("matmul", a, b, bits=15)
    for i in range(2):
        for j in range(3):
            assert bits(found[i, j]) == bits(reference(a[i, j], b[i, j]))


def test_views_give_the_same_bits() -> None:
    a, b = floats(9, 50), floats(50, 8, seed=1)
    turned = np.asfortranarray(a)
    assert bits(apply("numpy", "matmul", [turned, b[:, ::-1]], bits=15)) == bits(
        apply("torch", "matmul", [a, b[:, ::-1].copy()], bits=15)
    )


def test_signs_of_zero_do_not_show() -> None:
    a = np.array([[-0.0, 0.0], [-1.0, 1.0], [1e-30, -1.0]], np.float32)
    b = np.array([[5.0, -0.0, -1.0], [-0.0, -0.0, 0.0]], np.float32)
    found = both("matmul", a, b, bits=15)
    assert not np.signbit(found[found == 0]).any()


def test_a_library_that_returns_minus_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "matmul", lambda a, b: -np.zeros((2, 2)))
    monkeypatch.setattr(torch, "matmul", lambda a, b: -torch.zeros((2, 2), dtype=torch.float64))
    for name in (NUMPY, TORCH):
        assert not np.signbit(apply(name, "matmul", [floats(2, 3), floats(3, 2)], bits=15)).any()


@pytest.mark.parametrize("value", NOT_FINITE)
def test_a_row_that_is_not_finite_gives_nan(value: float) -> None:
    a, b = floats(3, 4), floats(4, 3, seed=1)
    a[1, 2] = value
    found = both("matmul", a, b, bits=15)
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[[0, 2]]).all()


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 3, 0)])
def test_empty(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    assert both("matmul", floats(m, k), floats(k, n), bits=15).shape == (m, n)


def test_overflow_and_underflow() -> None:
    large, small = np.full((1, 4), 3e38, np.float32), np.full((4, 1), 1e-45, np.float32)
    assert both("matmul", large, large.T.copy(), bits=15)[0, 0] == np.inf
    assert both("matmul", small.T.copy(), small, bits=15)[0, 0] == 0.0
    assert bits(both("matmul", large, small, bits=15)) == bits(reference(large, small))
