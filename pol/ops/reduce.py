"""Reductions: sums, largest elements and their positions.

An FP32 sum is a halving tree along one dimension after another, in ascending order, so that its bits are the same on
every executor. Sums of integers are exact, and the sum of bool values is the number of true ones.
"""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from pol.limits import MAX_RANK
from pol.ops.primitive import (
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
    runs,
)
from pol.ops.splits import Axis, Exchange, Pieces, Split, Way, Ways
from pol.state.arrays import Array
from pol.values import Shape, TensorType

_ZERO = np.float32(0.0)


def _reduced(shape: Shape, dims: Sequence[int], keepdim: bool) -> Shape:
    if keepdim:
        return tuple(1 if dim in dims else size for dim, size in enumerate(shape))
    return tuple(size for dim, size in enumerate(shape) if dim not in dims)


def _checked_dims(operands: Operands, attributes: Attributes) -> tuple[int, ...]:
    dims: tuple[int, ...] = attributes["dims"]
    if list(dims) != sorted(set(dims)) or (dims and dims[-1] >= len(operands[0].shape)):
        raise refuse("attrs.dims", f"{list(dims)} are not ascending dimensions of {operands[0]}")
    return dims


def _summed(operands: Operands, attributes: Attributes) -> TensorType:
    dims = _checked_dims(operands, attributes)
    dtype = "f32" if operands[0].dtype == "f32" else "i64"
    return TensorType(dtype, _reduced(operands[0].shape, dims, attributes["keepdim"]))


def halve(x: Array) -> Array:
    """Return the FP32 sum over the first axis. The axis is padded with zeros to a power of two.

    Its upper half is then added to its lower half until one element remains.
    """
    count = x.shape[0]
    while count > 1:
        half = 1 << ((count - 1).bit_length() - 1)
        paired = count - half
        if paired == half:
            x = x[:half] + x[half:]
        else:
            shorter = np.empty((half, *x.shape[1:]), np.float32)
            np.add(x[:paired], x[half:], out=shorter[:paired])
            # Elements without a partner are added to a zero of the padding.
            np.add(x[paired:half], _ZERO, out=shorter[paired:])
            x = shorter
        count = half
    return x


def sum_tree(dims: Sequence[int], shape: Shape) -> Function:
    """Return the function that sums FP32 over ``dims``, one dimension after another in ascending order."""
    orders: list[tuple[int, ...]] = []
    rank = len(shape)
    for removed, dim in enumerate(dims):
        axis = dim - removed
        orders.append((axis, *(other for other in range(rank - removed) if other != axis)))
    target = tuple(size for dim, size in enumerate(shape) if dim not in dims)
    if any(shape[dim] == 0 for dim in dims):
        return lambda x: np.zeros(target, np.float32)

    def run(x: Array) -> Array:
        for order in orders:
            halved = halve(np.transpose(x, order))
            x = halved.reshape(halved.shape[1:])
        return x

    return run


def _sum(site: Site) -> Function:
    dims, shape = site.attrs["dims"], site.result.shape
    if site.operands[0].dtype == "f32":
        tree = sum_tree(dims, site.operands[0].shape)
        return lambda x: tree(x).reshape(shape)
    # The dtype is given, since the sum of bool would otherwise be an OR.
    return lambda x: np.sum(x, axis=dims, dtype=np.int64).reshape(shape)


def _largest(operands: Operands, attributes: Attributes) -> TensorType:
    check_dtype(operands, NUMBERS)
    dims = _checked_dims(operands, attributes)
    if any(operands[0].shape[dim] == 0 for dim in dims):
        raise refuse("attrs.dims", f"{operands[0]} has no largest element along {list(dims)}")
    shape = _reduced(operands[0].shape, dims, attributes["keepdim"])
    return TensorType(operands[0].dtype, shape)


def _amax(site: Site) -> Function:
    dims, keepdim = site.attrs["dims"], site.attrs["keepdim"]
    if site.result.dtype == "f32":
        return lambda x: np.max(x, axis=dims, keepdims=keepdim) + _ZERO
    return lambda x: np.max(x, axis=dims, keepdims=keepdim)


def _largest_index(operands: Operands, attributes: Attributes) -> TensorType:
    check_dtype(operands, NUMBERS)
    dim = checked_dim(attributes, len(operands[0].shape))
    if operands[0].shape[dim] == 0:
        raise refuse("attrs.dim", f"{operands[0]} has no largest element along {dim}")
    return TensorType("i64", _reduced(operands[0].shape, (dim,), attributes["keepdim"]))


def _argmax(site: Site) -> Function:
    """Return the function that finds the position of the largest element, the first of equal ones.

    The position is 0 for a line that holds NaN.
    """
    dim, keepdim = site.attrs["dim"], site.attrs["keepdim"]

    def run(x: Array) -> Array:
        is_largest = x == np.max(x, axis=dim, keepdims=True)
        positions = np.asarray(np.argmax(is_largest, axis=dim, keepdims=keepdim))
        return positions.astype(np.int64, copy=False)

    return run


_CALLS_PER_LEVEL = 3
"""Number of kernel calls for each level of a halving sum."""


def _sum_work(operands: Operands, attributes: Attributes, result: TensorType) -> OpWork:
    """Return the work of a ``sum``. An FP32 sum is a halving tree.

    A dimension of n elements has a level per bit of n - 1. Each level has an inner loop per element of the dimensions
    before it.
    """
    if result.dtype != "f32":
        widened = OpWork(elements=8 * operands[0].elements, calls=6)
        return widened + _reduced_work(operands, attributes, result)
    shape = list(operands[0].shape)
    work = OpWork()
    for dim in attributes["dims"]:
        levels = max(0, shape[dim] - 1).bit_length()
        rows = prod(shape[:dim])
        work += OpWork(elements=FLOPS_PER_RUN * levels * rows, calls=2 + _CALLS_PER_LEVEL * levels)
        shape[dim] = 1
    return work


def _reduced_work(operands: Operands, attributes: Attributes, result: TensorType) -> OpWork:
    (operand,) = operands
    kinds = [dim in attributes["dims"] for dim in range(len(operand.shape))]
    return OpWork(elements=FLOPS_PER_RUN * runs(operand.shape, [kinds]))


def _found_work(operands: Operands, attributes: Attributes, result: TensorType) -> OpWork:
    """Return the work of an ``argmax``.

    It compares each row with its largest element, and finds the first element that is equal.
    """
    (operand,) = operands
    kinds = [dim == attributes["dim"] for dim in range(len(operand.shape))]
    rows = 2 * runs(operand.shape, [kinds]) + result.elements
    return OpWork(elements=FLOPS_PER_RUN * rows)


def _reduced_dims(attributes: Attributes) -> tuple[int, ...]:
    return attributes["dims"] if "dims" in attributes else (attributes["dim"],)


def _kept_dims(operands: Operands, attributes: Attributes, result: TensorType) -> Iterator[Way]:
    dims = _reduced_dims(attributes)
    for dim, size in enumerate(operands[0].shape):
        if dim not in dims:
            target = dim if attributes["keepdim"] else dim - sum(other < dim for other in dims)
            yield Way(size, (Axis(dim),), Axis(target))


def _ways_along_reduced(dtypes: Sequence[str]) -> Ways:
    """Return the ways along each reduced dimension, if the operand has one of the ``dtypes``."""

    def ways(operands: Operands, attributes: Attributes, result: TensorType) -> Iterator[Way]:
        for dim in _reduced_dims(attributes) if operands[0].dtype in dtypes else ():
            yield Way(operands[0].shape[dim], (Axis(dim),), None)

    return ways


_KEPT = Split("dimensions that stay", _kept_dims)

_KEEPDIM = {"keepdim": Attribute("bool")}
_DIMS = {"dims": Attribute("ints", 0, MAX_RANK - 1), **_KEEPDIM}
_DIM = {"dim": Attribute("int", 0, MAX_RANK - 1), **_KEEPDIM}

REDUCE = (
    Primitive(
        name="sum",
        arity=(1, 1),
        rule=_summed,
        reference=_sum,
        attributes=_DIMS,
        counts_operand=True,
        calls=2,
        more=_sum_work,
        scratch=8,
        splits=(
            _KEPT,
            Split(
                along="a summed dimension of `f32`",
                ways=_ways_along_reduced(["f32"]),
                pieces=Pieces.RESIDUES,
                exchange=Exchange.TREE_PARTIALS,
            ),
            Split(
                "a summed dimension of `i64` or `bool`",
                _ways_along_reduced(["i64", "bool"]),
                exchange=Exchange.INTEGER_PARTIALS,
            ),
        ),
    ),
    Primitive(
        name="amax",
        arity=(1, 1),
        rule=_largest,
        reference=_amax,
        attributes=_DIMS,
        counts_operand=True,
        calls=4,
        more=_reduced_work,
        scratch_result=8,
        splits=(_KEPT, Split("a reduced dimension", _ways_along_reduced(NUMBERS), exchange=Exchange.MAXIMA)),
    ),
    Primitive(
        name="argmax",
        arity=(1, 1),
        rule=_largest_index,
        reference=_argmax,
        attributes=_DIM,
        cost=24,
        counts_operand=True,
        calls=6,
        more=_found_work,
        scratch=9,
        scratch_result=17,
        splits=(_KEPT, Split("`dim`", _ways_along_reduced(NUMBERS), exchange=Exchange.FIRST_OF_LARGEST)),
    ),
)
"""The reductions."""
