"""Arithmetic, comparisons and functions of torch in primitives."""

import math
from typing import Any

from pol.capture.rules.registry import CaptureSite, Ref, Unsupported, rule

_LOGIC = {"and": "logical_and", "or": "logical_or", "xor": "ne"}


def _arithmetic(op: str) -> Any:
    def handler(site: CaptureSite, left: Any, right: Any, alpha: float = 1) -> int:
        emitter, dtype = site.emitter, site.dtype
        if dtype == "bool":
            return _bool_arithmetic(site, op, left, right)
        if not isinstance(left, Ref) and not isinstance(right, Ref):
            raise Unsupported("both operands are plain numbers")
        a, b = site.operand(left, dtype), site.operand(right, dtype)
        if alpha != 1:
            b = emitter.emit("mul", b, emitter.scalar(alpha, dtype))
        for value, other in ((a, b), (b, a)) if op == "mul" else ((a, b),):
            if op in ("mul", "div") and emitter.is_scalar(other, 1):
                return emitter.broadcast(value, site.shape)
        return emitter.emit(op, a, b)

    return handler


def _bool_arithmetic(site: CaptureSite, op: str, left: Any, right: Any) -> int:
    names = {"mul": "logical_and", "add": "logical_or"}
    if op not in names:
        raise Unsupported(f"{op} of bool values is not defined")
    return site.emitter.emit(names[op], site.operand(left, "bool"), site.operand(right, "bool"))


for _op in ("add", "sub", "mul", "div"):
    rule(f"aten.{_op}.Tensor", f"aten.{_op}.Scalar", f"prims.{_op}.default")(_arithmetic(_op))


_subtract = _arithmetic("sub")


@rule("aten.rsub.Scalar", "aten.rsub.Tensor")
def _rsub(site: CaptureSite, left: Any, right: Any, alpha: float = 1) -> int:
    return int(_subtract(site, right, left, alpha))


def _extreme(op: str) -> Any:
    def handler(site: CaptureSite, left: Any, right: Any) -> int:
        return site.emitter.emit(op, site.operand(left, site.dtype), site.operand(right, site.dtype))

    return handler


rule("aten.maximum.default", "aten.clamp_min.default", "aten.clamp_min.Tensor")(_extreme("maximum"))
rule("aten.minimum.default", "aten.clamp_max.default", "aten.clamp_max.Tensor")(_extreme("minimum"))


@rule("aten.clamp.default", "aten.clamp.Tensor", "aten.hardtanh.default")
def _clamp(site: CaptureSite, x: Ref, low: Any = None, high: Any = None) -> int:
    value = site.operand(x, site.dtype)
    if low is not None:
        value = site.emitter.emit("maximum", value, site.operand(low, site.dtype))
    if high is not None:
        value = site.emitter.emit("minimum", value, site.operand(high, site.dtype))
    return value


@rule("aten.relu.default")
def _relu(site: CaptureSite, x: Ref) -> int:
    return site.emitter.emit("maximum", x, site.emitter.scalar(0, site.dtype))


def _compare(op: str) -> Any:
    def handler(site: CaptureSite, left: Any, right: Any) -> int:
        dtypes = {site.emitter.type(value).dtype for value in (left, right) if isinstance(value, Ref)}
        numbers = [value for value in (left, right) if not isinstance(value, Ref)]
        dtype = "f32" if "f32" in dtypes or any(isinstance(n, float) for n in numbers) else "i64"
        if dtypes == {"bool"} and all(isinstance(number, bool) for number in numbers):
            dtype = "bool"
        return site.emitter.emit(op, site.operand(left, dtype), site.operand(right, dtype))

    return handler


for _op in ("eq", "ne", "lt", "le", "gt", "ge"):
    rule(f"aten.{_op}.Tensor", f"aten.{_op}.Scalar", f"prims.{_op}.default")(_compare(_op))


def _logic(op: str) -> Any:
    def handler(site: CaptureSite, left: Any, right: Any) -> int:
        if site.dtype != "bool":
            raise Unsupported("bitwise operations on integers are not supported")
        return site.emitter.emit(op, site.operand(left, "bool"), site.operand(right, "bool"))

    return handler


for _name, _op in _LOGIC.items():
    rule(f"aten.logical_{_name}.default", f"aten.bitwise_{_name}.Tensor")(_logic(_op))


@rule("aten.isnan.default")
def _isnan(site: CaptureSite, x: Ref) -> int:
    return site.emitter.emit("ne", x, x)


@rule("aten.isinf.default")
def _isinf(site: CaptureSite, x: Ref) -> int:
    emitter = site.emitter
    return emitter.emit("eq", emitter.emit("abs", x), emitter.scalar(math.inf, "f32"))


@rule("aten.logical_not.default", "aten.bitwise_not.default")
def _not(site: CaptureSite, x: Ref) -> int:
    if site.dtype != "bool":
        raise Unsupported("bitwise operations on integers are not supported")
    return site.emitter.emit("logical_not", site.operand(x, "bool"))


@rule("aten.where.self", "prims.where.default", "aten.where.ScalarSelf", "aten.where.ScalarOther")
def _where(site: CaptureSite, condition: Ref, left: Any, right: Any) -> int:
    a, b = site.operand(left, site.dtype), site.operand(right, site.dtype)
    return site.emitter.broadcast(site.emitter.emit("where", condition, a, b), site.shape)


@rule("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def _masked_fill(site: CaptureSite, x: Ref, mask: Ref, value: Any) -> int:
    return _where(site, mask, value, x)


def _function(op: str) -> Any:
    def handler(site: CaptureSite, x: Ref) -> int:
        return site.emitter.emit(op, site.operand(x, site.dtype))

    return handler


for _op in ("neg", "abs", "sqrt", "exp", "log", "tanh", "erf"):
    rule(f"aten.{_op}.default", f"prims.{_op}.default")(_function(_op))


@rule("aten.reciprocal.default")
def _reciprocal(site: CaptureSite, x: Ref) -> int:
    return site.emitter.emit("div", site.emitter.scalar(1, "f32"), site.operand(x, "f32"))


@rule("aten.rsqrt.default", "prims.rsqrt.default")
def _rsqrt(site: CaptureSite, x: Ref) -> int:
    emitter = site.emitter
    return emitter.emit("div", emitter.scalar(1, "f32"), emitter.emit("sqrt", site.operand(x, "f32")))


@rule("aten.sigmoid.default")
def _sigmoid(site: CaptureSite, x: Ref) -> int:
    """With t = exp(-|x|), which never overflows: 1 / (1 + t) for x >= 0, else t / (1 + t)."""
    emitter, one = site.emitter, site.emitter.scalar(1, "f32")
    small = emitter.emit("exp", emitter.emit("neg", emitter.emit("abs", x)))
    above = emitter.emit("ge", x, emitter.scalar(0, "f32"))
    return emitter.emit("div", emitter.emit("where", above, one, small), emitter.emit("add", one, small))


@rule("aten.sign.default", "aten.sgn.default")
def _sign(site: CaptureSite, x: Ref) -> int:
    emitter, dtype = site.emitter, site.dtype
    zero, one, minus = (emitter.scalar(number, dtype) for number in (0, 1, -1))
    below = emitter.emit("where", emitter.emit("lt", x, zero), minus, zero)
    return emitter.broadcast(emitter.emit("where", emitter.emit("gt", x, zero), one, below), emitter.shape(x))


@rule("aten._to_copy.default", "prims.convert_element_type.default")
def _to_copy(site: CaptureSite, x: Ref, dtype: Any = None, **_options: Any) -> int:
    # the result says it
    del dtype
    return site.operand(x, site.dtype)


@rule("aten.copy.default")
def _copy(site: CaptureSite, x: Ref, source: Ref, non_blocking: bool = False) -> int:
    del x, non_blocking
    return site.emitter.broadcast(site.operand(source, site.dtype), site.shape)


@rule(
    "aten.alias.default",
    "aten.clone.default",
    "aten.detach.default",
    "aten.lift_fresh_copy.default",
    "aten.lift_fresh.default",
    "prims.view_of.default",
)
def _same(site: CaptureSite, x: Ref, memory_format: Any = None) -> int:
    del memory_format
    return site.operand(x, site.dtype)
