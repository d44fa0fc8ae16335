"""Inputs that nobody needs any more give their memory to the outputs of the same name; no bit of these changes."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pol.errors import NotFinite
from pol.executor.fusion import grouped
from pol.executor.interface import Backend, run
from pol.executor.native_backend import NativeBackend
from pol.executor.tape import write_tape
from pol.job.program import Program, ProgramBuilder
from pol.native.library import load_library
from pol.state.arrays import Array
from tests.unit.pol.executor.ops import bits, floats, get

SIDE = 40
"""Some blocks of a chain."""
NAMES = ("global.a", "global.b", "global.c")
UNARY, BINARY = ("neg", "tanh", "abs"), ("add", "sub", "mul", "maximum")


def native(threads: int = 1) -> NativeBackend:
    library = load_library()
    if library is None:
        pytest.skip("no native kernels here")
    return NativeBackend(library, threads, grain=1)


def updates(rng: np.random.Generator) -> Program:
    """Return a program that makes new tensors of old ones, whose values are read in order, turned, and again later."""
    builder = ProgramBuilder()
    values = [builder.input(name, "f32", (SIDE, SIDE)) for name in NAMES]
    for _ in range(int(rng.integers(0, 9))):
        first, second = (values[int(at)] for at in rng.integers(0, len(values), 2))
        kind = rng.integers(0, 7)
        if kind == 0:
            values.append(builder.node("permute", first, dims=[1, 0]))
        elif kind == 1:
            values.append(builder.node("matmul", first, second, bits=15))
        elif kind == 2:
            total = builder.node("sum", first, dims=[1], keepdim=True)
            columns = builder.node("broadcast", total, shape=[SIDE, SIDE])
            values.append(builder.node("add", columns, second))
        elif kind == 6:
            flat = builder.node(str(rng.choice(UNARY)), builder.node("reshape", first, shape=[SIDE * SIDE]))
            values.append(builder.node("reshape", flat, shape=[SIDE, SIDE]))
        elif kind == 3:
            values.append(builder.node(str(rng.choice(UNARY)), first))
        else:
            values.append(builder.node(str(rng.choice(BINARY)), first, second))
    for name in NAMES:
        builder.output(name, values[int(rng.integers(0, len(values)))])
    return builder.build()


def made(executor: Backend, program: Program, inputs: dict[str, Array], donated: bool) -> object:
    try:
        found = run(program, inputs, 7, executor, NAMES if donated else ())
    except NotFinite as error:
        return error.field
    return {name: bits(value) for name, value in found.items()}


@pytest.mark.parametrize("threads", [1, 3])
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_bit_changes(threads: int, seed: int) -> None:
    program = updates(np.random.default_rng(seed))
    inputs = {name: floats(SIDE, SIDE, seed=at) for at, name in enumerate(NAMES)}
    expected = made(get("numpy"), program, inputs, donated=False)
    copies = {name: array.copy() for name, array in inputs.items()}
    assert made(native(threads), program, copies, donated=True) == expected


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_who_reads_on_is_waited_for_before_anything_is_overwritten(seed: int) -> None:
    program = updates(np.random.default_rng(seed))
    inputs = {name: floats(SIDE, SIDE, seed=at) for at, name in enumerate(NAMES)}
    given_away = {name: array.copy() for name, array in inputs.items()}
    seen: list[object] = []

    def release() -> None:
        seen.append({name: bits(array) for name, array in given_away.items()})

    run(program, given_away, 7, native(), NAMES, release)
    is_replaced = bool(write_tape(program, 7, grouped).replacing)
    assert seen == [{name: bits(array) for name, array in inputs.items()}] * is_replaced


def test_what_fails_while_somebody_reads_on_ends_the_run_before_it_writes() -> None:
    builder = ProgramBuilder()
    builder.output(NAMES[0], builder.node("neg", builder.input(NAMES[0], "f32", (SIDE,))))
    array = floats(SIDE)
    before = bits(array)

    def release() -> None:
        raise OSError("no space")

    program, executor = builder.build(), native()
    with pytest.raises(OSError, match="no space"):
        run(program, {NAMES[0]: array}, 7, executor, NAMES, release)
    assert bits(array) == before
    found = run(program, {NAMES[0]: array.copy()}, 7, executor, NAMES)[NAMES[0]]
    assert bits(found) == bits(-array)


def first_row(b: ProgramBuilder, x: int) -> int:
    return b.node("slice", x, starts=[0, 0], stops=[1, SIDE], steps=[1, 1])


Make = Callable[[ProgramBuilder, int, int], tuple[int, int]]


@pytest.mark.parametrize(
    ("make", "replacing"),
    [
        (lambda b, x, y: (b.node("add", x, y), b.node("neg", y)), "ab"),
        (lambda b, x, y: (b.node("neg", x), b.node("add", x, y)), "ab"),
        # each is read for the other one
        (lambda b, x, y: (y, x), "b"),
        (lambda b, x, y: (b.node("permute", x, dims=[1, 0]), b.node("neg", y)), "b"),
        (lambda b, x, y: (b.node("add", b.node("permute", x, dims=[1, 0]), x), y), ""),
        (lambda b, x, y: (b.node("matmul", x, y, bits=15), b.node("abs", y)), "ab"),
        (lambda b, x, y: (b.node("add", x, first_row(b, x)), b.node("abs", y)), "b"),
    ],
    ids=["update", "one chain", "swapped", "turned", "turned in a chain", "product", "a part"],
)
def test_what_is_read_later_is_not_overwritten(make: Make, replacing: str) -> None:
    builder = ProgramBuilder()
    x, y = (builder.input(name, "f32", (SIDE, SIDE)) for name in NAMES[:2])
    for name, value in zip(NAMES, make(builder, x, y), strict=False):
        builder.output(name, value)
    program = builder.build()
    tape = write_tape(program, 7, grouped)
    assert {name[-1] for name in tape.replacing} == set(replacing)


def test_only_memory_that_is_given_away_and_whole_is_written() -> None:
    builder = ProgramBuilder()
    builder.output(NAMES[0], builder.node("neg", builder.input(NAMES[0], "f32", (SIDE,))))
    program, executor = builder.build(), native()
    kept, view, given_away = floats(SIDE), floats(2, SIDE)[0], floats(SIDE)
    given_away.flags.writeable = False
    for array, donated, same in (
        (kept, (), False),
        (view, NAMES, False),
        (given_away, NAMES, True),
    ):
        before = array.copy()
        found = run(program, {NAMES[0]: array}, 7, executor, donated)[NAMES[0]]
        assert (found is array) is same
        assert bits(found) == bits(-before)
        if not same:
            assert bits(array) == bits(before)
