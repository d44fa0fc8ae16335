"""The reference: what each primitive computes, bit by bit, in NumPy.

One small function for each primitive; it gets the node and types and returns a closure over
operands. Rules that hold for all of them: FP32 arithmetic is one IEEE operation for each element;
products are exact integer sums (``_matmul``); sums are halving trees (``_sum_tree``); functions are
the FP64 sequences of ``functions.py`` rounded once; maximum and minimum give +0.0 for zeros of
either sign, because libraries differ in which one they return.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any

import numpy as np

from pol.executor import functions, philox
from pol.executor.backend import Function
from pol.executor.errors import ExecutionError, OutOfRange
from pol.job.primitives import AttributeValue
from pol.job.program import Node
from pol.state.arrays import NUMPY_DTYPES, Array
from pol.values import TensorType

Attrs = Mapping[str, Any]
Maker = Callable[[Attrs, Sequence[TensorType], TensorType, int], Function]

LARGEST_DIGIT = 16_256
"""Largest integer of a scaled operand: two balanced 7-bit digits (127 x 128) hold it."""
_F32_ZERO = np.float32(0.0)
_F32, _F64, _I64 = np.float32, np.float64, np.int64
_BIAS, _MANTISSA_BITS = 1023, 52
_BLOCK = 2**14
"""Elements that a function of FP64 sequences takes at once: its dozen temporaries stay in the cache."""


class _Namespace:
    """The FP64 operations of ``functions.py`` in NumPy."""

    def round_even(self, x: Any) -> Any:
        return np.rint(x)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return np.where(condition, x, y)

    def clamp(self, x: Any, low: float, high: float) -> Any:
        return np.minimum(np.maximum(x, low), high)

    def absolute(self, x: Any) -> Any:
        return np.abs(x)

    def power_of_two(self, k: Any) -> Any:
        return _power_of_two(np.asarray(k).astype(_I64))

    def split(self, x: Any) -> tuple[Any, Any]:
        bits = np.asarray(x).view(_I64)
        k = ((bits >> _MANTISSA_BITS) - _BIAS).astype(_F64)
        return k, ((bits & (2**_MANTISSA_BITS - 1)) | (_BIAS << _MANTISSA_BITS)).view(_F64)


_NAMESPACE = _Namespace()


def _power_of_two(exponent: Array) -> Array:
    """Return 2^exponent in FP64 for -1022..1023, made of bits."""
    return ((exponent + _BIAS) << _MANTISSA_BITS).view(_F64)


def scale_rows(x: Array, axis: int) -> tuple[Array, Array]:
    """Scale an FP32 operand along the summed dimension and round it to integers of 15 bits.

    Per row, s = 13 - floor(log2 max|row|) and q = round-half-even(x 2^s); where max|q| > 16,256, s
    is lowered by one and q rounded again from x. Rows of zeros have s = 0; rows with NaN or
    infinity give zeros and an inverse of NaN.

    Args:
        x: FP32, at least two dimensions.
        axis: the summed dimension (-1 for the left operand, -2 for the right one).

    Returns:
        q as FP64 integers, and 2^-s with ``axis`` kept as 1; both are exact.
    """
    wide = x.astype(_F64)  # FP32 subnormals are normal here, so the exponent is in the bits
    largest = np.abs(wide).max(axis=axis, keepdims=True)
    exponent = (largest.view(_I64) >> _MANTISSA_BITS) - _BIAS
    shift = np.where(largest == 0.0, 0, 13 - exponent)
    shift -= np.rint(largest * _power_of_two(shift)) > LARGEST_DIGIT
    inverse = _power_of_two(-shift)
    finite = np.isfinite(largest)
    if not finite.all():
        wide = np.where(finite, wide, 0.0)
        inverse = np.where(finite, inverse, np.nan)
    return np.rint(wide * _power_of_two(shift)), inverse


def _matmul(
    attrs: Attrs, operands: Sequence[TensorType], result: TensorType, seed: int
) -> Function:
    def run(a: Array, b: Array) -> Array:
        left, left_inverse = scale_rows(a, -1)
        right, right_inverse = scale_rows(b, -2)
        total = np.matmul(left, right)  # integers below 2^53: exact in any order, on any BLAS
        total += 0.0  # the sign of a zero sum depends on the BLAS
        total *= left_inverse  # exact: FP64 has room for every exponent here
        total *= right_inverse
        rounded: Array = total.astype(_F32)
        return rounded

    return run


def _halve(x: Array) -> Array:
    """Sum FP32 over the first axis: pad with zeros to a power of two and add the upper half to the
    lower.
    """
    count = x.shape[0]
    while count > 1:
        half = 1 << ((count - 1).bit_length() - 1)
        paired = count - half
        if paired == half:
            x = x[:half] + x[half:]
        else:  # what has no partner is added to a zero of the padding
            shorter = np.empty((half, *x.shape[1:]), _F32)
            np.add(x[:paired], x[half:], out=shorter[:paired])
            np.add(x[paired:half], _F32_ZERO, out=shorter[paired:])
            x = shorter
        count = half
    return x


def _sum_tree(dims: Sequence[int], shape: tuple[int, ...]) -> Function:
    """Return the FP32 sum over ``dims``, one after another in ascending order."""
    orders: list[tuple[int, ...]] = []
    rank = len(shape)
    for done, dim in enumerate(dims):
        axis = dim - done
        orders.append((axis, *(other for other in range(rank - done) if other != axis)))
    target = tuple(size for dim, size in enumerate(shape) if dim not in dims)
    if any(shape[dim] == 0 for dim in dims):
        return lambda x: np.zeros(target, _F32)

    def run(x: Array) -> Array:
        for order in orders:
            halved = _halve(np.transpose(x, order))
            x = halved.reshape(halved.shape[1:])
        return x

    return run


def _sum(attrs: Attrs, operands: Sequence[TensorType], result: TensorType, seed: int) -> Function:
    dims, shape = attrs["dims"], result.shape
    if operands[0].dtype == "f32":
        tree = _sum_tree(dims, operands[0].shape)
        return lambda x: tree(x).reshape(shape)
    return lambda x: np.sum(x, axis=dims, dtype=_I64).reshape(
        shape
    )  # a bool sum counts, it is not an OR


def _amax(attrs: Attrs, operands: Sequence[TensorType], result: TensorType, seed: int) -> Function:
    dims, keepdim = attrs["dims"], attrs["keepdim"]
    if result.dtype == "f32":
        return lambda x: np.max(x, axis=dims, keepdims=keepdim) + _F32_ZERO
    return lambda x: np.max(x, axis=dims, keepdims=keepdim)


def _argmax(
    attrs: Attrs, operands: Sequence[TensorType], result: TensorType, seed: int
) -> Function:
    dim, keepdim = attrs["dim"], attrs["keepdim"]

    def run(x: Array) -> Array:  # the first of equal ones; 0 where NaN leaves no largest
        is_largest = x == np.max(x, axis=dim, keepdims=True)
        return np.asarray(np.argmax(is_largest, axis=dim, keepdims=keepdim)).astype(_I64)

    return run


def _maximum(
    attrs: Attrs, operands: Sequence[TensorType], result: TensorType, seed: int
) -> Function:
    if result.dtype == "f32":
        return lambda a, b: np.maximum(a, b) + _F32_ZERO
    return np.maximum


def _minimum(
    attrs: Attrs, operands: Sequence[TensorType], result: TensorType, seed: int
) -> Function:
    if result.dtype == "f32":
        return lambda a, b: np.minimum(a, b) + _F32_ZERO
    return np.minimum


def _ufunc(function: Function) -> Maker:
    return lambda attrs, operands, result, seed: function


def _sqrt(attrs: Attrs, operands: Sequence[TensorType], result: TensorType, seed: int) -> Function:
    return lambda x: np.sqrt(x.astype(_F64)).astype(_F32)


def _composed(function: Callable[[functions.Namespace, Any], Any]) -> Maker:
    def make(
        attrs: Attrs, operands: Sequence[TensorType], result: TensorType, seed: int
    ) -> Function:
        def run(x: Array) -> Array:
            flat = np.asarray(x).reshape(-1)
            done = np.empty(flat.shape, _F32)
            for start in range(0, flat.size, _BLOCK):
                part = slice(start, start + _BLOCK)
                done[part] = function(_NAMESPACE, flat[part].astype(_F64))  # rounded here, once
            return done.reshape(np.shape(x))

        return run

    return make


def _cast(attrs: Attrs, operands: Sequence[TensorType], result: TensorType, seed: int) -> Function:
    source, target = operands[0].dtype, attrs["dtype"]
    if target == "bool":
        return lambda x: x != 0
    if (source, target) == ("f32", "i64"):
        return _float_to_integer
    dtype = NUMPY_DTYPES[target]
    return lambda x: x.astype(dtype)


def _float_to_integer(x: Array) -> Array:
    """Truncate; NaN and what an i64 does not hold become 0, because processors differ there."""
    fits = np.abs(x) < _F32(2.0**63)
    return np.where(fits, x, _F32_ZERO).astype(_I64)


def _reshape(
    attrs: Attrs, operands: Sequence[TensorType], result: TensorType, seed: int
) -> Function:
    shape = result.shape
    return lambda x: x.reshape(shape)


def _permute(
    attrs: Attrs, operands: Sequence[TensorType], result: TensorType, seed: int
) -> Function:
    dims = attrs["dims"]
    return lambda x: x.transpose(dims)


def _broadcast(
    attrs: Attrs, operands: Sequence[TensorType], result: TensorType, seed: int
) -> Function:
    shape = result.shape
    return lambda x: np.broadcast_to(x, shape)


def slices(attrs: Attrs) -> tuple[slice, ...]:
    """Return the index of a ``slice`` node."""
    bounds = zip(attrs["starts"], attrs["stops"], attrs["steps"], strict=True)
    return tuple(slice(start, stop, step) for start, stop, step in bounds)


def _slice(attrs: Attrs, operands: Sequence[TensorType], result: TensorType, seed: int) -> Function:
    index = slices(attrs)
    return lambda x: x[index]


def _concat(
    attrs: Attrs, operands: Sequence[TensorType], result: TensorType, seed: int
) -> Function:
    dim = attrs["dim"]
    return lambda *parts: np.concatenate(parts, axis=dim)


def element(value: AttributeValue, dtype: str) -> Array:
    """Return the scalar that an ``element`` attribute names."""
    return np.frombuffer(bytes.fromhex(str(value)), NUMPY_DTYPES[dtype]).reshape(())


def _pad(attrs: Attrs, operands: Sequence[TensorType], result: TensorType, seed: int) -> Function:
    fill, shape = element(attrs["value"], result.dtype), result.shape
    index = tuple(
        slice(low, low + size) for low, size in zip(attrs["low"], operands[0].shape, strict=True)
    )

    def run(x: Array) -> Array:
        padded = np.full(shape, fill)
        padded[index] = x
        return padded

    return run


def _take(attrs: Attrs, operands: Sequence[TensorType], result: TensorType, seed: int) -> Function:
    rows = operands[0].shape[0]

    def run(table: Array, index: Array) -> Array:
        if index.size and (index.min() < 0 or index.max() >= rows):
            raise OutOfRange("take", f"A row outside 0..{rows - 1} was asked for.")
        return np.asarray(table[index])

    return run


def _iota(attrs: Attrs, operands: Sequence[TensorType], result: TensorType, seed: int) -> Function:
    size = attrs["size"]
    return lambda: np.arange(size, dtype=_I64)


def _full(attrs: Attrs, operands: Sequence[TensorType], result: TensorType, seed: int) -> Function:
    fill, shape = element(attrs["value"], result.dtype), result.shape
    return lambda: np.broadcast_to(fill, shape)  # one element of memory; nobody writes to a value


def _uniform(
    attrs: Attrs, operands: Sequence[TensorType], result: TensorType, seed: int
) -> Function:
    site, shape, count = attrs["site"], result.shape, result.elements
    return lambda step: philox.uniform(seed, site, int(step), count).reshape(shape)


_MAKERS: Mapping[str, Maker] = MappingProxyType(
    {
        "add": _ufunc(np.add),
        "sub": _ufunc(np.subtract),
        "mul": _ufunc(np.multiply),
        "div": _ufunc(np.divide),
        "maximum": _maximum,
        "minimum": _minimum,
        "neg": _ufunc(np.negative),
        "abs": _ufunc(np.abs),
        "sqrt": _sqrt,
        "exp": _composed(functions.exp),
        "log": _composed(functions.log),
        "tanh": _composed(functions.tanh),
        "erf": _composed(functions.erf),
        "eq": _ufunc(np.equal),
        "ne": _ufunc(np.not_equal),
        "lt": _ufunc(np.less),
        "le": _ufunc(np.less_equal),
        "gt": _ufunc(np.greater),
        "ge": _ufunc(np.greater_equal),
        "logical_and": _ufunc(np.logical_and),
        "logical_or": _ufunc(np.logical_or),
        "logical_not": _ufunc(np.logical_not),
        "where": _ufunc(np.where),
        "cast": _cast,
        "reshape": _reshape,
        "permute": _permute,
        "broadcast": _broadcast,
        "slice": _slice,
        "concat": _concat,
        "pad": _pad,
        "take": _take,
        "sum": _sum,
        "amax": _amax,
        "argmax": _argmax,
        "matmul": _matmul,
        "iota": _iota,
        "full": _full,
        "uniform": _uniform,
    }
)


def check_subnormals() -> None:
    """Refuse a process in which subnormal numbers are flushed to zero (some libraries switch that
    on).
    """
    smallest = np.full(1, 2.0**-140, _F32)
    if (
        not (smallest * np.full(1, 0.5, _F32))[0]
        or not (np.full(1, 2.0**-1060) * np.full(1, 0.5))[0]
    ):
        raise ExecutionError("backend", "This process flushes subnormal numbers to zero.")


class NumpyBackend:
    """NumPy on the CPU, the reference."""

    name = "numpy"

    def __init__(self) -> None:
        check_subnormals()

    def compile(
        self, node: Node, operands: Sequence[TensorType], result: TensorType, seed: int
    ) -> Function:
        """Return the function of one node."""
        return _MAKERS[node.op](node.attrs, operands, result, seed)

    def upload(self, array: Array) -> Array:
        """Return the array itself."""
        return array

    def download(self, value: Array) -> Array:
        """Return the value as an array (NumPy turns arrays without dimensions into scalars)."""
        return np.asarray(value)

    def session(self) -> AbstractContextManager[object]:
        """Return a context in which overflow and NaN do not warn; outputs are checked at the end
        instead.
        """
        return np.errstate(all="ignore")
