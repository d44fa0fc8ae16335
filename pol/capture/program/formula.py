"""Formulas over values of a program, written with Python operators; each operator is one operation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

from pol.capture.program.emitter import Emitter

Operand = Union["Expression", float]


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A value of a program. A number that is combined with this value is first rounded to its dtype."""

    emitter: Emitter
    handle: int

    @property
    def dtype(self) -> str:
        """Dtype of the value."""
        return self.emitter.type(self.handle).dtype

    def number(self, number: float, dtype: str = "") -> "Expression":
        """Return ``number`` as a constant of ``dtype`` or, if that is empty, of this value's dtype."""
        return Expression(self.emitter, self.emitter.scalar(number, dtype or self.dtype))

    def _of(self, op: str, *operands: Operand) -> "Expression":
        handles = [o.handle if isinstance(o, Expression) else self.number(o).handle for o in operands]
        return Expression(self.emitter, self.emitter.emit(op, *handles))

    def __add__(self, other: Operand) -> "Expression":
        return self._of("add", self, other)

    def __sub__(self, other: Operand) -> "Expression":
        return self._of("sub", self, other)

    def __rsub__(self, other: float) -> "Expression":
        return self._of("sub", other, self)

    def __mul__(self, other: Operand) -> "Expression":
        return self._of("mul", self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Operand) -> "Expression":
        return self._of("div", self, other)

    def __rtruediv__(self, other: float) -> "Expression":
        return self._of("div", other, self)

    def __neg__(self) -> "Expression":
        return self._of("neg", self)

    def __abs__(self) -> "Expression":
        return self._of("abs", self)

    def __lt__(self, other: Operand) -> "Expression":
        return self._of("lt", self, other)

    def __le__(self, other: Operand) -> "Expression":
        return self._of("le", self, other)

    def __gt__(self, other: Operand) -> "Expression":
        return self._of("gt", self, other)

    def __ge__(self, other: Operand) -> "Expression":
        return self._of("ge", self, other)

    def __and__(self, other: "Expression") -> "Expression":
        return self._of("logical_and", self, other)

    def __or__(self, other: "Expression") -> "Expression":
        return self._of("logical_or", self, other)

    def __invert__(self) -> "Expression":
        return self._of("logical_not", self)

    def is_equal(self, other: Operand) -> "Expression":
        """Return the bool value that is true where the two values are equal."""
        return self._of("eq", self, other)

    def is_other(self, other: Operand) -> "Expression":
        """Return the bool value that is true where the two values differ; NaN differs from itself."""
        return self._of("ne", self, other)

    def floor_divide(self, other: Operand) -> "Expression":
        """Return the quotient of integers, rounded down."""
        return self._of("floor_divide", self, other)

    def maximum(self, other: Operand) -> "Expression":
        """Return the larger of the two values, element by element."""
        return self._of("maximum", self, other)

    def minimum(self, other: Operand) -> "Expression":
        """Return the smaller of the two values, element by element."""
        return self._of("minimum", self, other)

    def function(self, op: str) -> "Expression":
        """Apply a primitive with one operand: ``sqrt``, ``exp``, ``log``, ``tanh`` or ``erf``."""
        return self._of(op, self)

    def cast(self, dtype: str) -> "Expression":
        """Return this value in another dtype."""
        return Expression(self.emitter, self.emitter.cast(self.handle, dtype))

    def where(self, left: Operand, right: Operand) -> "Expression":
        """Return ``left`` where this value is true, and ``right`` elsewhere; at least one of them is an Expression."""
        typed = left if isinstance(left, Expression) else right
        assert isinstance(typed, Expression)
        both = [o if isinstance(o, Expression) else typed.number(o) for o in (left, right)]
        return self._of("where", self, *both)

    def polynomial(self, coefficients: Sequence[float]) -> "Expression":
        """Return the polynomial with these coefficients, constant term first, by Horner's rule."""
        result = self * coefficients[-1] + coefficients[-2]
        for coefficient in coefficients[-3::-1]:
            result = result * self + coefficient
        return result
