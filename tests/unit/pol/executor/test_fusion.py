"""Chains of elementwise nodes: the same values as node by node, in an order that works, in the memory declared."""

import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pol.executor.fusion import CHAIN_NODES_MAX, CHAINED, VIEWS, grouped, singly
from pol.executor.native_backend import THREADS, NativeBackend, Taped, cores
from pol.executor.tape import OPS, SINGLE, InstructionKind, write_tape
from pol.job.program import Program, ProgramBuilder
from pol.native.library import load_library
from pol.ops.elementwise import ELEMENTWISE
from pol.ops.table import PRIMITIVES
from pol.state.arrays import NUMPY_DTYPES, Array
from tests.support.programs import outcome, shown
from tests.unit.pol.executor.ops import bits, floats, get

F32 = np.float32


def native() -> NativeBackend:
    library = load_library()
    if library is None:
        pytest.skip("no native kernels here")
    return NativeBackend(library)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_chains_have_the_bits_of_their_nodes(seed: int) -> None:
    program, inputs = shown(np.random.default_rng(seed))
    assert outcome(native(), program, inputs) == outcome(get("numpy"), program, inputs)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_threads_change_no_bit(seed: int) -> None:
    program, inputs = shown(np.random.default_rng(seed))
    crew = NativeBackend(native().library, threads=3, grain=1)
    assert outcome(crew, program, inputs) == outcome(get("numpy"), program, inputs)


@pytest.mark.parametrize("bits", [8, 15, 22])
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_threads_share_a_product(batch: int, bits: int) -> None:
    def make(b: ProgramBuilder) -> None:
        x = b.input("global.x", "f32", (batch, 130, 70))
        y = b.input("global.y", "f32", (batch, 70, 33))
        turned = b.node("permute", b.node("matmul", x, y, bits=bits), dims=[0, 2, 1])
        b.output("global.z", b.node("matmul", turned, x, bits=bits))

    program = build(make)
    inputs = {"global.x": floats(batch, 130, 70), "global.y": floats(batch, 70, 33, seed=1)}
    crew = NativeBackend(native().library, threads=3, grain=1)
    assert outcome(crew, program, inputs) == outcome(get("numpy"), program, inputs)


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    found = np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 1000, shape)
    return found.astype(NUMPY_DTYPES[dtype])


@pytest.mark.parametrize("dtype", ["f32", "i64", "bool"])
@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((37, 1031), [1, 0]),
        ((256, 256), [1, 0]),
        ((3, 17, 2048), [2, 0, 1]),
        ((5, 21, 33, 16), [0, 3, 2, 1]),
        ((3, 30, 1024), [0, 2, 1]),
        # rows of few, many at once
        ((2, 3001), [1, 0]),
        ((3, 700), [1, 0]),
        ((5, 16, 300), [0, 2, 1]),
        # rows too long for as many of them as a line of memory has elements, and for any
        ((20_000, 9), [1, 0]),
        ((150_000, 3), [1, 0]),
    ],
)
def test_rows_across_the_lines_of_memory_are_read_in_their_order(
    shape: tuple[int, ...], dims: list[int], dtype: str
) -> None:
    """In a chain that has more such operands than are put in order some rows at a time, and as the result itself."""

    def make(b: ProgramBuilder) -> None:
        given = [b.input(f"global.x{at}", dtype, shape) for at in range(6)]
        turned = [b.node("permute", value, dims=dims) for value in given]
        total = turned[0]
        for value in turned[1:]:
            total = b.node("logical_and" if dtype == "bool" else "sub", total, value)
        b.output("global.total", total)
        b.output("global.turned", turned[3])
        b.output("global.sum", b.node("sum", turned[1], dims=[len(shape) - 1], keepdim=False))

    program = build(make)
    inputs = {f"global.x{at}": numbers(shape, dtype, at) for at in range(6)}
    expected = outcome(get("numpy"), program, inputs)
    for threads in (1, 3):
        crew = NativeBackend(native().library, threads=threads, grain=1)
        assert outcome(crew, program, inputs) == expected


@pytest.mark.parametrize(("said", "threads"), [("1", 1), ("3", 3), ("0", 0), ("many", 0), ("", 0)])
def test_as_many_threads_as_other_libraries_are_told(monkeypatch: pytest.MonkeyPatch, said: str, threads: int) -> None:
    monkeypatch.setenv(THREADS, said)
    assert cores() == (threads or len(os.sched_getaffinity(0)))
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores() == (threads or os.cpu_count())


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_each_node_is_taken_once_and_none_before_what_it_needs(seed: int) -> None:
    program, _ = shown(np.random.default_rng(seed))
    for groups in (grouped(program), singly(program)):
        known = set(range(program.first_node))
        for group in groups:
            # views are there as soon as what they show is
            for number, node in enumerate(program.nodes, program.first_node):
                if node.op in VIEWS and known.issuperset(node.args):
                    known.add(number)
            for number in group:
                node = program.nodes[number - program.first_node]
                inside = set(group[: group.index(number)])
                assert set(node.args) <= known | inside
                assert node.op in CHAINED or len(group) == 1
            assert len({program.types[number].shape for number in group}) == 1
            known |= set(group)
        taken = [number for group in groups for number in group]
        wanted = [number for number, node in enumerate(program.nodes, program.first_node) if node.op not in VIEWS]
        assert sorted(taken) == wanted
        others = [n for n in taken if program.nodes[n - program.first_node].op not in CHAINED]
        assert others == sorted(others), "nodes that may fail have kept their order"


def build(make: Callable[[ProgramBuilder], None]) -> Program:
    builder = ProgramBuilder()
    make(builder)
    return builder.build()


def test_an_optimizer_is_one_chain() -> None:
    def make(b: ProgramBuilder) -> None:
        w, m, g = (b.input(f"global.{name}", "f32", (64, 3)) for name in "wmg")
        rate = b.input("local.rate", "f32", ())
        m = b.node("add", b.node("mul", m, rate), b.node("mul", g, g))
        b.output("global.m", m)
        b.output("global.w", b.node("sub", w, b.node("div", g, b.node("sqrt", m))))

    (group,) = grouped(build(make))
    assert len(group) == 6


def test_whatever_reads_from_outside_closes_a_chain() -> None:
    def make(b: ProgramBuilder) -> None:
        x = b.input("global.x", "f32", (4, 4))
        y = b.node("neg", b.node("exp", x))
        total = b.node("sum", y, dims=(0, 1), keepdim=True)
        b.output("global.x", b.node("mul", b.node("abs", y), total))

    assert [len(group) for group in grouped(build(make))] == [2, 1, 2]


def test_what_lies_in_another_order_is_not_copied() -> None:
    def make(b: ProgramBuilder) -> None:
        # a value whose channels come first, as convolutions write it, and its sums over all but these
        x = b.node("permute", b.input("global.x", "f32", (3, 2, 4, 5)), dims=[1, 0, 2, 3])
        y = b.node("mul", x, b.node("exp", x))
        b.output("global.sum", b.node("sum", y, dims=[0, 2, 3], keepdim=False))
        b.output("global.y", b.node("neg", b.node("permute", y, dims=[1, 0, 2, 3])))

    program = build(make)
    words = write_tape(program, 7, grouped).words.tolist()
    kinds = []
    at = 0
    while at < len(words):
        kinds.append(words[at])
        at += words[at + 1]
    assert InstructionKind.SUM in kinds
    assert InstructionKind.COPY not in kinds
    inputs = {"global.x": floats(3, 2, 4, 5)}
    assert outcome(native(), program, inputs) == outcome(get("numpy"), program, inputs)


@pytest.mark.parametrize("shown", ["whole", "twice", "itself too", "part", "read", "read in between", "turned"])
def test_an_output_in_another_shape_is_written_by_its_chain(shown: str) -> None:
    """It needs no place of its own, unless the value is also read in another way."""

    def make(b: ProgramBuilder) -> None:
        x = b.input("global.x", "f32", (40, 6))
        y = b.node("sub", b.node("mul", x, x), x)
        flat = b.node("reshape", y, shape=[240])
        same = b.node("slice", flat, starts=[0], stops=[240], steps=[1])
        b.output("global.a", b.node("reshape", same, shape=[60, 4]))
        if shown == "twice":
            b.output("global.b", b.node("reshape", y, shape=[6, 40]))
        elif shown == "itself too":
            b.output("global.b", y)
        elif shown == "part":
            b.output("global.b", b.node("slice", flat, starts=[7], stops=[240], steps=[3]))
        elif shown == "read":
            b.output("global.b", b.node("sum", y, dims=[1], keepdim=False))
        elif shown == "read in between":
            b.output("global.b", b.node("argsort", flat, dim=0))
        elif shown == "turned":
            b.output("global.b", b.node("permute", y, dims=[1, 0]))

    program = build(make)
    inputs = {"global.x": floats(40, 6)}
    assert outcome(native(), program, inputs) == outcome(get("numpy"), program, inputs)
    assert (write_tape(program, 7, grouped).arena == 0) == (shown == "whole")


def test_a_body_writes_what_it_shows_in_another_shape() -> None:
    body = ProgramBuilder()
    h, x = body.input("carry.0", "f32", (6,)), body.input("sequence.0", "f32", (2, 3))
    after = body.node("mul", h, body.node("reshape", x, shape=[6]))
    body.output("carry.0", after)
    body.output("stacked.0", body.node("reshape", body.node("neg", after), shape=[3, 2]))

    def make(b: ProgramBuilder) -> None:
        given = b.input("global.h", "f32", (6,)), b.input("global.x", "f32", (4, 2, 3))
        whole = b.node("repeat", *given, body=body.build(), count=4, reverse=False)
        b.output("global.y", b.node("reshape", whole, shape=[5, 6]))

    program = build(make)
    inputs = {"global.h": floats(6), "global.x": floats(4, 2, 3, seed=1)}
    assert outcome(native(), program, inputs) == outcome(get("numpy"), program, inputs)


def test_a_chain_has_an_end() -> None:
    def make(b: ProgramBuilder) -> None:
        x = b.input("global.x", "f32", (4,))
        for _ in range(3 * CHAIN_NODES_MAX):
            x = b.node("neg", x)
        b.output("global.x", x)

    program = build(make)
    assert [len(group) for group in grouped(program)] == [CHAIN_NODES_MAX] * 3
    x = floats(4)
    assert bits(native().compile(program, 0).run({"global.x": x})["global.x"]) == bits(x)


def test_memory_that_a_job_has_not_declared_is_not_used() -> None:
    """What a chain reads late lives until then: here twenty large values instead of one at a time."""
    size = 512

    def make(b: ProgramBuilder) -> None:
        x = b.input("global.x", "f32", (size, size))
        total = x
        for _ in range(20):
            total = b.node("add", total, b.node("matmul", x, x, bits=15))
        b.output("global.x", total)

    program, executor = build(make), native()
    compiled = executor.compile(program, 7)
    assert isinstance(compiled, Taped)
    both = [write_tape(program, 7, groups).arena for groups in (grouped, singly)]
    assert both[0] > 19 * 4 * size**2 > both[1] == compiled.arena
    inputs = {"global.x": floats(size, size)}
    assert outcome(executor, program, inputs) == outcome(get("numpy"), program, inputs)


def test_every_elementwise_operation_has_its_place_in_the_kernel() -> None:
    assert set(OPS) == {row.name for row in ELEMENTWISE} == CHAINED


def test_no_operation_is_left_to_numpy() -> None:
    """One without a kernel would cost nothing but time, of every program that has it."""
    assert PRIMITIVES.keys() == SINGLE | CHAINED | VIEWS


@pytest.mark.parametrize("layout", ["row", "column", "middle", "scalar", "reversed dims"])
def test_operands_of_every_layout(layout: str) -> None:
    shapes = {
        "row": (7,),
        "column": (5, 600, 1),
        "middle": (600, 1),
        "scalar": (),
        "reversed dims": (5, 1, 7),
    }

    def make(b: ProgramBuilder) -> None:
        x = b.input("global.x", "f32", (5, 600, 7))
        y = b.input("global.y", "f32", shapes[layout])
        b.output("global.x", b.node("mul", b.node("add", x, y), b.node("sub", y, x)))

    program = build(make)
    inputs = {"global.x": floats(5, 600, 7), "global.y": floats(*shapes[layout], seed=1)}
    assert outcome(native(), program, inputs) == outcome(get("numpy"), program, inputs)


def test_a_process_that_was_forked_computes_without_the_threads_of_the_other() -> None:
    """They are not in it: whoever waited for them would wait for ever."""
    native()
    script = """
import os, signal
import numpy as np
from pol.executor.native_backend import NativeBackend
from pol.job.program import ProgramBuilder
from pol.native.library import load_library
builder = ProgramBuilder()
x = builder.input("global.x", "f32", (64, 64))
builder.output("global.x", builder.node("matmul", x, x, bits=15))
program = builder.build()
crew = NativeBackend(load_library(), threads=3, grain=1)
inputs = {"global.x": np.ones((64, 64), np.float32)}
first = crew.compile(program, 1).run(inputs)["global.x"]
child = os.fork()
if child == 0:
    signal.alarm(20)
    again = crew.compile(program, 1).run(inputs)["global.x"]
    os._exit(0 if (again == first).all() else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "0"
