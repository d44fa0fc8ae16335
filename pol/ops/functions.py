"""exp, log, tanh and erf as fixed sequences of FP64 operations, the same for every back end.

Results of library functions differ between NumPy and torch, and between versions, for up to 40 % of values. Here each
function is a sequence of additions, multiplications, divisions and bit operations. Each operation is rounded once as
IEEE 754 requires, and none are fused. The caller rounds the result to FP32.

Sources: exp and log follow fdlibm (Sun Microsystems, ``e_exp.c`` and ``e_log.c``), with its coefficients. erf follows
Cephes (S. L. Moshier, ``ndtr.c``). tanh is computed from exp by its definition. Each decimal coefficient denotes
exactly one FP64 number.
"""

from collections.abc import Sequence
from typing import Any, Protocol

LN2_HIGH = 6.93147180369123816490e-01
"""Upper bits of ln 2; k x LN2_HIGH is exact for every k that occurs."""
LN2_LOW = 1.90821492927058770002e-10
INVERSE_LN2 = 1.44269504088896338700e00
SQRT2 = 1.41421356237309514547e00

EXP = (
    1.66666666666666019037e-01,
    -2.77777777770155933842e-03,
    6.61375632143793436117e-05,
    -1.65339022054652515390e-06,
    4.13813679705723846039e-08,
)
LOG_EVEN = (3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01)
LOG_ODD = (
    6.666666666666735130e-01,
    2.857142874366239149e-01,
    1.818357216161805012e-01,
    1.479819860511658591e-01,
)
ERF_T = (
    5.55923013010394962768e4,
    7.00332514112805075473e3,
    2.23200534594684319226e3,
    9.00260197203842689217e1,
    9.60497373987051638749e0,
)
ERF_U = (
    4.92673942608635921086e4,
    2.26290000613890934246e4,
    4.59432382970980127987e3,
    5.21357949780152679795e2,
    3.35617141647503099647e1,
    1.0,
)
ERFC_P = (
    5.57535335369399327526e2,
    1.02755188689515710272e3,
    9.34528527171957607540e2,
    5.26445194995477358631e2,
    1.96520832956077098242e2,
    4.86371970985681366614e1,
    7.46321056442269912687e0,
    5.64189564831068821977e-1,
    2.46196981473530512524e-10,
)
ERFC_Q = (
    5.57535340817727675546e2,
    1.65666309194161350182e3,
    2.24633760818710981792e3,
    1.82390916687909736289e3,
    9.75708501743205489753e2,
    3.54937778887819891062e2,
    8.67072140885989742329e1,
    1.32281951154744992508e1,
    1.0,
)

Fp64 = Any
"""An FP64 array of NumPy or torch. In both libraries, each of the operators + - * / rounds once."""


class Namespace(Protocol):
    """The operations that the sequences need in addition to the operators + - * /."""

    def round_even(self, x: Fp64) -> Fp64:
        """Round to the nearest integer, ties to even."""

    def where(self, condition: Any, x: Any, y: Any) -> Fp64:
        """Return ``x`` for the elements where the condition is true, and ``y`` for all other elements."""

    def clamp(self, x: Fp64, low: float, high: float) -> Fp64:
        """Return x limited to [low, high]. NaN remains NaN."""

    def absolute(self, x: Fp64) -> Fp64:
        """Return x without its sign."""

    def power_of_two(self, k: Fp64) -> Fp64:
        """Return 2^k, composed from bits, for integers k in -1022..1023. If k is NaN, any result is accepted."""

    def split(self, x: Fp64) -> tuple[Fp64, Fp64]:
        """Return (k, m) with x = m x 2^k and 1 <= m < 2, taken from the bits. ``x`` is normal and positive."""


def horner(x: Fp64, coefficients: Sequence[float]) -> Fp64:
    """Return the value of a polynomial at x by Horner's rule. ``coefficients`` begin with the constant term."""
    result = x * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        result = result * x + coefficient
    return result


def exp(ns: Namespace, x: Fp64) -> Fp64:
    """Return e^x in FP64.

    ``x`` is clamped to [-200, 200], since outside this range the FP32 result is 0 or infinity.
    """
    x = ns.clamp(x, -200.0, 200.0)
    k = ns.round_even(x * INVERSE_LN2)
    high = x - k * LN2_HIGH
    low = k * LN2_LOW
    r = high - low
    t = r * r
    c = r - t * horner(t, EXP)
    return (((r * c) / (2.0 - c) - low) + high + 1.0) * ns.power_of_two(k)


def log(ns: Namespace, x: Fp64) -> Fp64:
    """Return ln x in FP64 for an FP32 number x. It is -inf for 0, NaN for negative numbers, and inf for inf."""
    k, m = ns.split(x)
    upper = m > SQRT2
    m = ns.where(upper, m * 0.5, m)
    k = ns.where(upper, k + 1.0, k)
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    w = z * z
    r = w * horner(w, LOG_EVEN) + z * horner(w, LOG_ODD)
    half = f * f * 0.5
    result = k * LN2_HIGH - ((half - (s * (half + r) + k * LN2_LOW)) - f)
    result = ns.where(x > 0.0, result, float("nan"))
    result = ns.where(x == 0.0, float("-inf"), result)
    return ns.where(x == float("inf"), float("inf"), result)


def tanh(ns: Namespace, x: Fp64) -> Fp64:
    """Return tanh x in FP64.

    It is (1 - e^-2|x|) / (1 + e^-2|x|) with the sign of x; near 0, two terms of the series are used.
    """
    a = ns.absolute(x)
    e = exp(ns, a * -2.0)
    quotient = (1.0 - e) / (e + 1.0)
    series = a - a * a * a * (1.0 / 3.0)
    result = ns.where(a < 2.0**-12, series, quotient)
    return ns.where(x < 0.0, -result, result)


def erf(ns: Namespace, x: Fp64) -> Fp64:
    """Return erf x in FP64.

    It is a quotient of polynomials for |x| up to 1, then 1 - e^(-x^2) P(x) / Q(x) for |x| up to 6.
    """
    x = ns.clamp(x, -6.0, 6.0)
    a = ns.absolute(x)
    z = x * x
    inner = x * horner(z, ERF_T) / horner(z, ERF_U)
    tail = 1.0 - exp(ns, -z) * horner(a, ERFC_P) / horner(a, ERFC_Q)
    outer = ns.where(x < 0.0, -tail, tail)
    return ns.where(a <= 1.0, inner, outer)
