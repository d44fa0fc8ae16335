"""The product of matrices: exact integer sums, rounded once.

Operands are scaled along the summed dimension and rounded to integers of 15 bits; the sum of their products is below
2^53, so it is exact in any order and on any BLAS.
"""

from math import prod

import numpy as np

from pol.limits import MAX_SUMMED
from pol.ops.elementwise import exponent_of, power_of_two
from pol.ops.primitive import (
    FLOATS,
    Attributes,
    Operands,
    Primitive,
    Work,
    check_dtype,
    plain,
    refuse,
)
from pol.state.arrays import Array
from pol.values import TensorType

LARGEST_DIGIT = 16_256
"""Largest integer of a scaled operand: two balanced 7-bit digits (127 x 128) hold it."""


def _multiplied(operands: Operands, attributes: Attributes) -> TensorType:
    check_dtype(operands, FLOATS)
    left, right = operands
    for index, operand in enumerate(operands):
        if len(operand.shape) < 2:
            raise refuse(f"args[{index}]", f"{operand} is not a matrix", "reshape it")
    if left.shape[:-2] != right.shape[:-2]:
        reason = f"{left} and {right} have different batch dimensions"
        raise refuse("args", reason, "broadcast them first")
    summed = left.shape[-1]
    if summed != right.shape[-2]:
        raise refuse("args", f"{left} and {right} do not fit along the summed dimension")
    if not 1 <= summed <= MAX_SUMMED:
        reason = f"the summed dimension {summed} is outside 1..{MAX_SUMMED}"
        raise refuse("args", reason, "split the product along it")
    return TensorType("f32", (*left.shape[:-1], right.shape[-1]))


def _flops(operands: Operands, result: TensorType) -> int:
    return 2 * result.elements * operands[0].shape[-1]


def scale_rows(x: Array, axis: int) -> tuple[Array, Array]:
    """Scale an FP32 operand along the summed dimension and round it to integers of 15 bits.

    ``x`` has at least two dimensions, of which ``axis`` is summed (-1 for the left operand, -2 for the right one). Per
    row, s = 13 - floor(log2 max|row|) and q = round-half-even(x 2^s); where max|q| > 16,256, s is lowered by one and q
    rounded again from x. Rows of zeros have s = 0; rows with NaN or infinity give zeros and an inverse of NaN. Returns
    q as FP64 integers, and 2^-s with ``axis`` kept as 1; both are exact.
    """
    # in FP64 the subnormal numbers of FP32 are normal, so the exponent is in the bits
    wide = x.astype(np.float64)
    largest = np.abs(x).max(axis=axis, keepdims=True).astype(np.float64)
    shift = np.where(largest == 0.0, 0, 13 - exponent_of(largest))
    shift -= np.rint(largest * power_of_two(shift)) > LARGEST_DIGIT
    inverse = power_of_two(-shift)
    finite = np.isfinite(largest)
    if not finite.all():
        np.copyto(wide, 0.0, where=~finite)
        inverse = np.where(finite, inverse, np.nan)
    # in place, for a second copy would double what a product needs beside its operands
    wide *= power_of_two(shift)
    return np.rint(wide, out=wide), inverse


def _matmul(a: Array, b: Array) -> Array:
    left, left_inverse = scale_rows(a, -1)
    right, right_inverse = scale_rows(b, -2)
    total = np.matmul(left, right)
    # the sign of a zero sum depends on the BLAS
    total += 0.0
    # exact: FP64 has room for every exponent here
    total *= left_inverse
    total *= right_inverse
    rounded: Array = total.astype(np.float32)
    return rounded


_PER_OPERAND, _PER_ROW, _PER_RESULT, _PER_MATRIX = 24, 2_000, 24, 1_000
"""FLOPs of scaling an element, of a row or column, of an element of the result, of a matrix of a batch."""


def _product_work(operands: Operands, attributes: Attributes, result: TensorType) -> Work:
    left, right = operands
    matrices = prod(left.shape[:-2])
    rows = matrices * (left.shape[-2] + right.shape[-2] + right.shape[-1])
    elements = _PER_OPERAND * (left.elements + right.elements) + _PER_ROW * rows
    elements += _PER_RESULT * result.elements + _PER_MATRIX * matrices
    return Work(products=_flops(operands, result), elements=elements)


PRODUCT = (
    Primitive(
        "matmul", (2, 2), _multiplied, plain(_matmul),
        cost=0, calls=50, more=_product_work, scratch=16, scratch_result=8,
    ),
)  # fmt: skip
"""Rows of the table."""
