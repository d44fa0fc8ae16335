"""Loops in pieces: random bodies that keep rows apart, and bodies that do not, on virtual machines."""

from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import assay
from pol.capture.build import build
from pol.executor.native_backend import NativeBackend
from pol.job.program import Program, ProgramBuilder
from pol.native.library import load_library
from pol.split.costs import cost_of
from pol.split.plan import Plan, Run, make_plan
from pol.split.turns import Section, Turns
from pol.state.arrays import Array
from tests.property.test_plans import inputs_of, machines, outcome

SHAPES = [(1, 2), (1, 4), (2, 1), (2, 2)]
WIDTH = 3
ONE, ZERO = np.float32(1).tobytes(), np.float32(0).tobytes()


def random_body(rng: np.random.Generator, rows: int, stacks: int) -> Program:
    """A recurrence whose rows are apart: products with weights, elementwise nodes, sums of a row, constants."""
    body = ProgramBuilder()
    carried = [body.input(f"carry.{number}", "f32", (rows, WIDTH)) for number in range(2)]
    part = body.input("sequence.0", "f32", (rows, WIDTH))
    weight = body.input("constant.0", "f32", (WIDTH, WIDTH))
    bias = body.input("constant.1", "f32", (WIDTH,))
    one = body.constant("f32", (), ONE)
    full = body.node("broadcast", body.constant("f32", (1, WIDTH), ONE * WIDTH), shape=(rows, WIDTH))
    values = [*carried, part, full]
    for _ in range(int(rng.integers(2, 9))):
        x, y = (int(value) for value in rng.choice(values, 2))
        kind = rng.integers(0, 8)
        if kind == 0:
            made = body.node("matmul", x, weight, bits=int(rng.choice([8, 15, 22])))
        elif kind == 1:
            made = body.node("add", x, bias)
        elif kind == 2:
            total = body.node("sum", x, dims=(1,), keepdim=True)
            made = body.node("add", y, total)
        elif kind == 3:
            flat = body.node("reshape", x, shape=(rows * WIDTH,))
            made = body.node("reshape", body.node("mul", flat, one), shape=(rows, WIDTH))
        elif kind == 4:
            wide = body.node("concat", x, y, dim=1)
            made = body.node("slice", wide, starts=(0, 1), stops=(rows, 1 + WIDTH), steps=(1, 1))
        elif kind == 5:
            turned = body.node("permute", x, dims=(1, 0))
            made = body.node("permute", body.node("tanh", turned), dims=(1, 0))
        else:
            made = body.node(str(rng.choice(["mul", "sub", "maximum"])), x, y)
        values.append(made)
    for number in range(2):
        body.output(f"carry.{number}", values[-1 - number])
    for number in range(stacks):
        body.output(f"stacked.{number}", int(rng.choice(values)))
    return body.build()


def recurrent_step(rng: np.random.Generator, rows: int, turns: int) -> Program:
    """A loop over a batch, the gradient of a weight with one product for all turns, and sums over rows and turns."""
    builder, stacks = ProgramBuilder(), int(rng.integers(1, 3))
    weight = builder.input("global.w", "f32", (WIDTH, WIDTH))
    bias = builder.input("global.b", "f32", (WIDTH,))
    x = builder.input("batch.x", "f32", (rows, turns, WIDTH))
    first = builder.input("batch.first", "f32", (rows, WIDTH))
    zero = builder.node("broadcast", builder.constant("f32", (), ZERO), shape=(rows, WIDTH))
    sequence = builder.node("permute", x, dims=(1, 0, 2))
    flat = builder.node("reshape", sequence, shape=(turns * rows, WIDTH))
    moved = builder.node("matmul", flat, weight, bits=15)
    parts = builder.node("reshape", moved, shape=(turns, rows, WIDTH))
    body = random_body(rng, rows, stacks)
    args = [first, zero, parts, weight, bias][: len(body.inputs)]
    found = builder.node("repeat", *args, body=body, count=turns, reverse=bool(rng.random() < 0.5))
    begin, size = 2 * rows * WIDTH, turns * rows * WIDTH
    carried = builder.node("slice", found, starts=(0,), stops=(rows * WIDTH,), steps=(1,))
    ended = builder.node("reshape", carried, shape=(rows, WIDTH))
    builder.output("metric.ended", builder.node("sum", ended, dims=(0, 1), keepdim=False))
    for number in range(stacks):
        own = begin + number * size
        stack = builder.node("slice", found, starts=(own,), stops=(own + size,), steps=(1,))
        if number == 0:
            rows_first = builder.node("reshape", stack, shape=(turns * rows, WIDTH))
            turned = builder.node("permute", rows_first, dims=(1, 0))
            change = builder.node("matmul", turned, flat, bits=int(rng.choice([15, 22])))
            builder.output("global.w", builder.node("sub", weight, change))
        shaped = builder.node("reshape", stack, shape=(turns, rows, WIDTH))
        builder.output(f"metric.{number}", builder.node("sum", shaped, dims=(0, 1), keepdim=False))
    return builder.build()


def values_for(rng: np.random.Generator, program: Program) -> dict[str, Array]:
    """Random elements, and NaN or infinity in one row, so that one machine alone has them."""
    made = {}
    for spec in program.inputs:
        if spec.dtype == "i64":
            made[spec.name] = np.array(5)
            continue
        value = (rng.standard_normal(spec.shape) * 2.0 ** rng.integers(-3, 3)).astype(np.float32)
        if spec.name.startswith("batch.") and rng.random() < 0.3:
            value[int(rng.integers(0, spec.shape[0]))] = rng.choice(np.array([np.nan, np.inf, 2.0**-149], np.float32))
        made[spec.name] = value
    return made


def loops(plan: Plan, kind: type) -> int:
    return sum(isinstance(action, Run) and isinstance(action.cut, kind) for action in plan.actions)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, turns = int(rng.integers(4, 11)), int(rng.integers(1, 6))
    program = recurrent_step(rng, rows, turns)
    inputs = values_for(rng, program)
    expected = outcome(program, inputs, None)
    library = load_library()
    for stages, divided in SHAPES:
        plan = make_plan(program, machines(stages * divided), stages, divided)
        assert outcome(program, inputs, plan) == expected, (stages, divided)
        if divided > 1:
            assert loops(plan, Turns) == 1
        if library is not None and divided == 2:
            assert outcome(program, inputs, plan, NativeBackend(library, 1, bounded=False)) == expected


def combining(kind: str, rows: int = 6) -> Program:
    """A loop that combines rows in each turn in one way, or whose result cannot be divided."""
    builder, body = ProgramBuilder(), ProgramBuilder()
    state = body.input("carry.0", "f32", (rows, WIDTH))
    part = body.input("sequence.0", "f32", (rows, WIDTH))
    if kind == "sum":
        total = body.node("sum", part, dims=(0,), keepdim=True)
        made = body.node("add", state, total)
    elif kind == "product":
        turned = body.node("permute", part, dims=(1, 0))
        both = body.node("matmul", turned, state, bits=15)
        made = body.node("matmul", part, both, bits=15)
    elif kind == "moved":
        # The rows of a turn go to other rows in the next one.
        numbers = body.node("argsort", body.node("sum", part, dims=(1,), keepdim=False), dim=0)
        made = body.node("take", state, numbers)
    elif kind == "drawn":
        # A random number depends on its place in the whole.
        drawn = body.node("uniform", body.input("constant.0", "i64", ()), shape=(rows, WIDTH), site=3)
        made = body.node("add", state, body.node("mul", part, drawn))
    elif kind == "turned":
        square = body.node("slice", part, starts=(0, 0), stops=(WIDTH, WIDTH), steps=(1, 1))
        rest = body.node("slice", part, starts=(WIDTH, 0), stops=(rows, WIDTH), steps=(1, 1))
        made = body.node("concat", body.node("permute", square, dims=(1, 0)), rest, dim=0)
    else:
        made = body.node("add", state, part)
    body.output("carry.0", made)
    alike = body.node("broadcast", body.constant("f32", (), ONE), shape=(2,))
    body.output("stacked.0", alike if kind == "alike" else made)
    x = builder.input("batch.x", "f32", (rows, 4, WIDTH))
    sequence = builder.node("permute", x, dims=(1, 0, 2))
    zero = builder.node("broadcast", builder.constant("f32", (), ZERO), shape=(rows, WIDTH))
    steps = [builder.input("step", "i64", ())] if kind == "drawn" else []
    found = builder.node("repeat", zero, sequence, *steps, body=body.build(), count=4, reverse=False)
    if kind == "odd":
        found = builder.node("slice", found, starts=(1,), stops=(1 + rows * WIDTH,), steps=(1,))
    builder.output("metric.found", found)
    return builder.build()


@pytest.mark.parametrize("kind", ["sum", "product", "moved", "drawn", "turned", "alike", "odd", "apart"])
@pytest.mark.parametrize("divided", [2, 4])
def test_a_loop_that_combines_rows_stays_whole(kind: str, divided: int) -> None:
    program = combining(kind)
    inputs = values_for(np.random.default_rng(1), program)
    plan = make_plan(program, machines(divided), rows=divided)
    assert outcome(program, inputs, plan) == outcome(program, inputs, None)
    assert loops(plan, Turns) == (kind in ("odd", "alike", "apart"))
    # A part of the result that is not one whole stack is taken from the whole.
    assert loops(plan, Section) == 0


class Recurrent(torch.nn.Module):
    """A layer of LSTM cells, and scores of its last state."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.cells = torch.nn.LSTM(8, 12, batch_first=True)
        self.out = torch.nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.out(self.cells(x)[0][:, -1])
        return found


@cache
def lstm_step() -> Program:
    rows = {"x": np.zeros((64, 9, 8), np.float32), "y": np.arange(64) % 5}
    spec = assay.JobSpec(
        name="recurrent",
        model=Recurrent(),
        loss=assay.cross_entropy(),
        train=rows,
        holdout=rows,
        batch=6,
        steps=2,
        optimizer=assay.SGD(),
        schedule=0.1,
    )
    with TemporaryDirectory() as folder:
        return build(spec, Path(folder) / "job", check=False).document.step


@pytest.mark.parametrize("shape", SHAPES)
def test_a_step_of_an_lstm(shape: tuple[int, int]) -> None:
    program, (stages, rows) = lstm_step(), shape
    plan = make_plan(program, machines(stages * rows), stages, rows)
    inputs = inputs_of(program)
    assert outcome(program, inputs, plan) == outcome(program, inputs, None)
    assert loops(plan, Turns) == (2 if rows > 1 else 0)


def test_stacks_stay_with_their_rows() -> None:
    """No stack of a loop crosses, and each machine has the rows of its own part of the batch."""
    program = lstm_step()
    plan = make_plan(program, machines(2), rows=2)
    kinds = Counter(
        program.nodes[action.offset].op
        for action in plan.actions
        if isinstance(action, Run) and action.cut is not None and not action.cut.has_exchange
    )
    assert kinds["repeat"] == 2
    # The loops' results have 4,680 and 2,736 elements. All that crosses is less than one of them.
    assert cost_of(plan).bytes < 4 * 4_680
    for run in plan.actions:
        if isinstance(run, Run) and isinstance(run.cut, Turns):
            sizes = [plan.node_of(run, machine)[2].elements for machine in run.machines]
            assert sum(sizes) == program.types[program.first_node + run.offset].elements
            assert max(sizes) == min(sizes)
