"""Cases of every primitive, with operands at which executors differ; the answers are those of the reference."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.program import ProgramBuilder, program_json
from pol.ops.philox import words
from pol.ops.product import BITS, BLOCK, largest_digit
from pol.state.arrays import Array
from tests.vectors.arithmetic.cases import Case, answer, tensor

_FINITE = (
    "0 -0 1 -1 0.5 1.5 2.5 -2.5 0.33333334 -3.1415927 16777216 8388609 1e-20 1e-40 1e-45 -1e-45 "
    "1.1754944e-38 -1.1754942e-38 9223371487098961920 9223372036854775808 -9223372036854775808 1e20 "
    "3.4028235e38 -3.4028235e38"
)
FLOATS = np.array([float(text) for text in f"{_FINITE} inf -inf nan".split()], np.float32)
"""Zeros of both signs, ties, subnormals and the edge to them, the edge of i64, the largest, what is not finite."""
INTEGERS = np.array([0, 1, -1, 7, -10, 2**31, 2**53 + 1, 2**62, 2**63 - 1, -(2**63)], np.int64)
BOOLS = np.array([False, True])
_EDGES = (
    "88.72283 88.72284 -87.33655 -103.97208 -103.97209 -104 0.34657359 -0.34657359 200 -200 1000 "  # exp
    "0.99999994 1.0000001 1.4142135 1.4142137 0.70710677 2.8284271 "  # log
    "0.00024414062 0.00024414060 -0.00024414062 9.010913 9.1 100 -100 "  # tanh
    "0.99999994 1.0000001 -1.0000001 3.9192059 5.9999995 6 6.0000005 -6 1e-30 -1e-40"  # erf
)
EDGES = np.array([float(text) for text in _EDGES.split()], np.float32)
"""Where the functions take another branch, leave FP32, or stop changing."""

_HARDEST = {
    "exp": "c16912cd bbf0edf1 377eff81 38e69cc1 4001b249 40315b33 4288942b 3fe67199 41cbf87b 4034d02b",
    "log": "1f116ab8 3c413d3a 41178feb 4c5d65a5 4d604ebe 65d890d3 66a8c860 6f31a8ec 38dcbe38 3bf86ef0",
    "tanh": "39b89ba5 39b89b9e 39b89ba0 39b89ba8 3eee0566 3ad058bd 3cd41b91 40acb4d0 3c96ae2e 40c5e8ca",
    "erf": "3940ead6 36aea466 39c0057d 3b25a39d 3f043a75 3f9633a2 3f9ab225 3fa1b2a7 40467275 3fe46451",
}
"""FP32 bits where FP64 comes nearest to a tie of FP32, of all numbers between 2^-20 and 90, or of all for log: whoever
takes another sequence, or takes a branch elsewhere, is most likely seen here."""


def any_bits(count: int, stream: int) -> Array:
    """Return numbers of every size: random bits."""
    return words(9, stream, 0, count).view(np.float32)


def ordinary(count: int, stream: int) -> Array:
    """Return numbers in [-2, 2) with 24 random bits."""
    drawn = (words(9, stream, 1, count) >> 8).astype(np.float32)
    return drawn * np.float32(2.0**-22) - np.float32(2.0)


def spread(count: int, stream: int, most: int) -> Array:
    """Return numbers whose sizes differ by up to 2^(2 x most)."""
    exponents = (words(9, stream, 2, count) % (2 * most + 1)).astype(np.int64) - most
    return np.ldexp(ordinary(count, stream), exponents).astype(np.float32)


def _case(op: str, *operands: Array | dict[str, Any], seed: int | None = None, **attrs: Any) -> Case:
    tensors = [value if isinstance(value, dict) else tensor(value) for value in operands]
    asked: Case = {"op": op, "attrs": attrs, "operands": tensors}
    if seed is not None:
        asked["seed"] = seed
    return {**asked, **answer(backend(Engine("numpy")), asked)}


def _scalar(number: float) -> Array:
    return np.array(number, np.float32)


def _grid(values: Array) -> tuple[Array, Array]:
    """Return two operands that broadcast to all pairs."""
    return values[:, None], values


def _elementwise() -> Iterator[Case]:
    small, short = ordinary(12, 1).reshape(2, 2, 3), ordinary(3, 2)
    for op in ("add", "sub", "mul", "div", "maximum", "minimum"):
        yield _case(op, *_grid(FLOATS))
        yield _case(op, any_bits(48, 3), any_bits(48, 4))
        yield _case(op, ordinary(48, 5), ordinary(48, 6))
        yield _case(op, small[:, :1], short)
        if op != "div":
            yield _case(op, *_grid(INTEGERS))
    yield _case("add", small, _scalar(0.25))
    yield _case("add", np.zeros((2, 0, 3), np.float32), short)
    yield _case("mul", _scalar(-0.0), _scalar(3))
    for op in ("neg", "abs"):
        yield _case(op, FLOATS)
        yield _case(op, INTEGERS)
    yield _case("floor_divide", *_grid(INTEGERS))
    yield _case("floor_divide", *_grid(np.array([0, 1, -1, 2, -2, 3, -3, 7, -7], np.int64)))
    yield _case("sqrt", FLOATS)
    yield _case("sqrt", np.concatenate([any_bits(64, 7), np.abs(ordinary(64, 8))]))
    for op in ("eq", "ne", "lt", "le", "gt", "ge"):
        for values in (FLOATS, INTEGERS, BOOLS):
            yield _case(op, *_grid(values))
    for op in ("logical_and", "logical_or"):
        yield _case(op, *_grid(BOOLS))
    yield _case("logical_not", BOOLS)
    for values in (FLOATS, INTEGERS, BOOLS):
        yield _case("where", BOOLS[:, None], values, values[::-1].copy())
    yield _case("where", BOOLS, _scalar(1), _scalar(np.nan))
    yield from _casts()


def _casts() -> Iterator[Case]:
    near = np.array([0.5, -0.5, 1.9, -1.9, 8388607.5, -8388607.5, 2.0**62, -(2.0**62)], np.float32)
    ties = np.array(
        [2**24 + 1, 2**24 + 3, -(2**24) - 1, 2**53 + 1, 2**62 + 2**38, 2**62 + 2**38 + 1, 2**63 - 2**38],
        np.int64,
    )
    for dtype in ("f32", "i64", "bool"):
        yield _case("cast", np.concatenate([FLOATS, near]), dtype=dtype)
        yield _case("cast", np.concatenate([INTEGERS, ties]), dtype=dtype)
        yield _case("cast", BOOLS, dtype=dtype)


def _functions() -> Iterator[Case]:
    for op in ("exp", "log", "tanh", "erf"):
        yield _case(op, np.concatenate([FLOATS, EDGES]))
        yield _case(op, any_bits(96, 10))
        yield _case(op, np.concatenate([ordinary(64, 11), 4 * ordinary(48, 12), 40 * ordinary(48, 13)]))
        yield _case(op, np.abs(spread(64, 14, 30)))
        hardest = np.array([int(bits, 16) for bits in _HARDEST[op].split()], np.uint32)
        yield _case(op, hardest.view(np.float32))
        yield _case(op, _scalar(0.5))


def _shape() -> Iterator[Case]:
    x = np.concatenate([FLOATS, ordinary(33, 20)]).reshape(3, 4, 5)
    yield _case("reshape", x, shape=[5, 12])
    yield _case("reshape", INTEGERS[:1], shape=[])
    yield _case("reshape", BOOLS[:0], shape=[0, 3])
    yield _case("permute", x, dims=[2, 0, 1])
    yield _case("permute", INTEGERS[:6].reshape(2, 3), dims=[1, 0])
    yield _case("permute", BOOLS.reshape(1, 2, 1), dims=[1, 2, 0])
    yield _case("permute", FLOATS[1].reshape(()), dims=[])
    yield _case("broadcast", x[:, :1, :2].copy(), shape=[2, 3, 2, 2])
    yield _case("broadcast", INTEGERS[-1].reshape(()), shape=[3])
    yield _case("broadcast", BOOLS[:1], shape=[0])
    yield _case("slice", x, starts=[0, 1, 4], stops=[3, 4, 5], steps=[2, 2, 7])
    yield _case("slice", INTEGERS, starts=[1], stops=[10], steps=[4])
    yield _case("slice", BOOLS, starts=[1], stops=[1], steps=[1])
    yield _case("slice", FLOATS[1].reshape(()), starts=[], stops=[], steps=[])
    yield _case("concat", x[:, :1].copy(), x[:, :0].copy(), x[:, 2:].copy(), dim=1)
    yield _case("concat", INTEGERS[:2], INTEGERS[7:], dim=0)
    yield _case("concat", BOOLS, dim=0)
    yield _case("pad", x[:2, :2, :2].copy(), low=[1, 0, 0], high=[0, 0, 2], value="00000080")
    yield _case("pad", INTEGERS[-2:], low=[2], high=[1], value="feffffffffffffff")
    yield _case("pad", BOOLS[:0], low=[1], high=[1], value="01")
    yield _case("pad", FLOATS[1].reshape(()), low=[], high=[], value="0000c03f")
    yield from _taken(x)


def _taken(x: Array) -> Iterator[Case]:
    def index(*rows: int) -> Array:
        return np.array(rows, np.int64)

    yield _case("take", x, index(2, 0, 2, 2).reshape(2, 2))
    yield _case("take", INTEGERS, index(9).reshape(()))
    yield _case("take", BOOLS, index(1, 0, 1))
    yield _case("take", x, index())
    yield _case("take", np.zeros((2, 0), np.float32), index(1, 1))
    for wrong in (-1, 3, 2**32, 2**63 - 1, -(2**63)):
        yield _case("take", x, index(0, wrong))
    yield _case("take", np.zeros((2, 0), np.float32), index(2))


def _reduce() -> Iterator[Case]:
    for count in (1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 33):
        rows = spread(4 * count, 30 + count, 12).reshape(count, 4)
        # a column that is all -0.0 shows what was added to it
        rows[:, 3] = -0.0
        yield _case("sum", rows, dims=[0], keepdim=False)
        yield _case("sum", np.ascontiguousarray(rows.T), dims=[1], keepdim=True)
    cube = spread(105, 45, 12).reshape(5, 7, 3)
    for dims, keepdim in (([0, 2], False), ([0, 1, 2], True), ([1], True), ([], False)):
        yield _case("sum", cube, dims=dims, keepdim=keepdim)
    yield _case("sum", FLOATS[:2], dims=[], keepdim=False)
    yield _case("sum", FLOATS, dims=[0], keepdim=False)
    large = np.array([3e38, 3e38, -3e38, -3e38, 3e38, -3e38, 3e38, -3e38], np.float32)
    yield _case("sum", large.reshape(2, 4), dims=[1], keepdim=False)
    yield _case("sum", large.reshape(4, 2), dims=[0], keepdim=False)
    yield _case("sum", tensor(spread(7, 46, 8), (100_001,)), dims=[0], keepdim=False)
    for dtype in (np.float32, np.int64, np.bool_):
        yield _case("sum", np.zeros((2, 0, 3), dtype), dims=[1], keepdim=False)
    yield _case("sum", INTEGERS, dims=[0], keepdim=False)
    yield _case("sum", np.tile(INTEGERS[-4:], (2, 2)), dims=[0, 1], keepdim=True)
    yield _case("sum", tensor(BOOLS, (3, 301)), dims=[1], keepdim=False)
    yield _case("sum", BOOLS, dims=[], keepdim=False)
    yield from _largest(cube)


def _largest(cube: Array) -> Iterator[Case]:
    zeros = np.array([[0, -0.0, -0.0], [-0.0, -0.0, 0], [-0.0, -0.0, -0.0]], np.float32)
    missing = np.array([[1, np.nan, 3], [np.nan, np.nan, np.nan], [-np.inf, -np.inf, 2]], np.float32)
    equal = np.array([[1, 3, 3], [-np.inf, -np.inf, -np.inf], [5, 5, np.inf]], np.float32)
    for values in (zeros, missing, equal, INTEGERS.reshape(2, 5), np.array([[4, 9, 9]], np.int64)):
        for dim in (0, 1):
            yield _case("amax", values, dims=[dim], keepdim=bool(dim))
            yield _case("argmax", values, dim=dim, keepdim=not dim)
    for dims in ([0, 2], [0, 1, 2], []):
        yield _case("amax", cube, dims=dims, keepdim=False)
    yield _case("amax", zeros, dims=[], keepdim=False)
    yield _case("amax", INTEGERS, dims=[], keepdim=False)
    yield _case("argmax", cube, dim=1, keepdim=False)
    yield _case("amax", np.zeros((0, 2), np.float32), dims=[1], keepdim=False)
    yield _case("argmax", np.zeros((0, 2), np.float32), dim=1, keepdim=False)


def _order() -> Iterator[Case]:
    index = np.array([[2, 0], [2, 2], [4, 0]], np.int64)
    rows = spread(18, 60, 12).reshape(3, 2, 3)
    yield _case("add_rows", index, rows, rows=5)
    yield _case("add_rows", index, rows[..., 0].copy(), rows=6)
    yield _case("add_rows", np.array(1, np.int64), FLOATS, rows=2)
    for count in (7, 64):
        chosen = (words(9, 61, 0, count) % 3).astype(np.int64)
        yield _case("add_rows", chosen, spread(5 * count, 62, 12).reshape(count, 5), rows=3)
        yield _case("add_rows", chosen, spread(count, 63, 12), rows=4)
    yield _case("add_rows", np.zeros(27, np.int64), FLOATS, rows=1)
    # what is added to begins with +0
    yield _case("add_rows", np.zeros(3, np.int64), np.full((3, 2), -0.0, np.float32), rows=2)
    yield _case("add_rows", np.zeros((0, 2), np.int64), np.zeros((0, 2, 3), np.float32), rows=2)
    yield _case("add_rows", index, np.zeros((3, 2, 0), np.float32), rows=5)
    for wrong in (-1, 3, 2**32, 2**63 - 1, -(2**63)):
        yield _case("add_rows", np.array([0, wrong]), np.zeros((2, 2), np.float32), rows=3)
    yield _case("add_rows", np.array([2]), np.zeros((1, 0), np.float32), rows=2)
    yield from _positions()


def _positions() -> Iterator[Case]:
    mixed = np.concatenate([FLOATS, -FLOATS, FLOATS])
    for values in (mixed, np.concatenate([INTEGERS, INTEGERS[::-1]]), any_bits(100, 64)):
        yield _case("argsort", values, dim=0)
    signed = np.array([0xFFC00000, 0x7F800001, 0x80000000, 0, 0xFF800000, 0x7FC00000], np.uint32)
    yield _case("argsort", signed.view(np.float32), dim=0)
    cube = np.round(2 * ordinary(60, 65)).reshape(3, 4, 5)
    for dim in range(3):
        yield _case("argsort", cube, dim=dim)
        yield _case("argsort", cube.astype(np.int64), dim=dim)
    yield _case("argsort", ordinary(301, 66), dim=0)
    yield _case("argsort", (words(9, 67, 0, 301) % 7).astype(np.int64), dim=0)
    yield _case("argsort", np.zeros((2, 0), np.float32), dim=1)
    yield _case("argsort", np.zeros((0, 2), np.int64), dim=1)


def _product() -> Iterator[Case]:
    for bits in BITS:
        yield from _product_of(bits)
    yield _case("matmul", FLOATS[:-3, None], FLOATS[None, :-3], bits=15)
    yield _case("matmul", np.zeros((0, 3), np.float32), np.ones((3, 2), np.float32), bits=15)
    # the first two blocks are an odd number above 2^53, which FP64 has not; in another order all sums are exact
    most = float(largest_digit(22))
    signs = np.repeat(np.array([most, most, -most, -most], np.float32), BLOCK)
    signs[BLOCK] -= 1
    odd = tensor(np.array([most - 1], np.float32), (4 * BLOCK, 1))
    yield _case("matmul", signs[None], odd, bits=22)
    yield from _windows()


def _product_of(bits: int) -> Iterator[Case]:
    small = ordinary(6, 50).reshape(2, 3), ordinary(12, 51).reshape(3, 4)
    yield _case("matmul", *small, bits=bits)
    batch = (spread(30, 52, 20).reshape(2, 1, 3, 5), spread(20, 53, 20).reshape(2, 1, 5, 2))
    yield _case("matmul", *batch, bits=bits)
    most, top = float(largest_digit(bits)), 2.0 ** (bits - 1)
    near = [most + part for part in (0, 0.375, 0.5, 0.625, 1)] + [top - 0.625, top - 0.5]
    half = [most / 2 - 0.125, most / 2, most / 2 + 0.25, 2 * most - 1, 2 * most, 2 * most + 1]
    edges = np.array([*near, *half, 1, -top], np.float32)
    # each row is scaled by its largest element, and the others show how they were rounded
    beside = np.array([0.5, 1.5, 2.5, -0.5, 100.25, 7.75], np.float32)
    rows = np.concatenate([edges[:, None], np.tile(beside, (len(edges), 1))], axis=1)
    columns = np.ascontiguousarray(rows.T)
    yield _case("matmul", rows, np.eye(7, dtype=np.float32), bits=bits)
    yield _case("matmul", np.eye(7, dtype=np.float32), columns, bits=bits)
    yield _case("matmul", rows[:, :2].copy(), columns[:2] * np.float32(2.0**-20), bits=bits)
    mixed = np.array([[1, 2, 3], [np.nan, 0, 0], [np.inf, 1, 0], [0, -0.0, 0], [-1, 1e-45, 2]], np.float32)
    yield _case("matmul", mixed, np.ascontiguousarray(mixed.T), bits=bits)
    outliers = np.array([[1e30, 1, 1e-30], [1e-45, 3e-45, 1e-44], [3e38, 3e38, 3e38]], np.float32)
    yield _case("matmul", outliers, np.ascontiguousarray(outliers.T), bits=bits)
    minus = np.array([[-1, 1], [-1e-30, 1e-45]], np.float32)
    yield _case("matmul", minus, np.ones((2, 3), np.float32), bits=bits)
    for pattern in ([most], [most, -most], [most, 1 - most, 1.0]):
        values = np.array(pattern, np.float32)
        sides = tensor(values, (1, 131_072)), tensor(values, (131_072, 1))
        yield _case("matmul", *sides, bits=bits)
    long = tensor(spread(13, 54, 6), (3, 4_099)), tensor(spread(11, 55, 6), (4_099, 2))
    yield _case("matmul", *long, bits=bits)


def _windows() -> Iterator[Case]:
    x = spread(96, 56, 6).reshape(4, 4, 6)
    form: dict[str, Any] = {"starts": [1, 3], "strides": [1, 2], "counts": [2, 2], "kernel": [2, 3], "steps": [1, -1]}
    hostile = np.where(np.arange(96).reshape(x.shape) % 31 == 7, np.float32(np.nan), x)
    for bits in BITS:
        for value in (x, hostile):
            left = spread(72, 57, 6).reshape(2, 3, 12)
            yield _case("matmul_windows", left, value, bits=bits, transposed=False, **form)
            lines = spread(24, 58, 6).reshape(2, 3, 4)
            yield _case("matmul_windows", lines, value, bits=bits, transposed=True, **form)
    # each window at the same place, and one element that belongs to no window
    still = {**form, "starts": [0, 0], "counts": [1, 3], "strides": [1, 1], "steps": [0, 1]}
    yield _case("matmul_windows", left, hostile, bits=15, transposed=False, **still)
    most = float(largest_digit(22))
    signs = np.repeat(np.array([most, most, -most, -most], np.float32), BLOCK)
    signs[BLOCK] -= 1
    odd = tensor(np.array([most - 1], np.float32), (1, 4 * BLOCK))
    long: dict[str, Any] = {"starts": [0], "strides": [1], "counts": [4 * BLOCK], "kernel": [1], "steps": [1]}
    yield _case("matmul_windows", signs[None, None], odd, bits=22, transposed=True, **long)


def _create() -> Iterator[Case]:
    for size in (0, 1, 5):
        yield _case("iota", size=size)
    yield _case("full", shape=[2, 1], dtype="f32", value="000000c0")
    yield _case("full", shape=[], dtype="f32", value="00000080")
    yield _case("full", shape=[3], dtype="i64", value="feffffffffffffff")
    yield _case("full", shape=[0, 2], dtype="bool", value="01")
    for seed, site, step, shape in (
        (0, 0, 0, [9]),
        (7, 1, 5, [2, 3]),
        (2**63 - 1, 2**31 - 1, 2**63 - 1, [4]),
        (2**32, 3, 2**32 + 1, [1]),
        (1, 2, -1, [5]),
        (1, 2, 3, []),
        (1, 2, 3, [0]),
    ):
        number = np.array(step, np.int64)
        yield _case("uniform", number, seed=seed, site=site, shape=shape)


def _body(make: Callable[[ProgramBuilder], None]) -> dict[str, Any]:
    builder = ProgramBuilder()
    make(builder)
    return program_json(builder.build())


def _recurrence(b: ProgramBuilder) -> None:
    """A state that sees a part of a sequence, and is stacked before and after that."""
    state, part, scale = (
        b.input(name, "f32", shape)
        for name, shape in (("carry.0", (2, 3)), ("sequence.0", (2, 3)), ("constant.0", (3,)))
    )
    after = b.node("tanh", b.node("add", b.node("mul", state, scale), part))
    b.output("carry.0", after)
    b.output("stacked.0", after)
    b.output("stacked.1", state)


def _exchange(b: ProgramBuilder) -> None:
    """Two values, each of which becomes the other one."""
    first, second = b.input("carry.0", "f32", ()), b.input("carry.1", "f32", ())
    b.output("carry.0", second)
    b.output("carry.1", b.node("sub", first, second))


def _of_repeats(b: ProgramBuilder) -> None:
    total, rows = b.input("carry.0", "f32", (3,)), b.input("sequence.0", "f32", (4, 3))

    def inner(c: ProgramBuilder) -> None:
        left, row = c.input("carry.0", "f32", (3,)), c.input("sequence.0", "f32", (3,))
        c.output("carry.0", c.node("add", c.node("mul", left, left), row))

    result = b.node("repeat", total, rows, body=_body(inner), count=4, reverse=False)
    b.output("carry.0", result)
    b.output("stacked.0", b.node("neg", result))


def _row(b: ProgramBuilder) -> None:
    index, table = b.input("sequence.0", "i64", ()), b.input("constant.0", "f32", (3, 2))
    b.output("stacked.0", b.node("take", table, index))


def _repeat() -> Iterator[Case]:
    state, parts, scale = (
        ordinary(6, 31).reshape(2, 3),
        ordinary(24, 32).reshape(4, 2, 3),
        ordinary(3, 33),
    )
    for reverse in (False, True):
        body = _body(_recurrence)
        yield _case("repeat", state, parts, scale, body=body, count=4, reverse=reverse)
    one, other = np.array(1.5, np.float32), np.array(-0.25, np.float32)
    for count in (1, 2, 5):
        yield _case("repeat", one, other, body=_body(_exchange), count=count, reverse=False)
    rows = spread(24, 34, 3).reshape(2, 4, 3)
    yield _case("repeat", ordinary(3, 35), rows, body=_body(_of_repeats), count=2, reverse=True)
    index, table = np.array([0, 2, 3]), ordinary(6, 36).reshape(3, 2)
    yield _case("repeat", index, table, body=_body(_row), count=3, reverse=False)


BUILDERS: Mapping[str, Callable[[], Iterator[Case]]] = {
    "elementwise": _elementwise,
    "functions": _functions,
    "shape": _shape,
    "reduce": _reduce,
    "order": _order,
    "product": _product,
    "create": _create,
    "repeat": _repeat,
}


def build(family: str) -> list[Case]:
    """Return the cases of a family."""
    return list(BUILDERS[family]())
