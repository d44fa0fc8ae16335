"""Functions that are not primitives, as sequences of FP32 operations: rounding, angles, powers, error functions.

``docs/arithmetic.md`` lists the error of each. Polynomials minimize the largest relative error; each coefficient is
rounded to FP32.
"""

import math

from pol.capture.program.formula import Expression

WHOLE = 2.0**23
"""Smallest absolute value from which every FP32 number is an integer."""

_HALF_PI = (1.5703125, 4.837512969970703e-04, 7.549533620476723e-08, 2.5633441515945189e-12)
"""Parts of pi / 2. All but the last have at most eleven bits, so that their products with small integers are exact."""
_SIN = (-0.166666542, 0.00833213172, -0.000195108703)
_COS = (0.0416666457, -0.00138873063, 2.44312392e-05)
_ATAN = (-0.333329413, 0.1997733, -0.138728475, 0.0803603063)
_ASIN = (0.166667541, 0.0749523267, 0.0454783417, 0.0241409979, 0.04223053)
_ERFC = (
    -1.26553681,
    1.00072322,
    0.365778763,
    0.150581103,
    -0.3953846,
    0.787513862,
    -1.91446216,
    2.21818923,
    -1.20334519,
    0.255974405,
)
_ERFINV_CENTRE = (
    1.50140942,
    0.246640726,
    -0.00417770755,
    -0.00125370745,
    0.000218602019,
    -4.39680819e-06,
    -3.52881068e-06,
    3.43729996e-07,
    2.85305462e-08,
)
_ERFINV_TAIL = (
    2.832977,
    1.00167423,
    0.00943503756,
    -0.00762624453,
    0.0057655447,
    -0.00365653928,
    0.00129224027,
    8.2516342e-05,
    -0.000159774331,
)

# --- rounding ---


def round_even(x: Expression) -> Expression:
    """Return the nearest integer, ties to even, by adding and subtracting 2^23. -0 becomes +0."""
    size = abs(x)
    rounded = (size + WHOLE) - WHOLE
    signed = (x < 0).where(-rounded, rounded)
    return (size < WHOLE).where(signed, x)


def floor(x: Expression) -> Expression:
    """Return the largest integer that is not above x."""
    nearest = round_even(x)
    return (nearest > x).where(nearest - 1, nearest)


def ceil(x: Expression) -> Expression:
    """Return the smallest integer that is not below x."""
    nearest = round_even(x)
    return (nearest < x).where(nearest + 1, nearest)


def trunc(x: Expression) -> Expression:
    """Return x without its fraction."""
    return (abs(x) < WHOLE).where(x.cast("i64").cast("f32"), x)


# --- angles ---


def _quarters(x: Expression) -> tuple[Expression, Expression]:
    """Return the angle x as a whole number of quarter turns, and the remaining angle, which is in -pi/4..pi/4.

    If x is too large to have a precise remainder, the angle is 1/2, so that sines stay between -1 and 1.
    """
    turns = round_even(x * (2 / math.pi))
    rest = x
    for piece in _HALF_PI:
        rest = rest - turns * piece
    return turns, (abs(rest) > 1).where(0.5, rest)


def _sin_cos(rest: Expression) -> tuple[Expression, Expression]:
    square = rest * rest
    sine = rest + rest * square * square.polynomial(_SIN)
    cosine = (1 - square * 0.5) + square * square * square.polynomial(_COS)
    return sine, cosine


def _at(turns: Expression, rest: Expression) -> Expression:
    """Return the sine of an angle: ``turns`` quarter turns plus the angle ``rest``."""
    sine, cosine = _sin_cos(rest)
    quarter = turns - 4 * floor(turns * 0.25)
    is_odd = quarter.is_equal(1) | quarter.is_equal(3)
    value = is_odd.where(cosine, sine)
    return (quarter >= 2).where(-value, value)


def sin(x: Expression) -> Expression:
    """Return the sine."""
    return _at(*_quarters(x))


def cos(x: Expression) -> Expression:
    """Return the cosine, as the sine of x plus a quarter turn."""
    turns, rest = _quarters(x)
    return _at(turns + 1, rest)


def tan(x: Expression) -> Expression:
    """Return the tangent."""
    turns, rest = _quarters(x)
    sine, cosine = _sin_cos(rest)
    is_odd = (turns - 2 * floor(turns * 0.5)).is_equal(1)
    return is_odd.where(-cosine, sine) / is_odd.where(sine, cosine)


def atan(x: Expression) -> Expression:
    """Return the arc tangent.

    Beyond tan(pi/8) it uses the arc tangent of (x - 1) / (x + 1), and beyond tan(3 pi/8) the arc tangent of -1 / x.
    """
    size = abs(x)
    is_far, is_middle = size > math.tan(3 * math.pi / 8), size > math.tan(math.pi / 8)
    near = is_middle.where((size - 1) / (size + 1), size)
    t = is_far.where(-1 / size.maximum(1), near)
    base = is_far.where(size.number(math.pi / 2), is_middle.where(size.number(math.pi / 4), 0.0))
    square = t * t
    value = base + (t + t * square * square.polynomial(_ATAN))
    return (x < 0).where(-value, value)


def atan2(y: Expression, x: Expression) -> Expression:
    """Return the angle of the point (x, y); 0 at the origin. The sign of a zero is ignored."""
    high, low = abs(y).maximum(abs(x)), abs(y).minimum(abs(x))
    both = abs(x).is_equal(math.inf) & abs(y).is_equal(math.inf)
    ratio = both.where(1.0, low / high.is_equal(0).where(1.0, high))
    angle = atan(ratio)
    angle = (abs(y) > abs(x)).where(math.pi / 2 - angle, angle)
    angle = (x < 0).where(math.pi - angle, angle)
    return (y < 0).where(-angle, angle)


def asin(x: Expression) -> Expression:
    """Return the arc sine; beyond 1/2, it is computed from the arc sine of sqrt((1 - x) / 2)."""
    size = abs(x)
    is_far = size > 0.5
    square = is_far.where((1 - size) * 0.5, size * size)
    t = is_far.where(square.function("sqrt"), size)
    near = t + t * square * square.polynomial(_ASIN)
    value = is_far.where(math.pi / 2 - 2 * near, near)
    return (x < 0).where(-value, value)


def acos(x: Expression) -> Expression:
    """Return the arc cosine. Beyond 1/2, nothing is subtracted from pi / 2, because that would lose digits."""
    size = abs(x)
    is_far = size > 0.5
    square = is_far.where((1 - size) * 0.5, size * size)
    t = is_far.where(square.function("sqrt"), size)
    near = t + t * square * square.polynomial(_ASIN)
    far = 2 * near
    outer = (x < 0).where(math.pi - far, far)
    signed = (x < 0).where(-near, near)
    return is_far.where(outer, math.pi / 2 - signed)


# --- exponentials ---


def expm1(x: Expression) -> Expression:
    """Return e^x - 1 as tanh(x / 2) (e^x + 1), which keeps its digits near 0."""
    return (x * 0.5).function("tanh") * (x.function("exp") + 1)


def log1p(x: Expression) -> Expression:
    """Return ln(1 + x) in Kahan's form: with u = 1 + x, ln(u) x / (u - 1), or x if u is 1 or infinite."""
    u = x + 1
    is_same = u.is_equal(1) | u.is_equal(math.inf)
    quotient = u.function("log") * x / is_same.where(1.0, u - 1)
    return is_same.where(x, quotient)


def sinh(x: Expression) -> Expression:
    """Return the hyperbolic sine, computed from e^|x| - 1."""
    beyond = expm1(abs(x))
    ratio = beyond.is_equal(math.inf).where(1.0, beyond / (beyond + 1))
    value = (beyond + ratio) * 0.5
    return (x < 0).where(-value, value)


def cosh(x: Expression) -> Expression:
    """Return the hyperbolic cosine."""
    power = abs(x).function("exp")
    return (power + 1 / power) * 0.5


def asinh(x: Expression) -> Expression:
    """Return the inverse hyperbolic sine, computed with :func:`log1p`, which keeps its digits near 0."""
    size = abs(x)
    root = (size * size + 1).function("sqrt")
    more = root.is_equal(math.inf).where(size, size * (size / (root + 1)))
    value = log1p(size + more)
    return (x < 0).where(-value, value)


def acosh(x: Expression) -> Expression:
    """Return the inverse hyperbolic cosine; NaN below 1."""
    beyond = x - 1
    value = log1p(beyond + (beyond * beyond + 2 * beyond).function("sqrt"))
    return (x < 1).where(math.nan, value)


def atanh(x: Expression) -> Expression:
    """Return the inverse hyperbolic tangent; NaN beyond 1."""
    size = abs(x)
    value = 0.5 * log1p(2 * size / (1 - size))
    return (x < 0).where(-value, value)


def power(x: Expression, y: Expression | float) -> Expression:
    """Return x^y, computed as e^(y ln|x|). It is 1 for y = 0.

    For x below 0 the result is NaN unless y is an integer; it is negative if y is odd.
    """
    size = abs(x).function("log")
    exponent = y if isinstance(y, Expression) else x.number(y)
    value = (size * exponent).function("exp")
    if isinstance(y, float) and y != math.floor(y):
        return (x < 0).where(math.nan, value)
    if isinstance(y, Expression):
        half = y * 0.5
        value = abs(x).is_equal(1).where(1.0, value)
        is_odd, is_whole = floor(half).is_other(half) & floor(y).is_equal(y), floor(y).is_equal(y)
        below = is_whole.where(is_odd.where(-value, value), math.nan)
        value = (x < 0).where(below, value)
        return y.is_equal(0).where(1.0, value)
    return (x < 0).where(-value, value) if y % 2 else value


# --- errors ---


def erfc(x: Expression) -> Expression:
    """Return 1 - erf(x). Above 1/2, it is t e^(p(t) - x^2) with t = 1 / (1 + x / 2), which keeps its digits."""
    # Beyond 11 the result is 0 in FP32.
    size = abs(x).maximum(0.5).minimum(16)
    t = 1 / (1 + size * 0.5)
    # The square has two parts; the first is exact.
    upper = (size * 256 + WHOLE - WHOLE) * (1 / 256)
    lower = size - upper
    square = (-upper * upper).function("exp")
    tail = t * square * (t.polynomial(_ERFC) - lower * (size + upper)).function("exp")
    return (x > 0.5).where(tail, 1 - x.function("erf"))


def erfinv(x: Expression) -> Expression:
    """Return the inverse of erf. It is x p(w) with w = -ln(1 - x^2), or x p(sqrt w) from w = 5 on; it is infinite at 1
    and -1.
    """
    inner = (1 - x) * (1 + x)
    w = -inner.function("log")
    centre = (w - 2.5).polynomial(_ERFINV_CENTRE)
    tail = (w.maximum(0).function("sqrt") - 3).polynomial(_ERFINV_TAIL)
    value = (w < 5).where(centre, tail) * x
    return abs(x).is_equal(1).where(x * math.inf, value)
