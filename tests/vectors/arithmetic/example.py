"""An executor of a few primitives after ``docs/arithmetic.md``, in plain Python: nothing of this project is imported.

It reads a case a line and writes an answer a line; where it does not know a primitive, it says so.
"""

import json
import math
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

Place = tuple[int, ...]
Elements = dict[Place, Any]
Tensor = tuple[str, list[int], Elements]
"""Dtype, shape, and elements by their place."""

FORMATS = {"f32": "<f", "i64": "<q", "bool": "<?"}
LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
INVERSE_LN2 = float.fromhex("0x1.71547652b82fep+0")
EXP = (
    float.fromhex("0x1.555555555553ep-3"),
    float.fromhex("-0x1.6c16c16bebd93p-9"),
    float.fromhex("0x1.1566aaf25de2cp-14"),
    float.fromhex("-0x1.bbd41c5d26bf1p-20"),
    float.fromhex("0x1.6376972bea4d0p-25"),
)


def f32(x: float) -> float:
    """Round to FP32; after one operation on FP32 numbers in FP64 that is the operation's own rounding."""
    try:
        (rounded,) = struct.unpack("<f", struct.pack("<f", x))
    except OverflowError:
        return math.copysign(math.inf, x)
    return float(rounded)


def i64(x: int) -> int:
    return (x + 2**63) % 2**64 - 2**63


ROUND: dict[str, Callable[[Any], Any]] = {"f32": f32, "i64": i64}


def exp(x: float) -> float:
    if math.isnan(x):
        return x
    x = min(max(x, -200.0), 200.0)
    k = round(x * INVERSE_LN2)
    high = x - k * LN2_HIGH
    low = k * LN2_LOW
    r = high - low
    t = r * r
    polynomial = t * EXP[4] + EXP[3]
    for coefficient in EXP[2::-1]:
        polynomial = polynomial * t + coefficient
    c = r - t * polynomial
    return (r * c / (2.0 - c) - low + high + 1.0) * math.ldexp(1.0, k)


UNARY: dict[str, Callable[[Any], Any]] = {"neg": lambda a: -a, "abs": abs, "exp": exp}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
}


def places(shape: Sequence[int]) -> Iterator[Place]:
    return product(*(range(size) for size in shape))


def read(value: dict[str, Any]) -> Tensor:
    numbers = struct.iter_unpack(FORMATS[value["dtype"]], bytes.fromhex(value["data"]))
    given = [number for (number,) in numbers]
    elements = {at: given[i % len(given)] for i, at in enumerate(places(value["shape"]))}
    return value["dtype"], value["shape"], elements


def broadcast(value: Tensor, shape: Sequence[int]) -> Elements:
    _, own, elements = value
    first = len(shape) - len(own)
    return {
        at: elements[tuple(0 if n == 1 else i for i, n in zip(at[first:], own, strict=True))] for at in places(shape)
    }


def combined(function: Callable[[Any, Any], Any], left: Tensor, right: Tensor) -> Tensor:
    (dtype, a, _), (_, b, _) = left, right
    rank = max(len(a), len(b))
    pairs = zip([1] * (rank - len(a)) + a, [1] * (rank - len(b)) + b, strict=True)
    shape = [n if m == 1 else m for m, n in pairs]
    x, y = broadcast(left, shape), broadcast(right, shape)
    return dtype, shape, {at: ROUND[dtype](function(x[at], y[at])) for at in places(shape)}


def halving(values: list[Any], dtype: str) -> Any:
    while not values or len(values) & (len(values) - 1):
        values.append(0)
    while len(values) > 1:
        half = len(values) // 2
        values = [ROUND[dtype](x + y) for x, y in zip(values[:half], values[half:], strict=True)]
    return values[0]


def summed(value: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    dtype, shape, elements = value
    result = "f32" if dtype == "f32" else "i64"
    for dim in dims:
        size, shape = shape[dim], [*shape[:dim], 1, *shape[dim + 1 :]]
        elements = {
            at: halving([elements[*at[:dim], i, *at[dim + 1 :]] for i in range(size)], result) for at in places(shape)
        }
    if keepdim:
        return result, shape, elements
    kept = [dim for dim in range(len(shape)) if dim not in dims]
    left = {tuple(at[dim] for dim in kept): number for at, number in elements.items()}
    return result, [shape[dim] for dim in kept], left


def answer(op: str, attrs: dict[str, Any], operands: list[Tensor]) -> Tensor | None:
    if op in BINARY:
        return combined(BINARY[op], *operands)
    if op in UNARY:
        ((dtype, shape, elements),) = operands
        done = {at: ROUND[dtype](UNARY[op](number)) for at, number in elements.items()}
        return dtype, shape, done
    return summed(operands[0], attrs["dims"], attrs["keepdim"]) if op == "sum" else None


for line in sys.stdin:
    case = json.loads(line)
    found = answer(case["op"], case["attrs"], [read(value) for value in case["operands"]])
    if found is None:
        print('{"error": "not_known"}')
        continue
    dtype, shape, elements = found
    data = b"".join(struct.pack(FORMATS[dtype], elements[at]) for at in places(shape))
    print(json.dumps({"result": {"dtype": dtype, "shape": shape, "data": data.hex()}}))
