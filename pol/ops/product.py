"""The product of matrices. Operands are scaled along the summed dimension and rounded to integers of ``bits`` (8, 15 or
22) bits, which consist of one, two or three balanced digits of 7 bits.

The products of these integers are summed exactly, and each sum is rounded once. With 8 and 15 bits, the sum of all
products stays below 2^53, so the sum is exact in any order and on any BLAS. With 22 bits, this holds for blocks of
2,048 products, whose sums are added one after another.
"""

from collections.abc import Iterator
from math import prod

import numpy as np

from pol.limits import MAX_SUMMED
from pol.ops.elementwise import exponent_of, power_of_two
from pol.ops.primitive import (
    FLOATS,
    Attribute,
    Attributes,
    Function,
    Operands,
    OpWork,
    Primitive,
    Site,
    check_dtype,
    refuse,
)
from pol.ops.splits import Axis, Exchange, Split, Way
from pol.state.arrays import Array
from pol.values import TensorType

BITS = (8, 15, 22)
"""The precisions of a product: bits of an integer, including its sign."""

DEFAULT_BITS = 15

BLOCK = 2_048
"""Number of products of 22-bit integers whose sum is exact: 2,080,768^2 x 2,048 is below 2^53."""


ELEMENTS_AT_ONCE = 2**24
"""Largest number of elements of the left operand that have FP64 copies at once; the same limit holds for the result. A
single row may have more.
"""


def largest_digit(bits: int) -> int:
    """Return the largest integer that scaling may give an element. All its balanced 7-bit digits are at most 127."""
    return 127 << (bits - 8)


def _multiplied(operands: Operands, attributes: Attributes) -> TensorType:
    check_dtype(operands, FLOATS)
    left, right = operands
    for index, operand in enumerate(operands):
        if len(operand.shape) < 2:
            raise refuse(f"args[{index}]", f"{operand} is not a matrix", "reshape it to at least two dimensions")
    if left.shape[:-2] != right.shape[:-2]:
        reason = f"{left} and {right} have different batch dimensions"
        raise refuse("args", reason, "broadcast them first")
    summed = left.shape[-1]
    if summed != right.shape[-2]:
        raise refuse("args", f"{left} and {right} have different sizes in the summed dimension")
    if not 1 <= summed <= MAX_SUMMED:
        reason = f"the summed dimension {summed} is outside 1..{MAX_SUMMED}"
        raise refuse("args", reason, "split the product along this dimension")
    return TensorType("f32", (*left.shape[:-1], right.shape[-1]))


def _flops(operands: Operands, result: TensorType) -> int:
    return 2 * result.elements * operands[0].shape[-1]


def scale_rows(x: Array, axis: int, bits: int) -> tuple[Array, Array]:
    """Scale an FP32 operand along the summed dimension and round it to integers of ``bits`` bits.

    ``x`` has at least two dimensions, and ``axis`` is summed (-1 for the left operand, -2 for the right one). Per row,
    s = bits - 2 - floor(log2 max|row|) and q = round-half-even(x 2^s). If max|q| is above the largest integer, s is
    lowered by one and q is rounded again from x. Rows of zeros have s = 0. Rows with NaN or infinity give zeros and an
    inverse of NaN. Returns q as integers in FP64, and 2^-s, in which ``axis`` has size 1; both are exact.
    """
    shift, inverse = scales(magnitudes(x, axis), bits)
    return integers(x, shift, inverse), inverse


def magnitudes(x: Array, axis: int) -> Array:
    """Return the largest magnitude in each row of an operand, of which ``axis`` is summed and has size 1 afterwards."""
    # This avoids the absolute values of all elements, which would take another copy.
    highest, lowest = (end.reduce(x, axis, keepdims=True) for end in (np.maximum, np.minimum))
    return np.asarray(np.maximum(np.abs(highest), np.abs(lowest)))


def scales(largest: Array, bits: int) -> tuple[Array, Array]:
    """Return the shift s and the inverse scale 2^-s of each row (see :func:`scale_rows`).

    ``largest`` holds the largest magnitude in each row.
    """
    # Subnormal FP32 numbers are normal in FP64, so the bits contain the exponent.
    largest = largest.astype(np.float64)
    shift = np.where(largest == 0.0, 0, bits - 2 - exponent_of(largest))
    shift -= np.rint(largest * power_of_two(shift)) > largest_digit(bits)
    return shift, np.where(np.isfinite(largest), power_of_two(-shift), np.nan)


def integers(x: Array, shift: Array, inverse: Array) -> Array:
    """Return the integers of an FP32 operand, as FP64. Rows whose inverse scale is NaN become zeros."""
    wide = x.astype(np.float64)
    is_finite = np.equal(inverse, inverse)
    if not np.logical_and.reduce(is_finite, axis=None):
        np.copyto(wide, 0.0, where=~is_finite)
    # This is done in place, since a second copy would double the memory that a product needs in addition to its
    # operands.
    wide *= power_of_two(shift)
    return np.rint(wide, out=wide)


def integer_sums(bits: int, left: Array, right: Array, largest: tuple[Array, Array]) -> Array:
    """Return the exact sums (int64) of the product of two FP32 matrices that are scaled to integers.

    ``largest`` has the largest magnitude of each row of the left matrix, and of each column of the right one, with
    size 1 in the summed dimension. A part of an operand is scaled right if these are the magnitudes of the whole. With
    22 bits, the summed dimension has at most :data:`BLOCK` elements.
    """
    numbers = (integers(matrix, *scales(most, bits)) for matrix, most in zip((left, right), largest, strict=True))
    # A sum is below 2^53, so FP64 holds it exactly.
    return np.matmul(*numbers).astype(np.int64)


def sum_blocks(left: Array, right: Array) -> Array:
    """Return the product of two matrices of integers.

    The sum of each block of the summed dimension is exact; these sums are added in FP64, first to last.
    """
    rows, summed = left.shape[-2:]
    total = np.zeros((*left.shape[:-1], right.shape[-1]))
    for first in range(0, summed, BLOCK):
        block = slice(first, first + BLOCK)
        # At most BLOCK rows at once, so that their sums take less memory than the right operand.
        for row in range(0, rows, BLOCK):
            part = slice(row, row + BLOCK)
            total[..., part, :] += np.matmul(left[..., part, block], right[..., block, :])
    return total


def rows_at_once(left: TensorType, right: TensorType) -> int:
    """Return the number of rows of the left operand that a product processes at once.

    The product holds FP64 copies and sums for these rows.
    """
    widest = prod(left.shape[:-2]) * max(left.shape[-1], right.shape[-1])
    return max(1, ELEMENTS_AT_ONCE // max(1, widest))


def _matmul(site: Site) -> Function:
    bits = site.attrs["bits"]
    blocks = bits == 22 and site.operands[0].shape[-1] > BLOCK
    rows, step = site.result.shape[-2], rows_at_once(*site.operands)

    def run(a: Array, b: Array) -> Array:
        right, right_inverse = scale_rows(b, -2, bits)
        result = np.empty((*a.shape[:-1], b.shape[-1]), np.float32)
        for first in range(0, rows, step):
            part = slice(first, first + step)
            left, left_inverse = scale_rows(a[..., part, :], -1, bits)
            total = sum_blocks(left, right) if blocks else np.matmul(left, right)
            # The sign of a zero sum depends on the BLAS; this makes it +0.0.
            total += 0.0
            # These products are exact, since FP64 has room for every exponent here.
            total *= left_inverse
            total *= right_inverse
            # This assignment rounds to FP32.
            result[..., part, :] = total
        return result

    return run


PER_OPERAND, PER_ROW, PER_RESULT, PER_MATRIX = 24, 2_000, 24, 1_000
"""Four numbers of FLOPs: per element of an operand, per row or column, per element of the result, and per matrix of a
batch.
"""


TIMES = {8: 1, 15: 1, 22: 3}
"""Factors by the number of bits: the largest time of a product on any executor, divided by its time with 15 bits."""


def _product_work(operands: Operands, attributes: Attributes, result: TensorType) -> OpWork:
    left, right = operands
    matrices = prod(left.shape[:-2])
    rows = matrices * (left.shape[-2] + right.shape[-2] + right.shape[-1])
    elements = PER_OPERAND * (left.elements + right.elements) + PER_ROW * rows
    elements += PER_RESULT * result.elements + PER_MATRIX * matrices
    return OpWork(products=TIMES[attributes["bits"]] * _flops(operands, result), elements=elements)


def _free_dims(operands: Operands, attributes: Attributes, result: TensorType) -> Iterator[Way]:
    rank = len(result.shape)
    for dim in range(rank - 2):
        yield Way(result.shape[dim], (Axis(dim), Axis(dim)), Axis(dim))
    yield Way(result.shape[-2], (Axis(rank - 2), None), Axis(rank - 2))
    yield Way(result.shape[-1], (None, Axis(rank - 1)), Axis(rank - 1))


def _summed_dim(operands: Operands, attributes: Attributes, result: TensorType) -> Iterator[Way]:
    rank = len(result.shape)
    yield Way(operands[0].shape[-1], (Axis(rank - 1), Axis(rank - 2)), None)


PER_ROW_BYTES = 64
"""Bytes per row or column for its largest element, its scale and intermediate values."""


def _scratch(operands: Operands, attributes: Attributes, result: TensorType) -> int:
    """Return the scratch memory of a product in bytes.

    It holds FP64 copies and sums, the scales, and the sums of a block if there are several blocks.
    """
    left, right = operands
    rows, summed = left.shape[-2:]
    at_once = prod(left.shape[:-2]) * min(rows, rows_at_once(left, right))
    sums = at_once * right.shape[-1]
    size = 8 * (right.elements + at_once * summed + sums)
    if summed > BLOCK:
        size += 8 * sums
    return size + PER_ROW_BYTES * (left.elements + right.elements) // summed


PRODUCT = (
    Primitive(
        name="matmul",
        arity=(2, 2),
        rule=_multiplied,
        reference=_matmul,
        attributes={"bits": Attribute("choice", choices=BITS)},
        cost=0,
        calls=50,
        more=_product_work,
        more_scratch=_scratch,
        splits=(
            Split("the leading dimensions, M and N", _free_dims),
            Split("K", _summed_dim, exchange=Exchange.MAXIMA_THEN_PARTIALS),
        ),
    ),
)
"""The product of matrices."""
