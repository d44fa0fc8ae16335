"""Operands of products that find what is wrong in an inner loop."""

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from pol.ops.product import BLOCK, largest_digit
from pol.state.arrays import Array
from tests.unit.pol.executor.ops import HOSTILE, NOT_FINITE

Pair = tuple[Array, Array]

_ROWS = (1, 2, 3, 4, 5, 7, 8, 9, 17)
_COLUMNS = (1, 3, 7, 8, 9, 15, 16, 17, 33)
_SUMMED = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 40)


def at_borders(bits: int, times: int) -> Iterator[Pair]:
    """Yield operands whose shapes are at the borders of tiles and blocks of every instruction set."""
    rng = np.random.default_rng(bits)
    for _, rows, summed, columns in product(range(times), _ROWS, _SUMMED, _COLUMNS):
        yield _operand(rng, bits, rows, summed), _operand(rng, bits, summed, columns)


def long_sums(bits: int) -> Iterator[Pair]:
    """Yield the largest integers all the way: sums of 8 bits pass over INT32 and fit it in the end."""
    for summed in (BLOCK - 1, BLOCK, BLOCK + 1, 131_071, 131_072):
        left = np.full((3, summed), largest_digit(bits), np.float32)
        left[1] *= -1
        left[2, ::2] *= -1
        yield left, left.T.copy()
        yield left, left.copy().T


def large(bits: int) -> Pair:
    """Return operands of which the left one is not multiplied all at once."""
    rng = np.random.default_rng(bits)
    return rng.standard_normal((211, 1_003), np.float32), rng.standard_normal((1_003, 35), np.float32)


def _operand(rng: np.random.Generator, bits: int, *shape: int) -> Array:
    """The largest integers of both signs, numbers of any size, rows with what is no number; in several layouts."""
    most = np.float32(largest_digit(bits))
    x: NDArray[np.float32] = rng.choice([-most, most, most - 1, np.float32(1)], shape)
    match rng.integers(0, 4):
        case 0:
            x = np.full(shape, rng.choice([-most, most]), np.float32)
        case 1:
            x = rng.standard_normal(shape, np.float32) * np.float32(2.0 ** rng.integers(-149, 127))
        case 2:
            x = np.where(rng.random(shape) < 0.05, rng.choice(NOT_FINITE, shape), x)
        case _:
            x = np.where(rng.random(shape) < 0.2, rng.choice(HOSTILE, shape), x)
    match rng.integers(0, 3):
        case 0:
            return np.asfortranarray(x)
        case 1:
            wider = np.zeros((2 * shape[0], 3 * shape[1]), np.float32)
            wider[::2, ::3] = x
            return wider[::2, ::3]
    return np.ascontiguousarray(x)
