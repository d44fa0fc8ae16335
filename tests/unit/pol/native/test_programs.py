"""Instructions of programs on each instruction set that this processor has, against Python's own integers and order."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pol.executor.fusion import grouped
from pol.executor.native_backend import NativeBackend, Taped
from pol.executor.tape import OPS, InstructionKind, write_tape
from pol.job.program import Program, ProgramBuilder
from pol.native.library import FOLDER, INSTRUCTION_SETS, Library
from pol.state.arrays import Array
from tests.support.programs import outcome
from tests.unit.pol.executor.ops import HOSTILE, NOT_FINITE, SEED, bits, floats, get

BUILT = sorted(path.stem for path in FOLDER.glob("*.so"))
if not BUILT:
    pytest.skip("the set-up found no C compiler: no native kernels", allow_module_level=True)
HAS = Library("portable").processor()
USABLE = [name for name in BUILT if not INSTRUCTION_SETS[name] & ~HAS]
BACK_ENDS = [NativeBackend(Library(name), threads, grain=1) for name, threads in product(USABLE, (1, 3))]
EDGES = [0, 1, -1, 2, -2, 7, -8, 2**31, -(2**31) - 1, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1]
_SHIFT = len(OPS) + 1
"""The operation of a chain that divides by powers of two."""


def build(make: Callable[[ProgramBuilder], None]) -> Program:
    builder = ProgramBuilder()
    make(builder)
    return builder.build()


def run(backend: NativeBackend, program: Program, **inputs: Array) -> Array:
    """The only output, as it is."""
    compiled = backend.compile(program, SEED)
    assert isinstance(compiled, Taped)
    (shown,) = compiled.run({f"global.{name}": array for name, array in inputs.items()}).values()
    return shown


def shifts(program: Program) -> int:
    """Return the number of operations in chains that shift instead of dividing."""
    words = write_tape(program, SEED, grouped).words.tolist()
    at = count = 0
    while at < len(words):
        if words[at] == InstructionKind.CHAIN:
            steps = words[at + 6]
            count += sum(op == _SHIFT for op in words[at + words[at + 1] - 7 * steps : at + words[at + 1] : 7])
        at += words[at + 1]
    return count


def divided(divisors: Array, shape: Sequence[int], show: Callable[[ProgramBuilder, int], int]) -> Program:
    """A program that divides its input by a constant, and by what ``show`` makes of it."""

    def make(b: ProgramBuilder) -> None:
        x = b.input("global.x", "i64", shape)
        constant = b.constant("i64", divisors.shape, divisors.astype("<i8").tobytes())
        b.output("global.y", b.node("floor_divide", x, show(b, constant)))

    return build(make)


def quotients(x: Array, divisors: Array) -> list[int]:
    """The quotients that Python has, rounded down, in 64 bits; 0 where the divisor is."""
    pairs = zip(x.ravel().tolist(), np.broadcast_to(divisors, x.shape).ravel().tolist(), strict=True)
    whole = [a // b if b else 0 for a, b in pairs]
    return [(number + 2**63) % 2**64 - 2**63 for number in whole]


@pytest.mark.parametrize("exponents", [[0], [62], [8], list(range(63)), [3] * 40, [5, 1, 60, 0]])
def test_powers_of_two_divide_as_python_does(exponents: list[int]) -> None:
    random = np.random.default_rng(len(exponents))
    numbers = np.concatenate([np.array(EDGES), random.integers(-(2**63), 2**63 - 1, 700, np.int64)])
    divisors = np.array([1 << exponent for exponent in exponents])
    x = np.repeat(numbers, len(exponents)).reshape(-1, len(exponents))
    program = divided(divisors, x.shape, lambda _, constant: constant)
    assert shifts(program) == 1
    for backend in BACK_ENDS:
        assert run(backend, program, x=x).ravel().tolist() == quotients(x, divisors)


@pytest.mark.parametrize("wrong", [0, 3, -1, -4, -(2**63), 2**63 - 1])
def test_one_other_divisor_divides_them_all(wrong: int) -> None:
    divisors = np.array([1, 16, wrong, 2**62])
    x = np.array(EDGES).reshape(-1, 1).repeat(4, 1)
    program = divided(divisors, x.shape, lambda _, constant: constant)
    assert shifts(program) == 0
    for backend in BACK_ENDS:
        assert run(backend, program, x=x).ravel().tolist() == quotients(x, divisors)


@pytest.mark.parametrize(
    ("shape", "op", "attrs", "shown"),
    [
        ((6, 8), "permute", {"dims": [1, 0]}, lambda x: x.T),
        ((1, 6), "broadcast", {"shape": [8, 6]}, lambda x: np.broadcast_to(x, (8, 6))),
        ((8, 1), "broadcast", {"shape": [8, 6]}, lambda x: np.broadcast_to(x, (8, 6))),
        ((9, 12), "slice", {"starts": [1, 1], "stops": [9, 12], "steps": [1, 2]}, lambda x: x[1:9, 1:12:2]),
        ((48,), "reshape", {"shape": [8, 6]}, lambda x: x.reshape(8, 6)),
    ],
)
def test_divisors_of_any_layout(
    shape: tuple[int, ...], op: str, attrs: dict[str, object], shown: Callable[[Array], Array]
) -> None:
    random = np.random.default_rng(4)
    divisors = 1 << random.integers(0, 63, shape)
    x = random.choice(np.array(EDGES), (8, 6))
    program = divided(divisors, x.shape, lambda b, constant: b.node(op, constant, **attrs))
    assert shifts(program) == 1
    for backend in BACK_ENDS:
        assert run(backend, program, x=x).ravel().tolist() == quotients(x, shown(divisors))


def test_a_divisor_is_also_multiplied() -> None:
    """A remainder needs the divisor itself beside the bits that stand for it."""

    def make(b: ProgramBuilder) -> None:
        x = b.input("global.x", "i64", (len(EDGES), 3))
        powers = b.constant("i64", (3,), np.array([1, 256, 2**40], "<i8").tobytes())
        quotient = b.node("floor_divide", x, powers)
        b.output("global.y", b.node("sub", x, b.node("mul", quotient, powers)))

    program = build(make)
    x = np.array(EDGES).reshape(-1, 1).repeat(3, 1)
    expected = [number % power for number in EDGES for power in (1, 256, 2**40)]
    assert shifts(program) == 1
    for backend in BACK_ENDS:
        assert run(backend, program, x=x).ravel().tolist() == expected


def test_a_computed_divisor_divides() -> None:
    def make(b: ProgramBuilder) -> None:
        x = b.input("global.x", "i64", (5,))
        four = b.node("full", shape=[5], dtype="i64", value=(4).to_bytes(8, "little").hex())
        b.output("global.y", b.node("floor_divide", x, b.node("add", four, x)))

    program = build(make)
    x = np.array([-4, -5, 0, 12, -3])
    assert shifts(program) == 0
    for backend in BACK_ENDS:
        assert run(backend, program, x=x).tolist() == quotients(x, x + 4)


@pytest.mark.parametrize("period", [(2,), (7,), (8,), (511,), (512,), (513,), (3, 170), (16, 1), (40, 13), (1, 30)])
@pytest.mark.parametrize("rows", [1, 3, 300])
def test_operands_that_repeat_themselves(period: tuple[int, ...], rows: int) -> None:
    """In blocks that begin in the middle of them, and in parts that several threads compute."""

    def make(b: ProgramBuilder) -> None:
        x = b.input("global.x", "f32", (rows, *period))
        y = b.input("global.y", "f32", period)
        first = b.input("global.first", "f32", (period[0], *[1] * (len(period) - 1)))
        whole = b.input("global.whole", "i64", period)
        turned = b.input("global.turned", "f32", period[::-1])
        across = b.node("permute", turned, dims=list(range(len(period)))[::-1])
        total = b.node("sub", b.node("mul", b.node("sub", x, y), first), b.node("cast", whole, dtype="f32"))
        b.output("global.total", b.node("add", total, across))
        b.output("global.count", b.node("add", b.node("cast", x, dtype="i64"), whole))

    program = build(make)
    inputs = {
        "global.x": floats(rows, *period),
        "global.y": floats(*period, seed=1),
        "global.first": floats(period[0], *[1] * (len(period) - 1), seed=2),
        "global.whole": np.random.default_rng(3).integers(-9, 9, period),
        "global.turned": floats(*period[::-1], seed=4),
    }
    expected = outcome(get("numpy"), program, inputs)
    for backend in BACK_ENDS:
        assert outcome(backend, program, inputs) == expected


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_short_lines_are_sorted_as_python_sorts(seed: int) -> None:
    random = np.random.default_rng(seed)
    shape, dim = (int(random.integers(1, 4)), int(random.integers(1, 170)), int(random.integers(1, 3))), 1
    edges = np.array([*EDGES, 255, 256])
    choices = (
        random.choice(edges, shape),
        random.integers(-3, 3, shape),
        random.choice(np.concatenate([HOSTILE, NOT_FINITE, -HOSTILE]), shape),
        random.standard_normal(shape).astype(np.float32),
        np.zeros(shape, np.float32),
    )
    x = choices[random.integers(0, len(choices))]
    dtype = "i64" if x.dtype == np.int64 else "f32"
    program = build(lambda b: b.output("global.y", b.node("argsort", b.input("global.x", dtype, shape), dim=dim)))
    for backend in BACK_ENDS:
        places = np.moveaxis(run(backend, program, x=x), dim, -1).reshape(-1, shape[dim])
        lines: list[list[Any]] = np.moveaxis(x, dim, -1).reshape(-1, shape[dim]).tolist()
        for line, order in zip(lines, places.tolist(), strict=True):
            # NaN is behind all numbers, and what is equal keeps its order
            keys = [(True, 0) if number != number else (False, number) for number in line]
            assert order == sorted(range(len(line)), key=keys.__getitem__)


@pytest.mark.parametrize("dtype", ["f32", "i64"])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 8, 10, 16, 17, 31, 32, 33, 63, 64, 65, 100])
def test_the_largest_of_lines(width: int, dtype: str) -> None:
    random = np.random.default_rng(width)
    special = np.concatenate([HOSTILE, NOT_FINITE, -HOSTILE])
    lines = [random.standard_normal((41, width)), random.choice(special, (41, width)), np.full((3, width), -0.0)]
    lone = random.standard_normal((width, width))
    lone[np.arange(width), np.arange(width)] = np.nan
    x = np.concatenate([*lines, lone]).astype(np.float32)
    if dtype == "i64":
        x = random.choice(np.array(EDGES), x.shape)
    operand = tuple(x.shape)
    program = build(
        lambda b: b.output("global.y", b.node("amax", b.input("global.x", dtype, operand), dims=[1], keepdim=False))
    )
    expected = [np.nan if any(n != n for n in line) else max(line) + 0 for line in x.tolist()]
    for backend in BACK_ENDS:
        assert bits(run(backend, program, x=x)) == bits(np.array(expected, x.dtype))
