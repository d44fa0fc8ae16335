"""The primitives that rearrange elements and compute nothing: they reshape, reorder, select or combine tensors.

Results are in C order. A reshape is a view. A broadcast is also a view, in which elements share addresses. Every other
primitive copies. A reshape of a broadcast must also copy, and ``program.py`` counts this copy.
"""

from collections.abc import Iterator
from math import prod

import numpy as np

from pol.errors import OutOfRange
from pol.limits import MAX_OPERANDS, MAX_RANK
from pol.ops.elementwise import broadcast_shapes
from pol.ops.primitive import (
    FLOPS_PER_RUN,
    Attribute,
    Attributes,
    Function,
    Operands,
    OpWork,
    Primitive,
    Site,
    Traffic,
    check_element,
    check_equal_dtype,
    check_length,
    checked_dim,
    refuse,
    runs,
)
from pol.ops.splits import (
    Axis,
    Exchange,
    Split,
    Way,
    equal_rows,
    matching_dims,
    resized,
    same_dims,
)
from pol.state.arrays import NUMPY_DTYPES, Array
from pol.values import TensorType


def element(value: str, dtype: str) -> Array:
    """Return the scalar that an ``element`` attribute encodes. ``value`` is its bytes in hex."""
    return np.frombuffer(bytes.fromhex(value), NUMPY_DTYPES[dtype]).reshape(())


def _reshaped(operands: Operands, attributes: Attributes) -> TensorType:
    shape, (operand,) = attributes["shape"], operands
    if prod(shape) != operand.elements:
        reason = f"{operand} has {operand.elements} elements, not {prod(shape)}"
        raise refuse("attrs.shape", reason, "use a shape with the same number of elements")
    return TensorType(operand.dtype, shape)


def _reshape(site: Site) -> Function:
    shape = site.result.shape
    return lambda x: x.reshape(shape)


def _permuted(operands: Operands, attributes: Attributes) -> TensorType:
    dims, shape = attributes["dims"], operands[0].shape
    if sorted(dims) != list(range(len(shape))):
        reason = f"{list(dims)} is not a permutation of the dimensions of {operands[0]}"
        raise refuse("attrs.dims", reason)
    return TensorType(operands[0].dtype, tuple(shape[dim] for dim in dims))


def _permute(site: Site) -> Function:
    dims = site.attrs["dims"]
    # A copy makes repeated reads fast, and its reshapes are free.
    return lambda x: np.asarray(x.transpose(dims), order="C")


def _repeated(operands: Operands, attributes: Attributes) -> TensorType:
    shape = attributes["shape"]
    if broadcast_shapes([operands[0].shape, shape]) != shape:
        raise refuse("attrs.shape", f"{operands[0]} does not broadcast to {list(shape)}")
    return TensorType(operands[0].dtype, shape)


def _broadcast(site: Site) -> Function:
    shape = site.result.shape
    return lambda x: np.broadcast_to(x, shape)


def _sliced(operands: Operands, attributes: Attributes) -> TensorType:
    shape = operands[0].shape
    lists = [attributes[name] for name in _SLICE]
    for name, values in zip(_SLICE, lists, strict=True):
        check_length(values, shape, name)
    result = []
    for dim, (size, start, stop, step) in enumerate(zip(shape, *lists, strict=True)):
        if not start <= stop <= size:
            reason = f"{start}:{stop} is outside a dimension of {size}"
            raise refuse(f"attrs.stops[{dim}]", reason)
        result.append((stop - start + step - 1) // step)
    return TensorType(operands[0].dtype, tuple(result))


def slices(attributes: Attributes) -> tuple[slice, ...]:
    """Return the index that selects the result of a ``slice`` node from its operand."""
    bounds = zip(*(attributes[name] for name in _SLICE), strict=True)
    return tuple(slice(start, stop, step) for start, stop, step in bounds)


def _slice(site: Site) -> Function:
    index = slices(site.attrs)
    return lambda x: np.asarray(x[index], order="C")


def _joined(operands: Operands, attributes: Attributes) -> TensorType:
    check_equal_dtype(operands)
    shape = operands[0].shape
    dim = checked_dim(attributes, len(shape))
    for index, operand in enumerate(operands):
        rest = operand.shape[:dim] + operand.shape[dim + 1 :]
        if len(operand.shape) != len(shape) or rest != shape[:dim] + shape[dim + 1 :]:
            reason = f"{operand} and {operands[0]} must have equal sizes in all dimensions except {dim}"
            raise refuse(f"args[{index}]", reason)
    size = sum(operand.shape[dim] for operand in operands)
    return TensorType(operands[0].dtype, (*shape[:dim], size, *shape[dim + 1 :]))


def _concat(site: Site) -> Function:
    dim = site.attrs["dim"]
    return lambda *parts: np.concatenate(parts, axis=dim)


def _padded(operands: Operands, attributes: Attributes) -> TensorType:
    shape, low, high = operands[0].shape, attributes["low"], attributes["high"]
    check_length(low, shape, "low")
    check_length(high, shape, "high")
    check_element(attributes, operands[0].dtype)
    sizes = (a + size + b for a, size, b in zip(low, shape, high, strict=True))
    return TensorType(operands[0].dtype, tuple(sizes))


def inner(site: Site) -> tuple[slice, ...]:
    """Return the index of the operand within the result of a ``pad`` node."""
    pairs = zip(site.attrs["low"], site.operands[0].shape, strict=True)
    return tuple(slice(low, low + size) for low, size in pairs)


def _pad(site: Site) -> Function:
    fill, shape = element(site.attrs["value"], site.result.dtype), site.result.shape
    index = inner(site)

    def run(x: Array) -> Array:
        padded = np.full(shape, fill)
        padded[index] = x
        return padded

    return run


def _taken(operands: Operands, attributes: Attributes) -> TensorType:
    table, index = operands
    if index.dtype != "i64":
        raise refuse("args[1]", f"{index} is not of dtype i64", "add a cast")
    if not table.shape or not table.shape[0]:
        raise refuse("args[0]", f"{table} has no rows", "take from a table of at least one row")
    return TensorType(table.dtype, index.shape + table.shape[1:])


def outside(row: int, rows: int) -> OutOfRange:
    """Return the error of a ``take`` whose index holds the number ``row``, while its table has only ``rows`` rows."""
    return OutOfRange("take", f"the index holds row {row}, but the table has rows 0..{rows - 1}")


def _take(site: Site) -> Function:
    rows = site.operands[0].shape[0]

    def run(table: Array, index: Array) -> Array:
        if index.size and (index.min() < 0 or index.max() >= rows):
            raise outside(int(index[(index < 0) | (index >= rows)].flat[0]), rows)
        return np.asarray(np.take(table, index, axis=0))

    return run


_PER_ROW = 100
"""FLOPs of finding a row at a random address."""


def _rows_work(operands: Operands, attributes: Attributes, result: TensorType) -> OpWork:
    return OpWork(elements=_PER_ROW * operands[1].elements)


def _parts_work(operands: Operands, attributes: Attributes, result: TensorType) -> OpWork:
    """Return the work of writing the operands of a ``concat`` row by row."""
    rows = len(operands) * prod(result.shape[: attributes["dim"]])
    return OpWork(elements=FLOPS_PER_RUN * rows, calls=len(operands))


def _inner_work(operands: Operands, attributes: Attributes, result: TensorType) -> OpWork:
    """Return the work of copying row by row, either a part of a value, or a value into a larger value."""
    whole = max(operands[0].shape, result.shape)
    part = min(operands[0].shape, result.shape)
    kinds = [size == other for size, other in zip(whole, part, strict=True)]
    return OpWork(elements=FLOPS_PER_RUN * runs(part, [kinds]))


def _turned_work(operands: Operands, attributes: Attributes, result: TensorType) -> OpWork:
    """Return the work of a permutation.

    Rows that stay contiguous are copied as a whole, and all other rows element by element.
    """
    dims = attributes["dims"]
    if not dims or dims[-1] == len(dims) - 1:
        return OpWork(elements=FLOPS_PER_RUN * prod(result.shape[:-1]))
    return OpWork(elements=_PER_ROW * result.elements)


def _moved_dims(operands: Operands, attributes: Attributes, result: TensorType) -> Iterator[Way]:
    for target, dim in enumerate(attributes["dims"]):
        yield Way(result.shape[target], (Axis(dim),), Axis(target))


def _is_taken_whole(operands: Operands, attributes: Attributes, dim: int) -> bool:
    whole = (0, operands[0].shape[dim], 1)
    return tuple(attributes[name][dim] for name in _SLICE) == whole


def _stopped(attributes: Attributes, way: Way, operands: Operands, result: TensorType) -> Attributes:
    """Return the attributes of a ``slice`` of a piece. A divided dimension is taken whole."""
    stops = zip(attributes["stops"], operands[0].shape, strict=True)
    return {**attributes, "stops": tuple(min(stop, size) for stop, size in stops)}


def _is_not_joined(operands: Operands, attributes: Attributes, dim: int) -> bool:
    return bool(dim != attributes["dim"])


def _is_not_padded(operands: Operands, attributes: Attributes, dim: int) -> bool:
    return (attributes["low"][dim], attributes["high"][dim]) == (0, 0)


def _index_dims(operands: Operands, attributes: Attributes, result: TensorType) -> Iterator[Way]:
    for dim, size in enumerate(operands[1].shape):
        yield Way(size, (None, Axis(dim)), Axis(dim))


def _row_dims(operands: Operands, attributes: Attributes, result: TensorType) -> Iterator[Way]:
    table, index = operands
    for dim, size in enumerate(table.shape[1:], 1):
        yield Way(size, (Axis(dim), None), Axis(dim - 1 + len(index.shape)))


def _table_rows(operands: Operands, attributes: Attributes, result: TensorType) -> Iterator[Way]:
    yield Way(operands[0].shape[0], (Axis(0), None), None)


_SLICE = {"starts": Attribute("ints"), "stops": Attribute("ints"), "steps": Attribute("ints", 1)}
_SHAPE = {"shape": Attribute("ints")}
_DIMS = {"dims": Attribute("ints", 0, MAX_RANK - 1)}
_DIM = {"dim": Attribute("int", 0, MAX_RANK - 1)}
_PAD = {"low": Attribute("ints"), "high": Attribute("ints"), "value": Attribute("element")}

SHAPE = (
    Primitive(
        name="reshape",
        arity=(1, 1),
        rule=_reshaped,
        reference=_reshape,
        attributes=_SHAPE,
        cost=0,
        traffic=Traffic.VIEW,
        splits=(Split("a dimension that ends at the same element", equal_rows, fit=resized),),
    ),
    Primitive(
        name="permute",
        arity=(1, 1),
        rule=_permuted,
        reference=_permute,
        attributes=_DIMS,
        cost=4,
        calls=2,
        more=_turned_work,
        splits=(Split("every dimension", _moved_dims),),
    ),
    Primitive(
        name="broadcast",
        arity=(1, 1),
        rule=_repeated,
        reference=_broadcast,
        attributes=_SHAPE,
        cost=0,
        calls=5,
        traffic=Traffic.VIEW,
        repeats=True,
        splits=(Split("every dimension", same_dims, fit=resized),),
    ),
    Primitive(
        name="slice",
        arity=(1, 1),
        rule=_sliced,
        reference=_slice,
        attributes=_SLICE,
        cost=40,
        calls=4,
        traffic=Traffic.RESULT,
        more=_inner_work,
        splits=(Split("dimensions that are taken whole", matching_dims(_is_taken_whole), fit=_stopped),),
    ),
    Primitive(
        name="concat",
        arity=(1, MAX_OPERANDS),
        rule=_joined,
        reference=_concat,
        attributes=_DIM,
        cost=0,
        more=_parts_work,
        splits=(Split("all dimensions except `dim`", matching_dims(_is_not_joined)),),
    ),
    Primitive(
        name="pad",
        arity=(1, 1),
        rule=_padded,
        reference=_pad,
        attributes=_PAD,
        cost=8,
        calls=6,
        more=_inner_work,
        splits=(Split("dimensions that are not padded", matching_dims(_is_not_padded)),),
    ),
    Primitive(
        name="take",
        arity=(2, 2),
        rule=_taken,
        reference=_take,
        cost=0,
        calls=5,
        traffic=Traffic.ROWS,
        more=_rows_work,
        scratch=3,
        may_fail=True,
        splits=(
            Split("the index", _index_dims),
            Split("the elements of a row", _row_dims),
            Split("the rows of the table", _table_rows, exchange=Exchange.ROWS_FROM_OWNERS),
        ),
    ),
)
"""The primitives that copy elements."""
