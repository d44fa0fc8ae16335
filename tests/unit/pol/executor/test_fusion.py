"""Chains of elementwise nodes: the same values as node by node, in an order that works, in the memory declared."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pol.executor.fusion import CHAIN_NODES_MAX, CHAINED, plan
from pol.executor.native_backend import NativeBackend
from pol.job.program import Program, ProgramBuilder
from pol.native.chain import OPS
from pol.native.library import load_library
from pol.ops.elementwise import ELEMENTWISE
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


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_plan_takes_each_node_once_and_none_before_what_it_needs(seed: int) -> None:
    program, _ = shown(np.random.default_rng(seed))
    units = plan(program)
    known = set(range(program.first_node))
    taken: list[int] = []
    gone: set[int] = set()
    for unit in units:
        assert known >= set(unit.sources)
        assert not gone & set(unit.sources)
        inside: set[int] = set()
        for number in unit.nodes:
            node = program.nodes[number - program.first_node]
            assert set(node.args) <= set(unit.sources) | inside
            assert len(unit.nodes) == 1 or node.op in CHAINED
            inside.add(number)
        assert len({program.types[number].shape for number in unit.nodes}) == 1
        taken += unit.nodes
        known |= set(unit.results)
        gone |= set(unit.dead)
    assert sorted(taken) == list(range(program.first_node, len(program.types)))
    assert not gone & set(program.outputs.values())
    others = [
        n for unit in units for n in unit.nodes
        if len(unit.nodes) == 1 and program.nodes[n - program.first_node].op not in CHAINED
    ]  # fmt: skip
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

    (unit,) = plan(build(make))
    assert len(unit.nodes) == 6
    assert len(unit.results) == 2


def test_whatever_reads_from_outside_closes_a_chain() -> None:
    def make(b: ProgramBuilder) -> None:
        x = b.input("global.x", "f32", (4, 4))
        y = b.node("neg", b.node("exp", x))
        total = b.node("sum", y, dims=(0, 1), keepdim=True)
        b.output("global.x", b.node("mul", b.node("abs", y), total))

    assert [len(unit.nodes) for unit in plan(build(make))] == [2, 1, 2]


def test_a_chain_has_an_end() -> None:
    def make(b: ProgramBuilder) -> None:
        x = b.input("global.x", "f32", (4,))
        for _ in range(3 * CHAIN_NODES_MAX):
            x = b.node("neg", x)
        b.output("global.x", x)

    program = build(make)
    assert [len(unit.nodes) for unit in plan(program)] == [CHAIN_NODES_MAX] * 3
    x = floats(4)
    assert bits(native().compile(program, 0).run({"global.x": x})["global.x"]) == bits(x)


def test_memory_that_a_job_has_not_declared_is_not_used() -> None:
    """What a chain reads late lives until then: here twenty large values instead of one at a time."""

    def make(b: ProgramBuilder) -> None:
        x = b.input("global.x", "f32", (64, 64))
        total = x
        for _ in range(20):
            total = b.node("add", total, b.node("matmul", x, x, bits=15))
        b.output("global.x", total)

    program = build(make)
    assert all(len(unit.nodes) == 1 for unit in plan(program))
    inputs = {"global.x": floats(64, 64)}
    assert outcome(native(), program, inputs) == outcome(get("numpy"), program, inputs)


def test_every_elementwise_operation_has_its_place_in_the_kernel() -> None:
    assert set(OPS) == {row.name for row in ELEMENTWISE} == CHAINED


@pytest.mark.parametrize("layout", ["row", "column", "middle", "scalar", "reversed dims"])
def test_operands_of_every_layout(layout: str) -> None:
    shapes = {
        "row": (7,), "column": (5, 600, 1), "middle": (600, 1), "scalar": (), "reversed dims": (5, 1, 7),
    }  # fmt: skip

    def make(b: ProgramBuilder) -> None:
        x = b.input("global.x", "f32", (5, 600, 7))
        y = b.input("global.y", "f32", shapes[layout])
        b.output("global.x", b.node("mul", b.node("add", x, y), b.node("sub", y, x)))

    program = build(make)
    inputs = {"global.x": floats(5, 600, 7), "global.y": floats(*shapes[layout], seed=1)}
    assert outcome(native(), program, inputs) == outcome(get("numpy"), program, inputs)
