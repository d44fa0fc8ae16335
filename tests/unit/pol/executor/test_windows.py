"""The product with the windows of a value is the product with the matrix of what they read, on every executor."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pol.executor.names import BACKENDS, NUMPY
from pol.ops import windows
from pol.ops.product import BITS, BLOCK, largest_digit
from pol.state.arrays import Array
from tests.unit.pol.executor.ops import HOSTILE, NOT_FINITE, apply, bits


def matrix(x: Array, groups: int, form: dict[str, list[int]]) -> Array:
    """What the windows read: a row for each channel and place in a window, a column for each window."""
    lists = [form[name] for name in ("starts", "strides", "counts", "steps")]
    rows = []
    for place in np.ndindex(*form["kernel"]):
        index = [slice(None)]
        for k, start, stride, count, step in zip(place, *lists, strict=True):
            first = start + k * step
            index.append(slice(first, first + (count - 1) * stride + 1, stride))
        rows.append(x[tuple(index)].reshape(x.shape[0], -1))
    return np.stack(rows, axis=1).reshape(groups, -1, rows[0].shape[-1])


@st.composite
def forms(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, list[int]]]:
    """Sizes of what the windows slide over, and how they do; each window inside."""
    form: dict[str, list[int]] = {name: [] for name in ("starts", "strides", "counts", "kernel", "steps")}
    shape = []
    for _ in range(draw(st.integers(1, 3))):
        kernel, count = draw(st.integers(1, 3)), draw(st.integers(1, 7))
        stride, step = draw(st.integers(1, 3)), draw(st.integers(-2, 2))
        away = (kernel - 1) * step
        start = draw(st.integers(0, 2)) + max(0, -away)
        shape.append(start + (count - 1) * stride + max(0, away) + 1 + draw(st.integers(0, 2)))
        values = {
            "starts": start,
            "strides": stride,
            "counts": count,
            "kernel": kernel,
            "steps": step,
        }
        for name, value in values.items():
            form[name].append(value)
    return tuple(shape), form


def checked(left: Array, x: Array, form: dict[str, list[int]], transposed: bool, precision: int) -> None:
    columns = matrix(x, left.shape[0], form)
    right = columns.swapaxes(-1, -2) if transposed else columns
    expected = bits(apply(NUMPY, "matmul", [left, np.ascontiguousarray(right)], bits=precision))
    for name in BACKENDS:
        found = apply(name, "matmul_windows", [left, x], bits=precision, transposed=transposed, **form)
        assert bits(found) == expected, name


@settings(max_examples=40, deadline=None)
@given(
    forms(),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 7),
    st.booleans(),
    st.sampled_from(BITS),
    st.integers(0, 2**32),
)
def test_equals_the_product_with_the_matrix(
    sizes: tuple[tuple[int, ...], dict[str, list[int]]],
    groups: int,
    channels: int,
    rows: int,
    transposed: bool,
    precision: int,
    seed: int,
) -> None:
    shape, form = sizes
    random = np.random.default_rng(seed)
    values = np.concatenate([HOSTILE, NOT_FINITE]) if seed % 3 == 0 else random.standard_normal(99)
    x = random.choice(values, (groups * channels, *shape)).astype(np.float32)
    summed = np.prod(form["counts"]) if transposed else channels * np.prod(form["kernel"])
    left = random.standard_normal((groups, rows, summed)).astype(np.float32)
    checked(left, x, form, transposed, precision)


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("precision", BITS)
@pytest.mark.parametrize("transposed", [False, True])
def test_blocks_and_strips(rows: int, precision: int, transposed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """More windows, and more that is summed, than kernels lay out at once."""
    monkeypatch.setattr(windows, "ELEMENTS_AT_ONCE", 2**13)
    random = np.random.default_rng(rows)
    form = {
        "starts": [1, 2],
        "strides": [1, 2],
        "counts": [65, 66],
        "kernel": [3, 2],
        "steps": [1, -1],
    }
    sizes = [(2, [65, 66]), (41, [33, 63])] if transposed else [(2, [65, 66]), (400, [3, 50])]
    for channels, counts in sizes:
        here = {**form, "counts": counts}
        x = random.standard_normal((channels, 70, 140)).astype(np.float32)
        summed = np.prod(counts) if transposed else 6 * channels
        left = random.standard_normal((1, rows, summed)).astype(np.float32)
        checked(left, x, here, transposed, precision)


def test_blocks_of_22_bits_are_added_first_to_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where fewer windows are laid out at once; the sums pass over 2^53, and what was rounded there is left."""
    random = np.random.default_rng(5)
    most = largest_digit(22)
    half = random.integers(most // 2, most, (2, 4 * BLOCK)).astype(np.float32)
    half[:, 0] = most
    left = np.concatenate([half[0], -half[0]])
    x = np.concatenate([half[1], half[1]])[None]
    form = {"starts": [0], "strides": [1], "counts": [8 * BLOCK], "kernel": [1], "steps": [1]}
    for at_once in (2**20, 2**8):
        monkeypatch.setattr(windows, "ELEMENTS_AT_ONCE", at_once)
        checked(left[None, None], x, form, True, 22)


@pytest.mark.parametrize("precision", BITS)
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize(("groups", "rows"), [(1, 1), (1, 5), (3, 1), (3, 2)])
def test_lines_of_one_channel_with_scales_of_their_own(groups: int, rows: int, stride: int, precision: int) -> None:
    """More windows than a block, some of whose largest elements only a few places of a window read."""
    counts, images = [1 + (20 - 3) // stride, 20], 2 + 8 * stride
    form = {
        "starts": [0, 0, 0],
        "strides": [1, stride, 1],
        "counts": [images, *counts],
        "kernel": [1, 3, 3],
        "steps": [1, 1, 1],
    }
    random = np.random.default_rng(stride)
    x = random.standard_normal((3, images, 20, 22)).astype(np.float32)
    x[0, -1, 0, 0], x[1, 0, -1, -1], x[2] = 1e6, -3e5, 0.0
    for transposed in (False, True):
        summed = images * counts[0] * counts[1] if transposed else 3 // groups * 9
        left = random.standard_normal((groups, rows, summed)).astype(np.float32)
        checked(left, x, form, transposed, precision)


@pytest.mark.parametrize("extreme", [*HOSTILE[:8], *NOT_FINITE])
def test_windows_that_are_not_ordinary(extreme: float) -> None:
    form = {"starts": [0], "strides": [1], "counts": [300], "kernel": [9], "steps": [1]}
    x = np.random.default_rng(1).standard_normal((2, 308)).astype(np.float32)
    x[0, 100], x[1] = extreme, x[1] * np.float32(extreme)
    left = np.random.default_rng(2).standard_normal((2, 1, 9)).astype(np.float32)
    for precision in BITS:
        checked(left, x, form, False, precision)
