"""Blocks: what a machine holds in a step stays close to the values that it still needs."""

import gc
import tracemalloc
import weakref
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pol.executor.fusion import VIEWS
from pol.executor.native_backend import NativeBackend
from pol.executor.numpy_backend import NumpyBackend
from pol.job.program import Program, ProgramBuilder
from pol.native.library import load_library
from pol.split import blocks
from pol.split.blocks import entries_of
from pol.split.costs import LIBRARIES_SIZE, cost_of
from pol.split.exchanges import Moves
from pol.split.machine import Machine
from pol.split.member import Member
from pol.split.plan import Plan, Run, Send, make_plan
from pol.split.virtual import VirtualMachines
from pol.state.arrays import Array

SEED = 7
SIDE = 256
SIZE = 4 * SIDE * SIDE
DEPTH = 12


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 2 * SIZE)


def deep_step() -> Program:
    """A network whose activations are all kept until the gradients are computed, and a new state."""
    builder = ProgramBuilder()
    weights = [builder.input(f"global.{layer:02}", "f32", (SIDE, SIDE)) for layer in range(DEPTH)]
    x = builder.input("batch.x", "f32", (SIDE, SIDE))
    inputs = []
    for weight in weights:
        inputs.append(x)
        x = builder.node("tanh", builder.node("matmul", x, weight, bits=15))
    gradient = x
    for layer in reversed(range(DEPTH)):
        turned = builder.node("permute", inputs[layer], dims=(1, 0))
        change = builder.node("matmul", turned, gradient, bits=15)
        back = builder.node("permute", weights[layer], dims=(1, 0))
        gradient = builder.node("matmul", gradient, back, bits=15)
        builder.output(f"global.{layer:02}", builder.node("sub", weights[layer], change))
    return builder.build()


def plan_of(program: Program, machines: int = 1) -> Plan:
    return make_plan(program, [Machine(10**9, 2**33, 10**8)] * machines, machines)


def inputs_of(program: Program) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {spec.name: (0.1 * rng.standard_normal(spec.shape)).astype(np.float32) for spec in program.inputs}


def finished(moves: Moves[dict[str, Array]]) -> dict[str, Array]:
    """The result of a member that needs no other."""
    with pytest.raises(StopIteration) as end:
        next(moves)
    result: dict[str, Array] = end.value.value
    return result


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("machines", [1, 2])
def test_a_block_makes_and_uses_up_few_bytes(machines: int) -> None:
    program = deep_step()
    plan = plan_of(program, machines)
    for machine in range(machines):
        entries = entries_of(plan, machine)
        own = [[run.offset for run in entry] for entry in entries if isinstance(entry, list)]
        found = sorted(offset for block in own for offset in block)
        runs = [a for a in plan.actions if isinstance(a, Run) and machine in a.machines]
        assert found == sorted(run.offset for run in runs)
        assert all(block == sorted(block) for block in own)
        for block in own:
            made = [offset for offset in block if program.nodes[offset].op not in VIEWS]
            assert 1 <= len(made) <= 2
        sends = [a for a in plan.actions if isinstance(a, Send) and machine in (a.source, a.target)]
        assert [entry for entry in entries if isinstance(entry, Send)] == sends


@pytest.mark.usefixtures("small")
def test_a_block_that_only_reads_ends_too() -> None:
    """Sums make few bytes, but what they read for the last time can be freed only after the block."""
    builder = ProgramBuilder()
    sums = []
    for number in range(6):
        read = builder.input(f"batch.{number}", "f32", (SIDE, SIDE))
        sums.append(builder.node("sum", read, dims=(0, 1), keepdim=False))
    for number, value in enumerate(sums):
        builder.output(f"metric.{number}", value)
    assert [len(entry) for entry in entries_of(plan_of(builder.build()), 0) if isinstance(entry, list)] == [2, 2, 2]


@pytest.mark.usefixtures("small")
def test_a_view_is_in_the_block_that_reads_it() -> None:
    """As the result of another block it would be copied."""
    builder = ProgramBuilder()
    x = builder.input("batch.x", "f32", (SIDE, SIDE))
    turned = [builder.node("permute", builder.node("neg", x), dims=(1, 0)) for _ in range(4)]
    for number, view in enumerate(turned):
        builder.output(f"global.{number}", builder.node("tanh", view))
    program = builder.build()
    for block in entries_of(plan_of(program), 0):
        assert isinstance(block, list)
        for run in block:
            number = program.first_node + run.offset
            if program.nodes[run.offset].op in VIEWS:
                assert any(number in program.nodes[reader.offset].args for reader in block)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["numpy", "native"])
def test_a_member_holds_what_the_plan_says(name: str) -> None:
    program = deep_step()
    plan = plan_of(program)
    library = load_library()
    if name == "native" and library is None:
        pytest.skip("no native kernels")
    backend = NumpyBackend() if name == "numpy" or library is None else NativeBackend(library, 1, bounded=False)
    member = Member(plan, 0, SEED, backend)
    expected = NumpyBackend().compile(program, SEED).run(inputs_of(program))
    tracemalloc.start()
    try:
        outputs = finished(member.run(inputs_of(program)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(np.array_equal(outputs[layer], expected[layer]) for layer in expected)
    said = cost_of(plan).machines[0].memory - LIBRARIES_SIZE
    assert peak <= said + 3 * SIZE
    assert peak >= said / 1.3


@pytest.mark.usefixtures("small")
def test_what_a_step_has_used_up_is_freed_before_its_end() -> None:
    """Each old weight is freed before the next one is changed, so the state is never in memory twice."""
    program = deep_step()
    member = Member(plan_of(program), 0, SEED, backend := Watching())

    def watched() -> dict[str, Array]:
        inputs = inputs_of(program)
        backend.watched = {name: weakref.ref(value) for name, value in inputs.items()}
        return inputs

    # Each block looks for dead objects, and what other tests left would take it most of a second.
    gc.freeze()
    try:
        finished(member.run(watched()))
    finally:
        gc.unfreeze()
    assert backend.alive[0] == DEPTH + 1
    assert backend.alive[-1] <= 2
    assert sorted(backend.alive, reverse=True) == backend.alive


class Watching(NumpyBackend):
    """A back end that counts at the beginning of each block which inputs of the step are still in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.watched: dict[str, weakref.ref[Array]] = {}
        self.alive: list[int] = []

    def compile(self, program: Program, seed: int) -> Any:
        compiled = super().compile(program, seed)

        def run(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
            gc.collect()
            self.alive.append(sum(known() is not None for known in self.watched.values()))
            return compiled.run(inputs)

        return SimpleNamespace(run=run)


def test_a_reshape_of_a_received_value_needs_no_value_of_another_machine() -> None:
    """The first machine computes and reshapes, and the second one reshapes what it receives.

    Both reshapes lie in the memory of a value that the second machine never gets.
    """
    builder = ProgramBuilder()
    weights = [builder.input(f"global.{number}", "f32", (6, 6)) for number in range(2)]
    last = builder.input("global.2", "f32", (8, 6))
    x = builder.input("batch.x", "f32", (8, 6))
    root = builder.node("tanh", builder.node("matmul", x, weights[0], bits=15))
    flat = builder.node("reshape", root, shape=(48,))
    crossing = builder.node("reshape", flat, shape=(8, 6))
    product = builder.node("matmul", crossing, weights[1], bits=15)
    turned = builder.node("permute", crossing, dims=(1, 0))
    change = builder.node("matmul", turned, product, bits=15)
    builder.output("global.0", builder.node("mul", weights[0], builder.node("sum", flat, dims=(0,), keepdim=False)))
    builder.output("global.1", builder.node("sub", weights[1], change))
    wide = builder.node("reshape", crossing, shape=(6, 8))
    builder.output("metric.wide", wide)
    turned = builder.node("permute", wide, dims=(1, 0))
    change = builder.node("matmul", turned, builder.node("matmul", wide, last, bits=15), bits=15)
    builder.output("global.2", builder.node("sub", last, change))
    program = builder.build()
    plan = plan_of(program, 2)
    memory = program.memory_of()
    sends = [action for action in plan.actions if isinstance(action, Send)]
    assert [(send.value, memory[send.value], send.source, send.target) for send in sends] == [(crossing, root, 0, 1)]
    assert memory[wide] == root
    assert plan.ends_at["metric.wide"] == 1
    found = VirtualMachines(plan, SEED).run(inputs_of(program))
    expected = NumpyBackend().compile(program, SEED).run(inputs_of(program))
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
