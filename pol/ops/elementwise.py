"""Elementwise primitives: arithmetic, comparisons, logic, choice, casts and functions.

Operands broadcast as in NumPy: shapes are aligned at the last dimension, and a dimension of 1 repeats. FP32 arithmetic
is one IEEE operation per element. Functions are the FP64 sequences of ``functions.py``, rounded once to FP32. Maximum
and minimum return +0.0 for zeros of either sign, because libraries differ in the sign that they return.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pol.ops import functions
from pol.ops.primitive import (
    BOOLS,
    FLOATS,
    FLOPS_PER_RUN,
    NUMBERS,
    Attribute,
    Attributes,
    Function,
    Maker,
    Operands,
    OpWork,
    Primitive,
    ShapeRule,
    Site,
    check_dtype,
    check_equal_dtype,
    plain,
    refuse,
    runs,
)
from pol.ops.splits import Split, same_dims
from pol.state.arrays import NUMPY_DTYPES, Array
from pol.values import Shape, TensorType

_INTEGERS = ("i64",)
_BIAS, _MANTISSA_BITS = 1023, 52
_BLOCK = 2**14
"""Number of elements for which a function is computed at once, so that its dozen FP64 temporaries stay in the cache."""
_ZERO = np.float32(0.0)


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape | None:
    """Return the common shape of operands under NumPy's broadcasting rule, or None if there is no common shape."""
    rank = max(len(shape) for shape in shapes)
    result: list[int] = []
    for padded in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        sizes = {size for size in padded if size != 1}
        if len(sizes) > 1:
            return None
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def _common_shape(operands: Operands) -> Shape:
    shape = broadcast_shapes([operand.shape for operand in operands])
    if shape is None:
        shapes = ", ".join(map(str, operands))
        raise refuse("args", f"the shapes of {shapes} do not broadcast", "reshape the operands")
    return shape


def _same_dtype(allowed: Sequence[str]) -> ShapeRule:
    def rule(operands: Operands, attributes: Attributes) -> TensorType:
        check_dtype(operands, allowed)
        check_equal_dtype(operands)
        return TensorType(operands[0].dtype, _common_shape(operands))

    return rule


def _compared(operands: Operands, attributes: Attributes) -> TensorType:
    check_equal_dtype(operands)
    return TensorType("bool", _common_shape(operands))


def _chosen(operands: Operands, attributes: Attributes) -> TensorType:
    check_dtype(operands[:1], BOOLS)
    check_equal_dtype(operands, 1)
    return TensorType(operands[1].dtype, _common_shape(operands))


def _cast_type(operands: Operands, attributes: Attributes) -> TensorType:
    return TensorType(attributes["dtype"], operands[0].shape)


def _run_work(operands: Operands, attributes: Attributes, result: TensorType) -> OpWork:
    """Return the work of starting the inner loops of a kernel: if operands have different shapes, a kernel processes
    them row by row.
    """
    rank = len(result.shape)
    shapes = [(1,) * (rank - len(operand.shape)) + operand.shape for operand in operands]
    kinds = [[size == 1 for size in shape] for shape in shapes]
    return OpWork(elements=FLOPS_PER_RUN * runs(result.shape, kinds))


def _cast_work(operands: Operands, attributes: Attributes, result: TensorType) -> OpWork:
    """Return the work that a cast from f32 to i64 needs to check which elements fit."""
    if (operands[0].dtype, result.dtype) != ("f32", "i64"):
        return OpWork()
    return OpWork(elements=60 * result.elements, calls=6)


def power_of_two(exponent: Array) -> Array:
    """Return 2^exponent in FP64, composed from bits. The exponents are integers in -1022..1023."""
    return ((exponent + _BIAS) << _MANTISSA_BITS).view(np.float64)


def exponent_of(x: Array) -> Array:
    """Return floor(log2 x), taken from the bits. ``x`` holds normal positive FP64 numbers."""
    return (x.view(np.int64) >> _MANTISSA_BITS) - _BIAS


class NumpyNamespace:
    """The FP64 operations of ``functions.py`` in NumPy."""

    def round_even(self, x: Any) -> Any:
        """Round to the nearest integer, ties to even."""
        return np.rint(x)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        """Return ``x`` for the elements where the condition is true, and ``y`` for all other elements."""
        return np.where(condition, x, y)

    def clamp(self, x: Any, low: float, high: float) -> Any:
        """Return x limited to [low, high]. NaN remains NaN."""
        return np.minimum(np.maximum(x, low), high)

    def absolute(self, x: Any) -> Any:
        """Return x without its sign."""
        return np.abs(x)

    def power_of_two(self, k: Any) -> Any:
        """Return 2^k for integers in FP64."""
        return power_of_two(np.asarray(k).astype(np.int64))

    def split(self, x: Any) -> tuple[Any, Any]:
        """Return the exponent and the mantissa of x."""
        wide = np.asarray(x)
        bits = (wide.view(np.int64) & (2**_MANTISSA_BITS - 1)) | (_BIAS << _MANTISSA_BITS)
        return exponent_of(wide).astype(np.float64), bits.view(np.float64)


NAMESPACE = NumpyNamespace()


def _composed(function: Callable[[functions.Namespace, Any], Any]) -> Maker:
    def run(x: Array) -> Array:
        flat = np.asarray(x).reshape(-1)
        result = np.empty(flat.shape, np.float32)
        for start in range(0, flat.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            # This assignment rounds to FP32.
            result[part] = function(NAMESPACE, flat[part].astype(np.float64))
        return result.reshape(np.shape(x))

    return plain(run)


def _extreme(function: Function) -> Maker:
    def make(site: Site) -> Function:
        if site.result.dtype == "f32":
            return lambda a, b: function(a, b) + _ZERO
        return function

    return make


def _sqrt(x: Array) -> Array:
    root: Array = np.sqrt(x.astype(np.float64, order="C")).astype(np.float32)
    return root


def _cast(site: Site) -> Function:
    source, target = site.operands[0].dtype, site.result.dtype
    if target == "bool":
        return lambda x: x != 0
    if (source, target) == ("f32", "i64"):
        return _float_to_integer
    dtype = NUMPY_DTYPES[target]
    return lambda x: x.astype(dtype, order="C")


def _float_to_integer(x: Array) -> Array:
    """Convert FP32 to integers by truncation.

    NaN and numbers outside the range of i64 become 0, because processors differ for them.
    """
    fits = np.abs(x) < np.float32(2.0**63)
    return np.where(fits, x, _ZERO).astype(np.int64, order="C")


def _floor_divide(a: Array, b: Array) -> Array:
    """Return a / b, rounded down. Division by 0 gives 0, and -2^63 / -1 wraps, since processors may trap on both."""
    is_zero, is_minus = b == 0, b == -1
    quotient = np.floor_divide(a, np.where(is_zero | is_minus, 1, b))
    return np.where(is_zero, 0, np.where(is_minus, np.negative(a), quotient))


_NUMBERS, _FLOATS, _INTEGRAL, _BOOLS = (_same_dtype(allowed) for allowed in (NUMBERS, FLOATS, _INTEGERS, BOOLS))

_PRIMITIVES = (
    Primitive(name="add", arity=(2, 2), rule=_NUMBERS, reference=plain(np.add), more=_run_work),
    Primitive(name="sub", arity=(2, 2), rule=_NUMBERS, reference=plain(np.subtract), more=_run_work),
    Primitive(name="mul", arity=(2, 2), rule=_NUMBERS, reference=plain(np.multiply), more=_run_work),
    Primitive(name="div", arity=(2, 2), rule=_FLOATS, reference=plain(np.divide), cost=4, more=_run_work),
    Primitive(
        name="floor_divide",
        arity=(2, 2),
        rule=_INTEGRAL,
        reference=plain(_floor_divide),
        cost=500,
        calls=10,
        more=_run_work,
        scratch_result=40,
    ),
    Primitive(
        name="maximum",
        arity=(2, 2),
        rule=_NUMBERS,
        reference=_extreme(np.maximum),
        cost=8,
        calls=2,
        scratch_result=4,
        more=_run_work,
    ),
    Primitive(
        name="minimum",
        arity=(2, 2),
        rule=_NUMBERS,
        reference=_extreme(np.minimum),
        cost=8,
        calls=2,
        scratch_result=4,
        more=_run_work,
    ),
    Primitive(name="neg", arity=(1, 1), rule=_NUMBERS, reference=plain(np.negative)),
    Primitive(name="abs", arity=(1, 1), rule=_NUMBERS, reference=plain(np.abs)),
    Primitive(name="sqrt", arity=(1, 1), rule=_FLOATS, reference=plain(_sqrt), cost=16, calls=3, scratch=16),
    Primitive(name="exp", arity=(1, 1), rule=_FLOATS, reference=_composed(functions.exp), cost=200, calls=30),
    Primitive(name="log", arity=(1, 1), rule=_FLOATS, reference=_composed(functions.log), cost=600, calls=40),
    Primitive(name="tanh", arity=(1, 1), rule=_FLOATS, reference=_composed(functions.tanh), cost=400, calls=45),
    Primitive(name="erf", arity=(1, 1), rule=_FLOATS, reference=_composed(functions.erf), cost=700, calls=80),
    Primitive(name="eq", arity=(2, 2), rule=_compared, reference=plain(np.equal), cost=16, more=_run_work),
    Primitive(name="ne", arity=(2, 2), rule=_compared, reference=plain(np.not_equal), cost=16, more=_run_work),
    Primitive(name="lt", arity=(2, 2), rule=_compared, reference=plain(np.less), cost=16, more=_run_work),
    Primitive(name="le", arity=(2, 2), rule=_compared, reference=plain(np.less_equal), cost=16, more=_run_work),
    Primitive(name="gt", arity=(2, 2), rule=_compared, reference=plain(np.greater), cost=16, more=_run_work),
    Primitive(name="ge", arity=(2, 2), rule=_compared, reference=plain(np.greater_equal), cost=16, more=_run_work),
    Primitive(name="logical_and", arity=(2, 2), rule=_BOOLS, reference=plain(np.logical_and), cost=6, more=_run_work),
    Primitive(name="logical_or", arity=(2, 2), rule=_BOOLS, reference=plain(np.logical_or), cost=6, more=_run_work),
    Primitive(name="logical_not", arity=(1, 1), rule=_BOOLS, reference=plain(np.logical_not)),
    Primitive(name="where", arity=(3, 3), rule=_chosen, reference=plain(np.where), cost=100, calls=2, more=_run_work),
    Primitive(
        name="cast",
        arity=(1, 1),
        rule=_cast_type,
        reference=_cast,
        attributes={"dtype": Attribute("dtype")},
        cost=3,
        calls=3,
        more=_cast_work,
        scratch=9,
    ),
)
_EACH_ELEMENT = (Split("every dimension", same_dims),)

ELEMENTWISE = tuple(replace(primitive, splits=_EACH_ELEMENT) for primitive in _PRIMITIVES)
"""The elementwise primitives."""
