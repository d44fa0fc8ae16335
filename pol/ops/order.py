"""Primitives that depend on an order: adding rows one after another, and sorting."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pol.errors import OutOfRange
from pol.limits import MAX_RANK
from pol.ops.indices import Indices
from pol.ops.primitive import (
    FLOATS,
    FLOPS_PER_RUN,
    NUMBERS,
    Attribute,
    Attributes,
    Function,
    Operands,
    OpWork,
    Primitive,
    Site,
    check_dtype,
    checked_dim,
    refuse,
)
from pol.ops.splits import Axis, Exchange, Split, Way, matching_dims
from pol.state.arrays import Array
from pol.values import TensorType

_BLOCK = 2**16
"""Number of elements that are added at once, to limit the memory for their addresses, which take eight bytes each."""


def _added(operands: Operands, attributes: Attributes) -> TensorType:
    index, values = operands
    if index.dtype != "i64":
        raise refuse("args[0]", f"{index} is not of dtype i64", "add a cast")
    check_dtype([values], FLOATS)
    rank = len(index.shape)
    if values.shape[:rank] != index.shape:
        raise refuse("args[1]", f"{values} does not have one row per element of {index}")
    return TensorType("f32", (attributes["rows"], *values.shape[rank:]))


def nowhere(row: int, rows: int) -> OutOfRange:
    """Return the error of an ``add_rows`` whose index holds the number ``row``, although the result has only ``rows``
    rows.
    """
    return OutOfRange("add_rows", f"the index holds row {row}, but the result has rows 0..{rows - 1}")


def _add_rows(site: Site) -> Function:
    rows, shape = site.attrs["rows"], site.result.shape
    width = site.result.elements // rows
    step = max(1, _BLOCK // max(1, width))

    def run(index: Array, values: Array) -> Array:
        _check_rows(index, rows)
        total = np.zeros(rows * width, np.float32)
        numbers = index.reshape(-1, 1)
        summands = values.reshape(index.size, width)
        for start in range(0, index.size if width else 0, step):
            part = slice(start, start + step)
            places = numbers[part] * width + np.arange(width)
            # Unlike ``total[places] += …``, this adds all summands, in order, even if a place occurs several times.
            np.add.at(total, places.reshape(-1), summands[part].reshape(-1))
        return total.reshape(shape)

    return run


def _add_own_rows(site: Site, axis: Axis, rows: Indices) -> Function:
    """Return the function that adds only some ``rows`` of the result. Each gets its summands in the order of the
    index.
    """

    def run(index: Array, values: Array) -> Array:
        _check_rows(index, site.attrs["rows"])
        numbers = rows.find(index.reshape(-1))
        chosen = numbers >= 0
        summands = values.reshape(index.size, -1)[chosen] if values.size else values.reshape(index.size, 0)[chosen]
        result = TensorType("f32", (len(rows), *site.result.shape[1:]))
        adder = _add_rows(replace(site, attrs={"rows": len(rows)}, result=result))
        added: Array = adder(numbers[chosen], summands)
        return added

    return run


def _check_rows(index: Array, rows: int) -> None:
    if index.size and (index.min() < 0 or index.max() >= rows):
        raise nowhere(int(index[(index < 0) | (index >= rows)].flat[0]), rows)


def _own_rows(operands: Operands, attributes: Attributes, result: TensorType) -> Iterator[Way]:
    yield Way(attributes["rows"], (None, None), Axis(0))


def _row_dims(operands: Operands, attributes: Attributes, result: TensorType) -> Iterator[Way]:
    rank = len(operands[0].shape)
    for dim, size in enumerate(operands[1].shape[rank:], rank):
        yield Way(size, (None, Axis(dim)), Axis(1 + dim - rank))


def _index_dims(operands: Operands, attributes: Attributes, result: TensorType) -> Iterator[Way]:
    for dim, size in enumerate(operands[0].shape):
        yield Way(size, (Axis(dim), Axis(dim)), None)


def _is_not_sorted(operands: Operands, attributes: Attributes, dim: int) -> bool:
    return bool(dim != attributes["dim"])


_PER_ROW, _PER_SUMMAND = 100, 120
"""Two numbers of FLOPs: for finding a row at a random address, and for adding one element to the row."""


def _added_work(operands: Operands, attributes: Attributes, result: TensorType) -> OpWork:
    index, values = operands
    return OpWork(elements=_PER_ROW * index.elements + _PER_SUMMAND * values.elements)


def _positions(operands: Operands, attributes: Attributes) -> TensorType:
    check_dtype(operands, NUMBERS)
    checked_dim(attributes, len(operands[0].shape))
    return TensorType("i64", operands[0].shape)


def _argsort(site: Site) -> Function:
    dim = site.attrs["dim"]

    def run(x: Array) -> Array:
        positions = np.argsort(x, axis=dim, kind="stable")
        return np.asarray(positions.astype(np.int64, copy=False), order="C")

    return run


_PER_COMPARISON = 120
"""FLOPs of comparing two elements and moving one of them."""


def _sorted_work(operands: Operands, attributes: Attributes, result: TensorType) -> OpWork:
    """Return the work of sorting. Sorting a line of n elements passes over it about log2 n times."""
    (operand,) = operands
    size = operand.shape[attributes["dim"]]
    if not operand.elements:
        return OpWork()
    levels = max(1, (size - 1).bit_length())
    lines = operand.elements // size
    return OpWork(elements=_PER_COMPARISON * levels * operand.elements + FLOPS_PER_RUN * lines)


_ROWS = {"rows": Attribute("int", 1)}
_DIM = {"dim": Attribute("int", 0, MAX_RANK - 1)}

ORDER = (
    Primitive(
        name="add_rows",
        arity=(2, 2),
        rule=_added,
        reference=_add_rows,
        attributes=_ROWS,
        cost=0,
        calls=12,
        more=_added_work,
        scratch=12,
        may_fail=True,
        splits=(
            Split("the elements of a row", _row_dims),
            Split("the rows of the result, from the whole index and all values", _own_rows, local=_add_own_rows),
            Split("the index", _index_dims, exchange=Exchange.ROWS_TO_OWNER),
        ),
    ),
    Primitive(
        name="argsort",
        arity=(1, 1),
        rule=_positions,
        reference=_argsort,
        attributes=_DIM,
        cost=0,
        calls=8,
        more=_sorted_work,
        scratch=48,
        splits=(Split("all dimensions except `dim`", matching_dims(_is_not_sorted)),),
    ),
)
"""The primitives that depend on an order."""
