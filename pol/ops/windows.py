"""The product of a matrix and the windows of a value. It computes a convolution, or the gradient of a convolution with
respect to the weights.

Windows slide over all dimensions of a value except the first, which holds the channels. The elements that the windows
read form one matrix per group of channels, with a row per channel and position in a window, and a column per window.
The result is, bit by bit, the result of ``product.py`` with this matrix or its transpose. If a window has k positions,
the whole matrix can be k times larger than the value, so executors lay out only a few windows at a time.
"""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from pol.limits import MAX_DIMENSION, MAX_SUMMED
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
    check_length,
    refuse,
)
from pol.ops.product import (
    BITS,
    BLOCK,
    PER_OPERAND,
    PER_RESULT,
    PER_ROW_BYTES,
    TIMES,
    integers,
    scale_rows,
    scales,
    sum_blocks,
)
from pol.ops.splits import Axis, Exchange, Split, Way
from pol.state.arrays import Array
from pol.values import Shape, TensorType

ELEMENTS_AT_ONCE = 2**20
"""Largest number of elements of the matrix of windows, and of the result, that are laid out at once. A single window
may have more.
"""

_LISTS = ("starts", "strides", "counts", "kernel", "steps")


def summed_and_columns(channels: int, attributes: Attributes) -> tuple[int, int]:
    """Return the number of rows and the number of columns of the matrix of windows. The two numbers are swapped if the
    matrix is transposed.
    """
    rows = channels * prod(attributes["kernel"])
    columns = prod(attributes["counts"])
    return (columns, rows) if attributes["transposed"] else (rows, columns)


def _multiplied(operands: Operands, attributes: Attributes) -> TensorType:
    check_dtype(operands, FLOATS)
    left, x = operands
    if len(left.shape) != 3:
        raise refuse("args[0]", f"{left} is not one matrix per group", "reshape it to three dimensions")
    groups, rows, summed = left.shape
    if len(x.shape) < 2 or not groups or x.shape[0] % groups:
        reason = f"the channels of {x} cannot be divided equally among {groups} groups"
        raise refuse("args[1]", reason)
    for name in _LISTS:
        check_length(attributes[name], x.shape[1:], name)
    lists = (attributes[name] for name in _LISTS)
    for dim, (size, start, stride, count, places, step) in enumerate(zip(x.shape[1:], *lists, strict=True)):
        last, away = start + (count - 1) * stride, (places - 1) * step
        if start + min(0, away) < 0 or last + max(0, away) >= size:
            raise refuse(f"attrs.starts[{dim}]", f"windows reach outside a dimension of {size}")
    expected, columns = summed_and_columns(x.shape[0] // groups, attributes)
    if summed != expected:
        raise refuse("args", f"the summed dimension of {left} is {summed}, but that of the windows is {expected}")
    if not 1 <= summed <= MAX_SUMMED:
        reason = f"the summed dimension {summed} is outside 1..{MAX_SUMMED}"
        raise refuse("args", reason, "split the product along this dimension")
    return TensorType("f32", (groups, rows, columns))


def offsets(shape: Shape, starts: Sequence[int], steps: Sequence[int], sizes: Sequence[int]) -> Array:
    """Return the flat indices of some elements of a value, in order.

    Along each dimension they are ``start + i x step``, for i from 0 to size - 1.
    """
    indices: Array = np.zeros(1, np.int64)
    for size, start, step, count in zip(shape, starts, steps, sizes, strict=True):
        indices = (indices[:, None] * size + start + step * np.arange(count)).reshape(-1)
    return indices


class WindowColumns:
    """The matrix of the windows of a value. It is computed part by part."""

    def __init__(self, site: Site) -> None:
        attributes, shape = site.attrs, site.operands[1].shape
        self.groups, self.rows, _ = site.operands[0].shape
        self.per_group = shape[0] // self.groups
        nowhere = (0,) * (len(shape) - 1)
        rest = shape[1:]
        self._places = offsets(rest, nowhere, attributes["steps"], attributes["kernel"])
        self._windows = offsets(rest, attributes["starts"], attributes["strides"], attributes["counts"])
        self.count = len(self._windows)
        self.height = self.per_group * len(self._places)
        self.at_once = at_once(self.groups * max(self.height, self.rows))

    def parts(self) -> Iterator[slice]:
        """Yield the ranges of windows that are laid out at once.

        No range crosses the end of a block of 22-bit products.
        """
        for start in range(0, self.count, self.at_once):
            yield slice(start, min(start + self.at_once, self.count))

    def take(self, x: Array, part: slice) -> Array:
        """Return the columns of the matrix for a range of windows.

        Their shape is [groups, rows of the matrix, windows].
        """
        numbers = self._places[:, None] + self._windows[part]
        elements = x.reshape(x.shape[0], -1)[:, numbers]
        return elements.reshape(self.groups, self.height, -1)


def at_once(height: int) -> int:
    """Return the number of windows that are laid out at once.

    It is a power of two that divides a block of 22-bit products.
    """
    fitting = max(1, ELEMENTS_AT_ONCE // max(1, height))
    return min(BLOCK, 1 << (fitting.bit_length() - 1))


def _windows_product(site: Site) -> Function:
    columns = WindowColumns(site)
    bits = site.attrs["bits"]

    def plain(a: Array, x: Array) -> Array:
        result = np.empty(site.result.shape, np.float32)
        left, left_inverse = scale_rows(a, -1, bits)
        in_blocks = bits == 22 and columns.height > BLOCK
        for part in columns.parts():
            right, right_inverse = scale_rows(columns.take(x, part), -2, bits)
            total = sum_blocks(left, right) if in_blocks else np.matmul(left, right)
            result[..., part] = _rounded(total, left_inverse, right_inverse)
        return result

    def transposed(a: Array, x: Array) -> Array:
        largest = np.zeros((columns.groups, columns.height), np.float32)
        for part in columns.parts():
            windows = columns.take(x, part)
            for end in (windows.max(-1), windows.min(-1)):
                np.maximum(largest, np.abs(end), out=largest)
        shift, inverse = scales(largest[..., None], bits)
        # The scales are computed over the whole summed dimension, not over one part.
        top = np.maximum(*(np.abs(end(axis=-1, keepdims=True)) for end in (a.max, a.min)))
        left_shift, left_inverse = scales(top, bits)
        total = np.zeros(site.result.shape)
        block = np.zeros(site.result.shape)
        for part in columns.parts():
            left = integers(a[..., part], left_shift, left_inverse)
            right = integers(columns.take(x, part), shift, inverse)
            block += np.matmul(left, right.swapaxes(-1, -2))
            if part.stop % BLOCK == 0 or part.stop == columns.count:
                total += block
                block[...] = 0.0
        return _rounded(total, left_inverse, inverse.swapaxes(-1, -2))

    return transposed if site.attrs["transposed"] else plain


def _rounded(total: Array, left_inverse: Array, right_inverse: Array) -> Array:
    # The sign of a zero sum depends on the BLAS; this makes it +0.0.
    total += 0.0
    # These products are exact, since FP64 has room for every exponent here.
    total *= left_inverse
    total *= right_inverse
    return total.astype(np.float32)


_PER_ROW, _PER_TAKEN, _PER_GROUP = 1_000, 60, 8_000
"""Three numbers of FLOPs: for scaling a row or column, for laying out an element, and for a group of channels."""


def _work(operands: Operands, attributes: Attributes, result: TensorType) -> OpWork:
    left, x = operands
    groups, rows, summed = left.shape
    laid_out = groups * prod(summed_and_columns(x.shape[0] // groups, attributes))
    # A transposed matrix is laid out twice: once for its scales, and once for its sums.
    if attributes["transposed"]:
        laid_out *= 2
    lines = groups * (rows + result.shape[-1])
    elements = PER_OPERAND * left.elements + _PER_TAKEN * laid_out + _PER_ROW * lines
    height = x.shape[0] * prod(attributes["kernel"])
    parts = -(-prod(attributes["counts"]) // at_once(max(height, groups * rows)))
    elements += PER_RESULT * result.elements + _PER_GROUP * groups * parts
    flops = 2 * result.elements * summed
    return OpWork(products=TIMES[attributes["bits"]] * flops, elements=elements, calls=80 * parts)


def _scratch(operands: Operands, attributes: Attributes, result: TensorType) -> int:
    """Return the scratch memory of the product in bytes.

    It holds the scales and the integers of the left operand; if the windows are transposed, it holds the sums instead
    of these integers. Windows are laid out in blocks of a fixed size, except that one window may be larger.
    """
    left, x = operands
    groups, rows, _ = left.shape
    columns = result.shape[-1]
    lines = PER_ROW_BYTES * groups * (rows + (columns if attributes["transposed"] else 0))
    one = 24 * groups * max(x.shape[0] // groups * prod(attributes["kernel"]), rows)
    return lines + one + 24 * (result if attributes["transposed"] else left).elements


def _free_dims(operands: Operands, attributes: Attributes, result: TensorType) -> Iterator[Way]:
    left, x = operands
    groups, rows, _ = left.shape
    channels = x.shape[0]
    per_group = channels // groups
    yield Way(channels, (Axis(0, per_group), Axis(0)), Axis(0, per_group))
    yield Way(rows, (Axis(1), None), Axis(1))
    if not attributes["transposed"]:
        for dim, unit in _whole_dims(x, attributes):
            yield Way(result.shape[2], (None, Axis(dim, unit)), Axis(2))
    elif groups == 1:
        yield Way(result.shape[2], (None, Axis(0, prod(attributes["kernel"]))), Axis(2))


def _summed_dims(operands: Operands, attributes: Attributes, result: TensorType) -> Iterator[Way]:
    left, x = operands
    groups, _, summed = left.shape
    if attributes["transposed"]:
        for dim, unit in _whole_dims(x, attributes):
            yield Way(summed, (Axis(2), Axis(dim, unit)), None)
    elif groups == 1:
        yield Way(summed, (Axis(2), Axis(0, prod(attributes["kernel"]))), None)


def _whole_dims(x: TensorType, attributes: Attributes) -> Iterator[tuple[int, int]]:
    """Yield the dimension of ``x`` in which each window reads one index of its own, with its number of windows per
    index. No dimension before it may have several windows. A batch is such a dimension.
    """
    counts = attributes["counts"]
    columns = zip(*(attributes[name] for name in _LISTS), strict=True)
    for dim, (size, (start, stride, count, places, _)) in enumerate(zip(x.shape[1:], columns, strict=True)):
        is_whole = (start, stride, count, places) == (0, 1, size, 1)
        if is_whole and prod(counts[:dim]) == 1:
            yield dim + 1, prod(counts[dim + 1 :])


def _counted(attributes: Attributes, way: Way, operands: Operands, result: TensorType) -> Attributes:
    """Return the attributes for a piece of ``x``, whose divided dimension has fewer windows."""
    axis = way.operands[1]
    if axis is None or not axis.dim:
        return attributes
    counts = list(attributes["counts"])
    counts[axis.dim - 1] = operands[1].shape[axis.dim]
    return {**attributes, "counts": tuple(counts)}


def _ints(low: int) -> Attribute:
    return Attribute("ints", low)


WINDOWS = (
    Primitive(
        name="matmul_windows",
        arity=(2, 2),
        rule=_multiplied,
        reference=_windows_product,
        attributes={
            "bits": Attribute("choice", choices=BITS),
            "transposed": Attribute("bool"),
            "starts": _ints(0),
            "strides": _ints(1),
            "counts": _ints(1),
            "kernel": _ints(1),
            "steps": _ints(-MAX_DIMENSION),
        },
        cost=0,
        calls=200,
        more=_work,
        more_scratch=_scratch,
        splits=(
            Split("groups, M, and a dimension in which windows have one index each", _free_dims, fit=_counted),
            Split(
                "the same dimension if `transposed`; else the channels of one group",
                _summed_dims,
                exchange=Exchange.MAXIMA_THEN_PARTIALS,
                fit=_counted,
            ),
        ),
    ),
)
"""The product with windows."""
