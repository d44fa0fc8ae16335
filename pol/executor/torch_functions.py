"""The functions exp, log, tanh and erf in torch.

They use the same FP64 operations in the same order as ``pol/ops/functions.py``. If there are few elements, a call of
torch costs more time than its computation. To reduce this cost, the functions reuse the memory of values that are no
longer needed, and their constants are tensors. Each function overwrites its operand.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

import torch
from torch import Tensor

from pol.ops import functions

DTYPES: Mapping[str, torch.dtype] = MappingProxyType({"f32": torch.float32, "i64": torch.int64, "bool": torch.bool})
"""Torch's dtype for each dtype of a job."""
_NAN, _INFINITY = float("nan"), float("inf")
_BIAS, _MANTISSA_BITS = 1023, 52


@cache
def number(value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a number as a tensor, which is cached.

    Without the cache, torch would convert the number in each call, which takes longer than a small operation.
    """
    return torch.tensor(value, dtype=dtype, device=device)


class Functions:
    """The functions exp, log, tanh and erf on one device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._zero, self._one, self._two, self._half = map(self._of, (0.0, 1.0, 2.0, 0.5))
        self._inverse, self._high, self._low = map(
            self._of, (functions.INVERSE_LN2, functions.LN2_HIGH, functions.LN2_LOW)
        )
        self._root, self._third, self._doubled = map(self._of, (functions.SQRT2, 1.0 / 3.0, -2.0))
        self._nan, self._infinity = map(self._of, (_NAN, _INFINITY))
        self._near = self._of(2.0**-12)
        self._exp, self._even, self._odd = map(self._all, (functions.EXP, functions.LOG_EVEN, functions.LOG_ODD))
        self._erf = [
            self._all(coefficients)
            for coefficients in (
                functions.ERF_T,
                functions.ERF_U,
                functions.ERFC_P,
                functions.ERFC_Q,
            )
        ]
        self._bias, self._shift, self._mantissa, self._unit = (
            number(value, torch.int64, device)
            for value in (_BIAS, _MANTISSA_BITS, 2**_MANTISSA_BITS - 1, _BIAS << _MANTISSA_BITS)
        )

    def _of(self, value: float) -> Tensor:
        return number(value, torch.float64, self._device)

    def _all(self, values: Sequence[float]) -> list[Tensor]:
        """Return the coefficients of a polynomial as tensors, the highest power first."""
        return [self._of(value) for value in reversed(values)]

    def exp(self, x: Tensor) -> Tensor:
        """Return e^x, as ``functions.exp`` does."""
        x.clamp_(-200.0, 200.0)
        k = torch.mul(x, self._inverse).round_()
        high = x.sub_(k * self._high)
        low = k * self._low
        r = high - low
        t = r * r
        c = r - _horner(t, self._exp).mul_(t)
        sum_ = r.mul_(c).div_(self._two - c).sub_(low).add_(high).add_(self._one)
        return sum_.mul_(self._power_of_two(k))

    def log(self, x: Tensor) -> Tensor:
        """Return ln x, as ``functions.log`` does."""
        bits = x.view(torch.int64)
        exponent = (bits >> self._shift).sub_(self._bias)
        m = (bits & self._mantissa).bitwise_or_(self._unit).view(torch.float64)
        upper = m > self._root
        f = torch.where(upper, m * self._half, m).sub_(self._one)
        k = exponent.add_(upper).double()
        s = f / (f + self._two)
        z = s * s
        w = z * z
        r = _horner(w, self._even).mul_(w).add_(_horner(w, self._odd).mul_(z))
        half = (f * f).mul_(self._half)
        r.add_(half).mul_(s).add_(k * self._low)
        result = k.mul_(self._high).sub_(half.sub_(r).sub_(f))
        result = torch.where(x > self._zero, result, self._nan)
        result.masked_fill_(x == self._zero, -_INFINITY)
        return result.masked_fill_(x == self._infinity, _INFINITY)

    def tanh(self, x: Tensor) -> Tensor:
        """Return tanh x, as ``functions.tanh`` does."""
        a = torch.abs(x)
        e = self.exp(a * self._doubled)
        quotient = (self._one - e).div_(e.add_(self._one))
        series = a - (a * a).mul_(a).mul_(self._third)
        result = torch.where(a < self._near, series, quotient)
        # This copies the sign of x, except that -0 gives +0.
        return result.copysign_(x).add_(self._zero)

    def erf(self, x: Tensor) -> Tensor:
        """Return erf x, as ``functions.erf`` does."""
        upper, lower, p, q = self._erf
        x.clamp_(-6.0, 6.0)
        a, z = torch.abs(x), x * x
        inner = _horner(z, upper).mul_(x).div_(_horner(z, lower))
        is_inner = a <= self._one
        tail = self._one - self.exp(z.neg_()).mul_(_horner(a, p)).div_(_horner(a, q))
        return torch.where(is_inner, inner, tail.copysign_(x))

    def _power_of_two(self, k: Tensor) -> Tensor:
        """Return 2^k, composed from bits, since ``torch.ldexp`` uses pow."""
        bits = k.long().add_(self._bias).bitwise_left_shift_(self._shift)
        return bits.view(torch.float64)


def _horner(x: Tensor, coefficients: Sequence[Tensor]) -> Tensor:
    """Return the value of a polynomial at x. ``coefficients`` begin with the highest power."""
    result = torch.mul(x, coefficients[0]).add_(coefficients[1])
    for coefficient in coefficients[2:]:
        result.mul_(x).add_(coefficient)
    return result
