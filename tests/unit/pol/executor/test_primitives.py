"""Every other primitive: against FP64 or integers, and the same bits in both back ends."""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pol.errors import OutOfRange
from pol.executor import torch_backend
from pol.executor.names import BACKENDS
from pol.ops.table import PRIMITIVES
from pol.state.arrays import Array
from tests.unit.pol.executor.ops import HOSTILE, NOT_FINITE, apply, bits, both, floats

EVERY = np.concatenate([HOSTILE, NOT_FINITE])
A, B = (grid.copy() for grid in np.meshgrid(EVERY, EVERY))
M, N = (grid.copy() for grid in np.meshgrid(*[np.array([0, 1, -1, 7, 2**62, -(2**63)], np.int64)] * 2))


def test_both_back_ends_have_every_primitive() -> None:
    alone = {name for name, row in PRIMITIVES.items() if row.reference is not None}
    assert set(torch_backend.MAKERS) == alone
    assert set(PRIMITIVES) - alone == {"repeat"}


def in_fp64(function: Callable[[Any, Any], Any], a: Array, b: Array) -> Array:
    """One operation in FP64, rounded: for + - x the same as one IEEE FP32 operation, because FP64
    has more than twice the bits."""
    with np.errstate(all="ignore"):
        return np.asarray(function(a.astype(np.float64), b.astype(np.float64)).astype(np.float32))


@pytest.mark.parametrize(("op", "function"), [("add", np.add), ("sub", np.subtract), ("mul", np.multiply)])
def test_arithmetic(op: str, function: np.ufunc) -> None:
    assert bits(both(op, A, B)) == bits(in_fp64(function, A, B))
    with np.errstate(over="ignore"):
        assert np.array_equal(both(op, M, N), function(M, N))  # wraps, as two's complement does


@pytest.mark.parametrize(("op", "larger"), [("maximum", True), ("minimum", False)])
def test_extremes(op: str, larger: bool) -> None:
    found = both(op, A, B)
    assert np.array_equal(np.isnan(found), np.isnan(A) | np.isnan(B))
    with np.errstate(invalid="ignore"):
        choice = np.where((A > B) == larger, A, B)
    known = ~np.isnan(found)
    assert np.array_equal(found[known], choice[known])
    assert not np.signbit(found[found == 0]).any()
    assert np.array_equal(both(op, M, N), np.where((M > N) == larger, M, N))


def test_extremes_in_long_rows() -> None:
    """Libraries choose the sign of a zero by the position in a vector register."""
    zeros = np.where(np.arange(999) % 3 == 0, np.float32(-0.0), np.float32(0.0)).astype(np.float32)
    for op in ("maximum", "minimum"):
        assert not np.signbit(both(op, zeros, zeros[::-1].copy())).any()
    for row in (zeros, -np.zeros(5, np.float32)):
        assert not np.signbit(both("amax", row, dims=[0], keepdim=False)).any()


def test_signs() -> None:
    assert bits(both("neg", EVERY)) == bits(-EVERY)
    assert bits(both("abs", EVERY)) == bits(np.abs(EVERY))
    assert both("neg", M[0]).tolist() == [0, -1, 1, -7, -(2**62), -(2**63)]
    assert both("abs", M[0]).tolist() == [0, 1, 1, 7, 2**62, -(2**63)]


@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(op: str) -> None:
    python: Callable[[Any, Any], Any] = getattr(operator, op)
    for left, right in ((A, B), (M, N), (M > 0, N > 0)):
        found = both(op, left, right)
        pairs = zip(left.ravel().tolist(), right.ravel().tolist(), strict=True)
        assert found.ravel().tolist() == [python(a, b) for a, b in pairs]


def test_logic() -> None:
    left, right = np.array([[True, False]]), np.array([[True], [False]])
    assert both("logical_and", left, right).tolist() == [[True, False], [False, False]]
    assert both("logical_or", left, right).tolist() == [[True, True], [True, False]]
    assert both("logical_not", left).tolist() == [[False, True]]


def test_where() -> None:
    condition = np.array([[True], [False]])
    left, right = np.array([1.0, -0.0], np.float32), np.array(np.nan, np.float32)
    assert bits(both("where", condition, left, right)) == bits(np.array([[1.0, -0.0], [np.nan, np.nan]], np.float32))
    assert both("where", condition, np.array([5]), np.array([6])).tolist() == [[5], [6]]


def test_casts_of_floats() -> None:
    x = np.concatenate([EVERY, np.array([2.0**62, -(2.0**63), 2.0**63, -1.9, 1.9], np.float32)])

    def integer(value: float) -> int:
        fits = math.isfinite(value) and abs(value) < 2.0**63
        return math.trunc(value) if fits else 0

    assert both("cast", x, dtype="i64").tolist() == [integer(value) for value in x.tolist()]
    assert both("cast", x, dtype="bool").tolist() == [value != 0 for value in x.tolist()]
    assert bits(both("cast", x, dtype="f32")) == bits(x)


def test_casts_of_integers() -> None:
    x = np.array([0, 1, -5, 2**24 + 1, 2**24 + 3, 2**53 + 1, 2**62 + 2**38 + 1, -(2**63)], np.int64)
    exact = [np.float32(value) for value in (0, 1, -5, 2**24, 2**24 + 4, 2**53)]
    found = both("cast", x, dtype="f32")
    assert found[:6].tolist() == exact
    assert found[6] == np.float32(2**62 + 2**39)  # rounded once: through FP64 it would be a tie
    assert found[7] == np.float32(-(2.0**63))
    assert both("cast", x, dtype="bool").tolist() == [False] + [True] * 7
    assert both("cast", np.array([True, False]), dtype="i64").tolist() == [1, 0]
    assert both("cast", np.array([True, False]), dtype="f32").tolist() == [1.0, 0.0]


def test_views() -> None:
    x = floats(4, 6, 5)
    assert bits(both("reshape", x, shape=[8, 15])) == bits(x.reshape(8, 15))
    assert bits(both("permute", x, dims=[2, 0, 1])) == bits(x.transpose(2, 0, 1))
    assert bits(both("broadcast", x[:, :1], shape=[2, 4, 6, 5])) == bits(np.broadcast_to(x[:, :1], (2, 4, 6, 5)))
    assert bits(both("slice", x, starts=[1, 0, 4], stops=[4, 6, 5], steps=[1, 4, 2])) == bits(x[1:4, 0:6:4, 4:5:2])
    assert bits(both("concat", x, x[:, :2].copy(), dim=1)) == bits(np.concatenate([x, x[:, :2]], 1))
    padded = both("pad", x, low=[1, 0, 0], high=[0, 0, 2], value="0000c03f")
    assert bits(padded) == bits(np.pad(x, ((1, 0), (0, 0), (0, 2)), constant_values=1.5))


def test_makers() -> None:
    assert both("iota", size=5).tolist() == [0, 1, 2, 3, 4]
    assert both("iota", size=0).shape == (0,)
    assert both("full", shape=[2, 1], dtype="f32", value="0000c0bf").tolist() == [[-1.5], [-1.5]]
    assert both("full", shape=[], dtype="i64", value="feffffffffffffff").tolist() == -2
    assert both("full", shape=[1], dtype="bool", value="01").tolist() == [True]


def test_scalars_stay_scalars() -> None:
    x = np.array(-2.5, np.float32)
    for op in ("neg", "abs", "exp", "tanh", "erf"):
        assert both(op, x).shape == ()
    assert both("reshape", x, shape=[1, 1]).shape == (1, 1)
    assert both("permute", x, dims=[]).shape == ()
    assert both("slice", x, starts=[], stops=[], steps=[]).shape == ()
    assert both("pad", x, low=[], high=[], value="00000000").shape == ()
    for op in ("sum", "amax"):
        assert both(op, x, dims=[], keepdim=False).tolist() == -2.5


def test_take() -> None:
    table = floats(5, 2, 3)
    index = np.array([[4, 0], [1, 1]])
    assert bits(both("take", table, index)) == bits(table[index])
    assert both("take", np.array([5, 6, 7]), np.array(2)).tolist() == 7
    assert both("take", table, np.zeros((0,), np.int64)).shape == (0, 2, 3)


@pytest.mark.parametrize("wrong", [-1, 5, 2**62, -(2**63)])
@pytest.mark.parametrize("name", BACKENDS)
def test_take_outside_the_table(name: str, wrong: int) -> None:
    with pytest.raises(OutOfRange, match=rf"row {wrong}, .*0\.\.4"):
        apply(name, "take", [floats(5, 2), np.array([0, wrong])])


def tree(values: list[np.float32]) -> np.float32:
    """The sum by its definition: pad to a power of two, add the upper half to the lower."""
    count = 1
    while count < len(values):
        count *= 2
    values = values + [np.float32(0.0)] * (count - len(values))
    with np.errstate(all="ignore"):
        while len(values) > 1:
            half = len(values) // 2
            values = [a + b for a, b in zip(values[:half], values[half:], strict=True)]
    return values[0]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 31, 100, 257])
def test_sum_is_a_halving_tree(count: int) -> None:
    x = floats(count, 3, seed=count, spread=15)
    expected = np.array([tree(list(column)) for column in x.T])
    assert bits(both("sum", x, dims=[0], keepdim=False)) == bits(expected)
    turned = x.T.copy()
    assert bits(both("sum", turned, dims=[1], keepdim=True)) == bits(expected[:, None])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(EVERY.tolist()), min_size=1, max_size=40))
def test_sum_of_hostile_numbers(values: list[float]) -> None:
    x = np.array(values, np.float32)
    assert bits(both("sum", x, dims=[0], keepdim=False)) == bits(np.array(tree(list(x))))


def test_sum_goes_through_the_dimensions_in_ascending_order() -> None:
    x = floats(5, 7, 3, spread=12)
    first = both("sum", x, dims=[0], keepdim=False)
    second = both("sum", first, dims=[1], keepdim=False)
    assert bits(both("sum", x, dims=[0, 2], keepdim=False)) == bits(second)
    other = both("sum", both("sum", x, dims=[2], keepdim=False), dims=[0], keepdim=False)
    assert bits(other) != bits(second)  # the order is seen, so the test means something
    assert both("sum", x, dims=[0, 2], keepdim=True).shape == (1, 7, 1)


def test_sum_keeps_the_sign_of_zero_as_padding_would() -> None:
    minus = np.full(3, -0.0, np.float32)
    assert bits(both("sum", minus, dims=[0], keepdim=False)) == bits(np.array(tree(list(minus))))
    assert np.signbit(both("sum", minus[:2].copy(), dims=[0], keepdim=False))


def test_sum_of_a_mask_counts() -> None:
    mask = np.arange(12).reshape(3, 4) % 3 == 0
    assert both("sum", mask, dims=[0, 1], keepdim=False).tolist() == 4
    assert both("sum", mask, dims=[1], keepdim=False).tolist() == mask.sum(1).tolist()
    assert both("sum", mask, dims=[], keepdim=False).tolist() == mask.astype(int).tolist()


@pytest.mark.parametrize("rows", [254, 255, 256, 600])
def test_a_mask_of_many_rows_is_counted_whole(rows: int) -> None:
    mask = np.ones((rows, 300), bool)
    mask[0, ::2] = False
    assert both("sum", mask, dims=[0], keepdim=False).tolist() == [rows - 1, rows] * 150


@pytest.mark.parametrize("width", [1, 7, 8, 9, 33])
def test_the_largest_of_short_lines(width: int) -> None:
    """Wherever it stands, and wherever there is no number."""
    x = floats(width, width, seed=width)
    x[np.arange(width), np.arange(width)] = 100.0
    assert both("amax", x, dims=[1], keepdim=False).tolist() == [100.0] * width
    x[np.arange(width), np.arange(width)] = np.nan
    x[:, -1] = np.where(np.isnan(x[:, -1]), x[:, -1], np.inf)
    assert np.isnan(both("amax", x, dims=[1], keepdim=False)).all()
    low = np.full((3, width), -np.inf, np.float32)
    low[1:, -1] = -0.0, np.nan
    found = both("amax", low, dims=[1], keepdim=False)
    assert bits(found[:2]) == bits(np.array([-np.inf, 0.0], np.float32))
    assert np.isnan(found[2])


def test_sum_of_integers_is_exact() -> None:
    x = np.array([2**62, 1, -(2**62), 2**53, 1], np.int64)
    assert both("sum", x, dims=[0], keepdim=False).tolist() == 2**53 + 2


def test_sum_of_nothing_is_zero() -> None:
    for dtype in (np.float32, np.int64, np.bool_):
        found = both("sum", np.zeros((2, 0, 3), dtype), dims=[1], keepdim=False)
        assert found.tolist() == [[0, 0, 0]] * 2


def test_largest() -> None:
    x = floats(4, 5, 6, spread=10)
    assert bits(both("amax", x, dims=[0, 2], keepdim=True)) == bits(x.max(axis=(0, 2), keepdims=True))
    assert both("amax", x, dims=[], keepdim=False).tolist() == x.tolist()
    x[1, 2, 3] = np.nan
    assert np.isnan(both("amax", x, dims=[0, 1, 2], keepdim=False))
    assert both("amax", np.array([[3, -(2**63)]]), dims=[1], keepdim=False).tolist() == [3]


def test_place_of_the_largest() -> None:
    x = np.array([[1, 3, 3, 2], [-0.0, 0.0, -1, 0.0], [np.nan, 5, 1, np.nan]], np.float32)
    assert both("argmax", x, dim=1, keepdim=False).tolist() == [1, 0, 0]
    assert both("argmax", x[:2].copy(), dim=0, keepdim=True).tolist() == [[0, 0, 0, 0]]
    assert both("argmax", np.array([1, 5, 5]), dim=0, keepdim=False).tolist() == 1


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([(3, 4), (1, 4), (4,), ()]))
def test_broadcasting(seed: int, shape: tuple[int, ...]) -> None:
    a, b = floats(3, 4, seed=seed, spread=20), floats(*shape, seed=seed + 1, spread=20)
    for op, function in (("add", np.add), ("mul", np.multiply)):
        assert bits(both(op, a, np.asarray(b))) == bits(in_fp64(function, a, np.asarray(b)))


def test_division_of_integers_rounds_down() -> None:
    edges = [0, 1, -1, 2, -2, 7, -7, 10, -10, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1]
    a, b = np.meshgrid(np.array(edges, np.int64), np.array(edges, np.int64))

    def floor(x: int, y: int) -> int:
        wide = 0 if y == 0 else x // y
        return (wide + 2**63) % 2**64 - 2**63

    pairs = zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
    found = both("floor_divide", a.copy(), b.copy())
    assert found.ravel().tolist() == [floor(x, y) for x, y in pairs]
    assert both("floor_divide", np.array([[7], [-7]]), np.array(2)).tolist() == [[3], [-4]]


@pytest.mark.parametrize(
    ("rows", "index", "row"),
    [(5, (9,), (3,)), (1, (33,), ()), (4, (), (2, 2)), (3, (2, 0), (4,)), (7, (5, 6), (40,)), (2, (3,), (0,))],
)
def test_rows_are_added_one_after_another(rows: int, index: tuple[int, ...], row: tuple[int, ...]) -> None:
    chosen = np.asarray(np.random.default_rng(3).integers(0, rows, index))
    values = floats(*index, *row, seed=4, spread=12)
    hostile = np.resize(np.concatenate([EVERY, -EVERY]), values.shape)
    for added in (values, hostile):
        total = np.zeros((rows, *row), np.float32)
        with np.errstate(all="ignore"):
            for place in np.ndindex(*index):
                total[chosen[place]] = total[chosen[place]] + added[place]
        assert bits(both("add_rows", chosen, added, rows=rows)) == bits(total)


@pytest.mark.parametrize("wrong", [-1, 5, 2**62, -(2**63)])
@pytest.mark.parametrize("name", BACKENDS)
def test_no_row_outside_of_the_result_is_added_to(name: str, wrong: int) -> None:
    with pytest.raises(OutOfRange, match=rf"add_rows: .*row {wrong}, .*0\.\.4"):
        apply(name, "add_rows", [np.array([0, wrong]), floats(2, 0)], rows=5)


@pytest.mark.parametrize("shape", [(1,), (31,), (160,), (161,), (300,), (3, 70, 4), (0, 3), (3, 0)])
def test_positions_in_order(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(5)
    hostile, equal = random.choice(EVERY, shape), random.integers(-2, 3, shape)
    edges = random.choice(np.array([0, 255, 256, -1, -(2**63), 2**63 - 1, 2**40]), shape)
    for x in (floats(*shape, seed=1, spread=30), hostile, equal, edges):
        for dim in range(len(shape)):
            lines = np.moveaxis(x, dim, -1)
            expected = np.zeros(lines.shape, np.int64)
            for place in np.ndindex(lines.shape[:-1]):
                line = lines[place].tolist()
                # NaN behind all others; what is equal keeps its order
                expected[place] = sorted(
                    range(len(line)), key=lambda i: (line[i] != line[i], line[i] if line[i] == line[i] else 0)
                )
            assert np.array_equal(both("argsort", x, dim=dim), np.moveaxis(expected, -1, dim))
