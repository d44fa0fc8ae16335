"""Elementwise functions that are composed of primitives (``functions_fp32.py``), and division that rounds."""

import math
from collections.abc import Callable
from typing import Any

from pol.capture.program import functions_fp32 as fp32
from pol.capture.program.formula import Expression
from pol.capture.rules.registry import CaptureSite, Ref, Unsupported, rule

MOST_PRODUCTS = 64
"""Largest exponent of a power that is computed by products."""


def _value(site: CaptureSite, argument: Any, dtype: str = "f32") -> Expression:
    return Expression(site.emitter, site.operand(argument, dtype))


def _of_one(name: str, function: Callable[[Expression], Expression]) -> None:
    @rule(f"aten.{name}.default", f"prims.{name}.default")
    def handler(site: CaptureSite, x: Ref) -> int:
        if site.dtype != "f32":
            # Only functions that round take integers, and they do not change them.
            return site.operand(x, site.dtype)
        return function(_value(site, x)).handle


def _log(base: float) -> Callable[[Expression], Expression]:
    return lambda x: x.function("log") / math.log(base)


for _name, _function in {
    "floor": fp32.floor,
    "ceil": fp32.ceil,
    "round": fp32.round_even,
    "trunc": fp32.trunc,
    "sin": fp32.sin,
    "cos": fp32.cos,
    "tan": fp32.tan,
    "atan": fp32.atan,
    "asin": fp32.asin,
    "acos": fp32.acos,
    "sinh": fp32.sinh,
    "cosh": fp32.cosh,
    "asinh": fp32.asinh,
    "acosh": fp32.acosh,
    "atanh": fp32.atanh,
    "expm1": fp32.expm1,
    "log1p": fp32.log1p,
    "log2": _log(2),
    "log10": _log(10),
    "exp2": lambda x: (x * math.log(2)).function("exp"),
    "erfc": fp32.erfc,
    "erfinv": fp32.erfinv,
}.items():
    _of_one(_name, _function)


@rule("aten.round.decimals")
def _round_decimals(site: CaptureSite, x: Ref, decimals: int) -> int:
    scale = 10.0 ** abs(decimals)
    value = _value(site, x)
    if decimals < 0:
        return (fp32.round_even(value / scale) * scale).handle
    return (fp32.round_even(value * scale) / scale).handle


@rule("aten.atan2.default", "prims.atan2.default")
def _atan2(site: CaptureSite, y: Ref, x: Ref) -> int:
    return fp32.atan2(_value(site, y), _value(site, x)).handle


@rule("aten.hypot.default", "prims.hypot.default")
def _hypot(site: CaptureSite, x: Ref, y: Ref) -> int:
    """Return sqrt(x^2 + y^2), scaled by the larger operand, because its square may overflow."""
    a, b = abs(_value(site, x)), abs(_value(site, y))
    most = a.maximum(b)
    is_plain = (most > 0) & (most < math.inf)
    ratio = a.minimum(b) / is_plain.where(most, 1.0)
    length = is_plain.where(most * (ratio * ratio + 1).function("sqrt"), most)
    return (a.is_equal(math.inf) | b.is_equal(math.inf)).where(math.inf, length).handle


@rule("aten.copysign.Tensor", "aten.copysign.Scalar")
def _copysign(site: CaptureSite, x: Ref, sign: Any) -> int:
    """Return the size of ``x`` with the sign of ``sign``; -0 counts as positive."""
    size = abs(_value(site, x))
    return (_value(site, sign) < 0).where(-size, size).handle


def _extreme_without_nan(op: str) -> Any:
    def handler(site: CaptureSite, left: Any, right: Any) -> int:
        a, b = _value(site, left, site.dtype), _value(site, right, site.dtype)
        extreme = a.maximum(b) if op == "maximum" else a.minimum(b)
        if site.dtype != "f32":
            return extreme.handle
        return a.is_other(a).where(b, b.is_other(b).where(a, extreme)).handle

    return handler


rule("aten.fmax.default", "prims.fmax.default")(_extreme_without_nan("maximum"))
rule("aten.fmin.default", "prims.fmin.default")(_extreme_without_nan("minimum"))

# --- powers ---


@rule("aten.pow.Tensor_Scalar", "prims.pow.default")
def _power(site: CaptureSite, x: Ref, exponent: Any) -> int:
    """Raise ``x`` to a power.

    If the exponent is a small integer, or a multiple of 1/2 that is at most 8, use products and square roots. Otherwise
    use e^(y ln x).
    """
    if isinstance(exponent, Ref):
        return _power_of_values(site, x, exponent)
    value, size = _value(site, x, site.dtype), abs(exponent)
    if exponent == 0:
        return site.emitter.full(1, site.dtype, site.shape)
    if site.dtype != "f32" and (exponent < 0 or exponent % 1):
        reason = f"the power {exponent} of an integer is not an integer"
        raise Unsupported(reason, f"convert the tensor to float32 first: x.float() ** {exponent}")
    is_few = size <= 8 and size % 1 in (0, 0.5)
    if not is_few and (size > MOST_PRODUCTS or size % 1):
        if site.dtype != "f32":
            reason = f"the exponent of integers is {exponent}, but at most {MOST_PRODUCTS} is supported"
            raise Unsupported(reason, f"convert the tensor to float32 first: x.float() ** {exponent}")
        return fp32.power(value, float(exponent)).handle
    parts = [_product(value, math.floor(size))] if size >= 1 else []
    parts += [value.function("sqrt")] if size % 1 else []
    result = parts[0] if len(parts) == 1 else parts[0] * parts[1]
    return (result if exponent > 0 else 1 / result).handle


def _product(x: Expression, power: int) -> Expression:
    if power <= 8:
        value = x
        for _ in range(power - 1):
            value = value * x
        return value
    half = _product(x, power // 2)
    return half * half * x if power % 2 else half * half


@rule("aten.pow.Tensor_Tensor")
def _power_of_values(site: CaptureSite, x: Ref, exponent: Ref) -> int:
    if site.dtype != "f32":
        raise Unsupported("powers of integers by integers are not supported; use x.float() ** y")
    return fp32.power(_value(site, x), _value(site, exponent)).handle


@rule("aten.pow.Scalar")
def _power_of_number(site: CaptureSite, base: float, exponent: Ref) -> int:
    y = _value(site, exponent)
    if site.dtype != "f32":
        raise Unsupported("powers by a tensor of integers are not supported; use 2.0 ** y.float()")
    if base > 0:
        return (y * math.log(base)).function("exp").handle
    return fp32.power(y.number(base), y).handle


# --- division that rounds ---


@rule("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def _div_mode(site: CaptureSite, left: Any, right: Any, rounding_mode: str | None = None) -> int:
    a, b = _value(site, left, site.dtype), _value(site, right, site.dtype)
    if rounding_mode is None:
        return (a / b).handle
    if site.dtype == "f32":
        return (fp32.floor(a / b) if rounding_mode == "floor" else fp32.trunc(a / b)).handle
    return (a.floor_divide(b) if rounding_mode == "floor" else _toward_zero(a, b)).handle


@rule("aten.floor_divide.default", "aten.floor_divide.Scalar")
def _floor_divide(site: CaptureSite, left: Any, right: Any) -> int:
    return _div_mode(site, left, right, "floor")


def _toward_zero(a: Expression, b: Expression) -> Expression:
    down = a.floor_divide(b)
    is_apart = (down < 0) & (down * b).is_other(a)
    return is_apart.where(down + 1, down)


def _rest(site: CaptureSite, left: Any, right: Any, *, is_down: bool) -> int:
    """Return the remainder a - b x quotient.

    In FP32, the quotient is rounded, so the remainder may lie outside 0 to b; it is then moved back into this range.
    """
    a, b = _value(site, left, site.dtype), _value(site, right, site.dtype)
    if site.dtype != "f32":
        quotient = a.floor_divide(b) if is_down else _toward_zero(a, b)
        return (a - quotient * b).handle
    quotient = fp32.floor(a / b) if is_down else fp32.trunc(a / b)
    rest = a - quotient * b
    if is_down:
        is_astray = (rest < 0) & (b > 0) | (rest > 0) & (b < 0)
        rest = is_astray.where(rest + b, rest)
        is_whole = (abs(rest) >= abs(b)) & (abs(b) < math.inf)
        return is_whole.where(0.0, rest).handle
    is_astray = (rest < 0) & (a > 0) | (rest > 0) & (a < 0)
    rest = is_astray.where(rest + (rest < 0).where(abs(b), -abs(b)), rest)
    return rest.handle


@rule("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def _remainder(site: CaptureSite, left: Any, right: Any) -> int:
    return _rest(site, left, right, is_down=True)


@rule("aten.fmod.Tensor", "aten.fmod.Scalar", "prims.fmod.default")
def _fmod(site: CaptureSite, left: Any, right: Any) -> int:
    return _rest(site, left, right, is_down=False)
