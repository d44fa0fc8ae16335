"""The text of a kernel that computes a chain of elementwise nodes, in the language of Triton.

Made of a checked chain alone: names are made here, and numbers are integers, FP64 ones by their bits, for Triton would
take a decimal for FP32. Each operation is one that rounds once, so what compiles the text must fuse none; division and
square root are those that IEEE 754 rounds. The functions write themselves: :mod:`pol.ops.functions` is called with
values that note what is done to them.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

from pol.executor.chained_loop import ChainStep, ElementwiseChain
from pol.ops import functions
from pol.values import Shape, TensorType

BLOCK = 512
"""Elements that one program of the kernel computes."""
NAME = "chain"
"""Of the function in the text."""
POINTERS: Mapping[str, str] = MappingProxyType({"f32": "*fp32", "i64": "*i64", "bool": "*u8"})
"""What Triton calls the memory of each dtype."""
_BIAS, _MANTISSA_BITS = 1023, 52
_ROUNDER = 1.5 * 2.0**52
"""Added to a number of up to 2^51, it leaves the nearest integer, ties to even, in the lowest bits."""


@dataclass(frozen=True, slots=True)
class KernelText:
    """A kernel: its text, and its parameters with their types as Triton has them, in order.

    They are the operands, the results, the number of elements, and ``sizes``: those of the dimensions by which the
    places of operands are found that repeat in some of them.
    """

    text: str
    parameters: Mapping[str, str]
    sizes: tuple[int, ...]

    @property
    def counts(self) -> list[str]:
        """The parameters that are no tensors."""
        return [name for name, kind in self.parameters.items() if not kind.startswith("*")]


class _Lines:
    """The lines of a kernel, each of which gives a new name to one value."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._numbers: dict[int, str] = {}

    def new(self, expression: str) -> str:
        """Return the name of a value that is computed."""
        name = f"t{len(self.done)}"
        self.done.append(f"{name} = {expression}")
        return name

    def number(self, value: float) -> str:
        """Return the name of an FP64 number."""
        (bits,) = struct.unpack("<q", struct.pack("<d", value))
        if bits not in self._numbers:
            self._numbers[bits] = self.new(_wide(f"tl.full((), {bits}, tl.int64)"))
        return self._numbers[bits]


def _wide(bits: str) -> str:
    return f"({bits}).to(tl.float64, bitcast=True)"


class _Value:
    """A value in FP64, or a condition: what is done to it becomes a line, in the order of Python."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, lines: _Lines, name: str) -> None:
        self.lines, self.name = lines, name

    def new(self, expression: str) -> "_Value":
        """Return a value that is computed."""
        return _Value(self.lines, self.lines.new(expression))

    def of(self, other: Any) -> str:
        """Return the name of another value or of a number."""
        return other.name if isinstance(other, _Value) else self.lines.number(float(other))

    def _with(self, sign: str, other: Any) -> "_Value":
        return self.new(f"{self.name} {sign} {self.of(other)}")

    def __add__(self, other: Any) -> "_Value":
        return self._with("+", other)

    def __sub__(self, other: Any) -> "_Value":
        return self._with("-", other)

    def __rsub__(self, other: Any) -> "_Value":
        return self.new(f"{self.of(other)} - {self.name}")

    def __mul__(self, other: Any) -> "_Value":
        return self._with("*", other)

    def __truediv__(self, other: Any) -> "_Value":
        return self._with("/", other)

    def __neg__(self) -> "_Value":
        # Triton's own minus is 0 - x, which is no -0
        return self * -1.0

    def __lt__(self, other: Any) -> "_Value":
        return self._with("<", other)

    def __le__(self, other: Any) -> "_Value":
        return self._with("<=", other)

    def __gt__(self, other: Any) -> "_Value":
        return self._with(">", other)

    def __eq__(self, other: object) -> "_Value":  # type: ignore[override]
        return self._with("==", other)


class _Namespace:
    """What ``pol/ops/functions.py`` needs beside the operators."""

    def round_even(self, x: _Value) -> _Value:
        """Round what is far below 2^51; a zero is +0."""
        return x + _ROUNDER - _ROUNDER

    def where(self, condition: _Value, x: Any, y: Any) -> _Value:
        """Choose element by element."""
        return condition.new(f"tl.where({condition.name}, {condition.of(x)}, {condition.of(y)})")

    def clamp(self, x: _Value, low: float, high: float) -> _Value:
        """Limit to [low, high]; no comparison with NaN holds."""
        return self.where(x < low, low, self.where(x > high, high, x))

    def absolute(self, x: _Value) -> _Value:
        """Clear the sign."""
        return x.new(f"tl.abs({x.name})")

    def power_of_two(self, k: _Value) -> _Value:
        """Make 2^k of bits. NaN becomes no integer, for what a device makes of that is not defined."""
        bits = f"(({(k + _ROUNDER).name}).to(tl.int64, bitcast=True) << {_MANTISSA_BITS})"
        return k.new(_wide(f"{bits} + {_BIAS << _MANTISSA_BITS}"))

    def split(self, x: _Value) -> tuple[_Value, _Value]:
        """Return exponent and mantissa."""
        bits = x.new(f"{x.name}.to(tl.int64, bitcast=True)").name
        exponent = x.new(f"(({bits} >> {_MANTISSA_BITS}) - {_BIAS}).to(tl.float64)")
        unit = _BIAS << _MANTISSA_BITS
        return exponent, x.new(_wide(f"({bits} & {2**_MANTISSA_BITS - 1}) | {unit}"))


_NAMESPACE = _Namespace()
_FUNCTIONS: Mapping[str, Callable[[functions.Namespace, Any], Any]] = MappingProxyType(
    {"exp": functions.exp, "log": functions.log, "tanh": functions.tanh, "erf": functions.erf}
)
_SAME: Mapping[str, str] = MappingProxyType(
    {
        "add": "{0} + {1}",
        "sub": "{0} - {1}",
        "mul": "{0} * {1}",
        "div": "tl.div_rn({0}, {1})",
        "sqrt": "tl.sqrt_rn({0})",
        "logical_and": "{0} & {1}",
        "logical_or": "{0} | {1}",
        "where": "tl.where({0}, {1}, {2})",
    }
)
"""What is the same for all dtypes that it takes."""
_COMPARED: Mapping[str, str] = MappingProxyType({"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="})
_BY_DTYPE: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        # Of a NaN and a number the NaN, and of two zeros +0.
        ("maximum", "f32"): "tl.where(({0} > {1}) | ({0} != {0}), {0}, {1}) + 0.0",
        ("minimum", "f32"): "tl.where(({0} < {1}) | ({0} != {0}), {0}, {1}) + 0.0",
        ("maximum", "i64"): "tl.where({0} > {1}, {0}, {1})",
        ("minimum", "i64"): "tl.where({0} < {1}, {0}, {1})",
        ("neg", "f32"): "{0} * -1.0",
        ("neg", "i64"): "0 - {0}",
        ("abs", "f32"): "tl.abs({0})",
        ("abs", "i64"): "tl.where({0} < 0, 0 - {0}, {0})",
    }
)
"""By the dtype of the operands."""
_TYPES: Mapping[str, str] = MappingProxyType({"f32": "tl.float32", "i64": "tl.int64"})


def _computed(lines: _Lines, step: ChainStep, names: Sequence[str], dtypes: Sequence[str]) -> str:
    """Write one node, and return the name of its result."""
    if step.op in _FUNCTIONS:
        wide = _Value(lines, lines.new(f"{names[0]}.to(tl.float64)"))
        return lines.new(f"{_FUNCTIONS[step.op](_NAMESPACE, wide).name}.to(tl.float32)")
    if step.op in _COMPARED:
        # a truth is -1 for a comparison, but for one with more bits
        by = ".to(tl.int32)" if dtypes[0] == "bool" else ""
        return lines.new(f"{names[0]}{by} {_COMPARED[step.op]} {names[1]}{by}")
    if step.op == "logical_not":
        return lines.new(f"{names[0]}.to(tl.int32) == 0")
    if step.op == "floor_divide":
        return _divided(lines, *names)
    if step.op == "cast":
        return _cast(lines, names[0], dtypes[0], step.dtype)
    form = _SAME.get(step.op) or _BY_DTYPE[step.op, dtypes[0]]
    return lines.new(form.format(*names))


def _divided(lines: _Lines, a: str, b: str) -> str:
    """Round a quotient down; what a processor may stop at is not divided."""
    by = lines.new(f"tl.where(({b} == 0) | ({b} == -1), 1, {b})")
    quotient = lines.new(f"{a} // {by}")
    rest = lines.new(f"{a} - {quotient} * {by}")
    # the division is toward zero
    is_above = lines.new(f"({rest} != 0) & (({rest} < 0) != ({by} < 0))")
    down = lines.new(f"{quotient} - {is_above}.to(tl.int64)")
    return lines.new(f"tl.where({b} == 0, 0, tl.where({b} == -1, 0 - {a}, {down}))")


def _cast(lines: _Lines, name: str, source: str, target: str) -> str:
    if source == target:
        return name
    if target == "bool":
        return lines.new(f"{name} != 0")
    if (source, target) == ("f32", "i64"):
        name = lines.new(f"tl.where(tl.abs({name}) < {2.0**63}, {name}, 0.0)")
    return lines.new(f"{name}.to({_TYPES[target]})")


def _merged(shape: Shape, operands: Sequence[Shape]) -> tuple[list[int], list[list[bool]]]:
    """Return the dimensions, merged where all operands go through them alike, and which of them each operand has."""
    rank = len(shape)
    padded = [(1,) * (rank - len(operand)) + operand for operand in operands]
    sizes: list[int] = []
    patterns: list[tuple[bool, ...]] = []
    for size, *own in zip(shape, *padded, strict=True):
        pattern = tuple(other != 1 for other in own)
        if size == 1:
            continue
        if patterns and patterns[-1] == pattern:
            sizes[-1] *= size
        else:
            sizes.append(size)
            patterns.append(pattern)
    return sizes, [[pattern[index] for pattern in patterns] for index in range(len(operands))]


class _Places:
    """Where the elements of operands are."""

    def __init__(self, lines: _Lines, chain: ElementwiseChain) -> None:
        self._lines = lines
        self.sizes, self._has = _merged(chain.shape, [value.shape for value in chain.operands])
        self._along: list[str] = []
        if not any(any(own) and not all(own) for own in self._has):
            self.sizes = []

    def _coordinates(self) -> list[str]:
        """Write the place along each dimension, once."""
        rest = "i"
        for index in range(len(self.sizes) - 1, 0, -1):
            self._along.insert(0, self._lines.new(f"{rest} % s{index}"))
            rest = self._lines.new(f"{rest} // s{index}")
        self._along.insert(0, rest)
        return self._along

    def read(self, number: int, value: TensorType) -> str:
        """Write how an operand is read, and return its name."""
        has, lines = self._has[number], self._lines
        if not any(has):
            read = f"tl.broadcast_to(tl.load(a{number}), ({BLOCK},))"
        else:
            place = "i"
            if not all(has):
                along = self._along or self._coordinates()
                place = ""
                for index in (index for index, is_own in enumerate(has) if is_own):
                    place = f"({place}) * s{index} + {along[index]}" if place else along[index]
            read = f"tl.load(a{number} + ({place}), mask=m, other=0)"
        return lines.new(f"{read} != 0" if value.dtype == "bool" else read)


def write_kernel(chain: ElementwiseChain) -> KernelText:
    """Return the text of a chain's kernel; chains that differ in sizes alone have the same."""
    lines = _Lines()
    lines.done += [
        f"i = tl.program_id(0) * {BLOCK} + tl.arange(0, {BLOCK})",
        "m = i < n",
    ]
    places = _Places(lines, chain)
    names = [places.read(number, value) for number, value in enumerate(chain.operands)]
    dtypes = [value.dtype for value in chain.operands]
    for step in chain.steps:
        args = [names[arg] for arg in step.args], [dtypes[arg] for arg in step.args]
        names.append(_computed(lines, step, *args))
        dtypes.append(step.dtype)
    for number, result in enumerate(chain.results, len(chain.operands)):
        value, kind = names[len(chain.operands) + result], chain.steps[result].dtype
        kept = f"{value}.to(tl.uint8)" if kind == "bool" else value
        lines.done.append(f"tl.store(a{number} + i, {kept}, mask=m)")
    kinds = [
        *dtypes[: len(chain.operands)],
        *(chain.steps[result].dtype for result in chain.results),
    ]
    parameters = {f"a{number}": POINTERS[kind] for number, kind in enumerate(kinds)}
    # the first dimension is what is left of the others
    counts = ["n", *(f"s{index}" for index in range(1, len(places.sizes)))]
    parameters |= dict.fromkeys(counts, "i32")
    body = "".join(f"    {line}\n" for line in lines.done)
    text = f"def {NAME}({', '.join(parameters)}):\n{body}"
    return KernelText(text, parameters, (prod(chain.shape), *places.sizes[1:]))
