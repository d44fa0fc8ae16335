"""Plans on virtual machines: the bits of the whole program, and the bytes that the cost model says."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import assay
from examples import char_gpt
from pol.capture.build import build
from pol.capture.graph.divisible import divisible
from pol.errors import OutOfRange
from pol.executor.interface import Backend
from pol.executor.native_backend import NativeBackend
from pol.executor.numpy_backend import NumpyBackend
from pol.job.load import load_job
from pol.job.program import Program, ProgramBuilder, make_program
from pol.native.library import load_library
from pol.ops.splits import Exchange
from pol.split import blocks
from pol.split.blocks import entries_of
from pol.split.borders import settle
from pol.split.costs import best_plan, cost_of
from pol.split.machine import Machine
from pol.split.plan import Plan, Run, Send, _Planner, make_plan, shapes, sorted_nodes
from pol.split.stages import find_layers
from pol.split.virtual import VirtualMachines
from pol.state.arrays import Array
from tests.support.programs import shown
from tests.unit.pol.executor.ops import bits

SHAPES = [(1, 1), (1, 2), (1, 4), (2, 1), (3, 1), (2, 2)]
SEED = 7


def machines(count: int) -> list[Machine]:
    return [Machine(speed=10**9 + machine, memory=2**33, bandwidth=10**8) for machine in range(count)]


def with_states(program: Program, rng: np.random.Generator) -> Program:
    """The program with outputs that replace some of its inputs, as a step replaces states."""
    outputs = dict(program.outputs)
    for number, spec in enumerate(program.inputs):
        same = [n for n in range(program.first_node, len(program.types)) if program.types[n] == spec.type]
        if same and number:
            outputs[spec.name] = int(rng.choice(same))
    return make_program(program.inputs, program.constants, program.nodes, outputs)


def outcome(program: Program, inputs: Mapping[str, Array], plan: Plan | None, backend: Backend | None = None) -> object:
    """The bits of all outputs, or that a row is out of range; of a plan only if its costs are those counted."""
    try:
        if plan is None:
            found = NumpyBackend().compile(program, SEED).run(inputs)
        else:
            assert {name: plan.ends_at[name] for name in plan.homes} == plan.homes
            virtual = VirtualMachines(plan, SEED, backend=backend)
            found = virtual.run(inputs)
            cost = cost_of(plan)
            assert [own.sent for own in cost.machines] == virtual.links.sent
            assert [own.received for own in cost.machines] == virtual.links.received
            assert cost.messages == virtual.links.messages
    except OutOfRange:
        return "out of range"
    return {name: (bits(value), value.shape, value.dtype) for name, value in found.items()}


@settings(max_examples=25, deadline=None)
@example(321303)  # a part of another division is read after the last part of its own
@given(st.integers(0, 2**32 - 1))
def test_random_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program, inputs = shown(rng)
    program = with_states(program, rng)
    named = [spec.name for spec in program.inputs if spec.shape and spec.shape[0] > 1]
    batch = [name for name in named if rng.random() < 0.6]
    expected = outcome(program, inputs, None)
    for stages, rows in SHAPES:
        plan = make_plan(program, machines(stages * rows), stages, rows, batch)
        block = int(rng.choice([1, 64, blocks.BLOCK_BYTES]))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocks, "BLOCK_BYTES", block)
            assert outcome(program, inputs, plan) == expected, (stages, rows, batch, block)


@settings(max_examples=25, deadline=None)
@example(938822115)  # a sum over a dimension without elements
@given(st.integers(0, 2**32 - 1))
def test_random_programs_made_divisible(seed: int) -> None:
    """The sums of a divisible program have another order, and machines have its bits."""
    rng = np.random.default_rng(seed)
    program, inputs = shown(rng)
    named = [spec.name for spec in program.inputs if spec.shape and spec.shape[0] > 1]
    batch = [name for name in named if rng.random() < 0.6]
    rewritten = divisible(program, batch)
    assert {name: rewritten.types[number] for name, number in rewritten.outputs.items()} == {
        name: program.types[number] for name, number in program.outputs.items()
    }
    expected = outcome(rewritten, inputs, None)
    for stages, rows in SHAPES:
        plan = make_plan(rewritten, machines(stages * rows), stages, rows, batch)
        assert outcome(rewritten, inputs, plan) == expected, (stages, rows, batch)


PARTS = [(2, 2), (2, 3), (3, 2), (3, 4)]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_programs_in_parts(seed: int) -> None:
    """A batch goes through the stages in parts, also one that does not divide, and one with NaN in one part."""
    rng = np.random.default_rng(seed)
    program, inputs = shown(rng)
    program = with_states(program, rng)
    named = [spec.name for spec in program.inputs if spec.shape and spec.shape[0] > 1]
    batch = [name for name in named if rng.random() < 0.6]
    expected = outcome(program, inputs, None)
    for stages, parts in PARTS:
        plan = make_plan(program, machines(stages), stages, batch=batch, parts=parts)
        assert outcome(program, inputs, plan) == expected, (stages, parts, batch)


# A step of the character GPT, with a batch that does not divide and with time steps that are no power of two.


@cache
def gpt_step() -> Program:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(char_gpt, "CONTEXT", 12)
        spec = replace(char_gpt.job(), batch=6, slots=1)
        return build(spec, Path(folder) / "job", check=False).document.step


def inputs_of(program: Program) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    made: dict[str, Array] = {}
    for spec in program.inputs:
        if spec.dtype == "f32":
            made[spec.name] = np.abs(0.1 * rng.standard_normal(spec.shape)).astype(np.float32)
        else:
            made[spec.name] = np.asarray(rng.integers(0, 9, spec.shape))
    return made


@pytest.mark.parametrize("shape", [(1, 2), (1, 4), (3, 1), (2, 2)])
def test_a_step_of_the_gpt(shape: tuple[int, int]) -> None:
    program = gpt_step()
    stages, rows = shape
    plan = make_plan(program, machines(stages * rows), stages, rows)
    inputs = inputs_of(program)
    assert outcome(program, inputs, plan) == outcome(program, inputs, None)
    assert len(plan.stages) == stages


def test_pieces_are_compiled() -> None:
    """No back end runs what is part of an exchange, or depends on its position in the whole. All else is in blocks."""
    program = gpt_step()
    plan = make_plan(program, machines(2), rows=2)
    for machine in range(2):
        runs = [a for a in plan.actions if isinstance(a, Run) and machine in a.machines]
        entries = entries_of(plan, machine)
        alone = [entry for entry in entries if isinstance(entry, Run)]
        together = [run for entry in entries if isinstance(entry, list) for run in entry]
        assert all(run.cut is not None and (run.cut.has_exchange or run.cut.split.local) for run in alone)
        assert len(alone) + len(together) == len(runs)
        assert sum(run.cut is not None for run in together) > 10 * len(alone)


@pytest.mark.parametrize("rows", [2, 4])
def test_pieces_that_depend_on_their_positions(rows: int) -> None:
    """Each machine draws the random numbers of its own rows, and counts from the first of them."""
    builder = ProgramBuilder()
    x = builder.input("batch.x", "f32", (6, 3))
    step = builder.input("step", "i64", ())
    drawn = builder.node("uniform", step, shape=(6, 3), site=5)
    numbers = builder.node("reshape", builder.node("iota", size=6), shape=(6, 1))
    counted = builder.node("mul", x, builder.node("cast", numbers, dtype="f32"))
    builder.output("metric.found", builder.node("mul", counted, drawn))
    program = builder.build()
    inputs = {"batch.x": np.ones((6, 3), np.float32), "step": np.array(3)}
    plan = make_plan(program, machines(rows), rows=rows)
    runs = [action for action in plan.actions if isinstance(action, Run) and action.cut is not None]
    assert {program.nodes[run.offset].op for run in runs} >= {"uniform", "iota", "mul"}
    assert outcome(program, inputs, plan) == outcome(program, inputs, None)


@pytest.mark.skipif(load_library() is None, reason="no native kernels")
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_pieces_on_native_kernels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program, inputs = shown(rng)
    named = [spec.name for spec in program.inputs if spec.shape and spec.shape[0] > 1]
    batch = [name for name in named if rng.random() < 0.6]
    plan = make_plan(program, machines(2), rows=2, batch=batch)
    library = load_library()
    assert library is not None
    native = NativeBackend(library, 1, bounded=False)
    assert outcome(program, inputs, plan, native) == outcome(program, inputs, None)


def test_nodes_that_combine_rows_exchange_partials() -> None:
    """Gradients and the loss; all other nodes are row by row, or after them.

    A step of 12 times has no sum over a batch flattened with the times, because each row is summed first.
    """
    plan = make_plan(gpt_step(), machines(2), rows=2)
    found = Counter(
        run.cut.split.exchange for run in plan.actions if isinstance(run, Run) and run.cut and run.cut.has_exchange
    )
    assert found[Exchange.MAXIMA_THEN_PARTIALS] == 9
    assert found[Exchange.INTEGER_PARTIALS] == 1
    assert found[Exchange.TREE_PARTIALS] == 21
    assert found[Exchange.ROWS_TO_OWNER] == 1


def test_a_stage_keeps_a_layer_with_its_optimizer() -> None:
    """Between stages go activations and their gradients, and no update."""
    plan = make_plan(gpt_step(), machines(2), stages=2)
    for name, home in plan.homes.items():
        if name.startswith("local.") and name.removeprefix("local.").partition(".")[2] in plan.homes:
            assert plan.homes["global." + name.removeprefix("local.").partition(".")[2]] == home
    activation = 6 * 12 * 3 * char_gpt.WIDTH * 4
    cost = cost_of(plan)
    assert cost.bytes < 6 * activation
    assert cost.messages < 16
    assert max(own.work for own in cost.machines) < 0.6 * sum(own.work for own in cost.machines)


def in_program_order(program: Program, stages: int, one: Machine) -> Plan:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Planner, "_order", lambda planner: list(range(len(program.nodes))))
        return make_plan(program, [one] * stages, stages)


def is_weight_gradient(program: Program, offset: int) -> bool:
    """Whether a product leads to no other one: only to norms and to updates."""
    node = program.nodes[offset]
    reached = {program.first_node + offset}
    for number, other in enumerate(program.nodes, program.first_node):
        if reached.intersection(other.args) and program.types[number].elements > 1:
            reached.add(number)
            if other.op == "matmul":
                return False
    return node.op == "matmul"


@pytest.mark.parametrize("stages", [2, 3])
def test_input_gradients_come_before_weight_gradients(stages: int) -> None:
    """A stage sends the last gradient that another stage needs before it computes a gradient of its weights."""
    program = gpt_step()
    plan = make_plan(program, machines(stages), stages)
    for machine in range(1, stages):
        sent = [
            at
            for at, action in enumerate(plan.actions)
            if isinstance(action, Send)
            and (action.source, action.target) == (machine, machine - 1)
            and program.types[action.value].elements > 1
        ]
        weights = [
            at
            for at, action in enumerate(plan.actions)
            if isinstance(action, Run) and machine in action.machines and is_weight_gradient(program, action.offset)
        ]
        assert sent
        assert weights
        assert max(sent) < min(weights)


@pytest.mark.parametrize(("stages", "share"), [(2, 0.95), (3, 0.93), (4, 0.92)])
def test_stages_wait_less_than_in_the_order_of_the_program(stages: int, share: float) -> None:
    one = Machine(speed=10**9, memory=2**33, bandwidth=10**9)
    program = gpt_step()
    before, after = (
        cost_of(plan) for plan in (in_program_order(program, stages, one), make_plan(program, [one] * stages, stages))
    )
    assert after.microseconds < share * before.microseconds
    assert sum(own.waiting for own in after.machines) < sum(own.waiting for own in before.machines)
    assert after.bytes == before.bytes
    assert [own.work for own in after.machines] == [own.work for own in before.machines]


@pytest.mark.parametrize(("stages", "parts"), [(2, 2), (2, 4), (3, 4), (4, 3)])
def test_a_step_of_the_gpt_in_parts(stages: int, parts: int) -> None:
    """A batch of six does not divide by four. Few more bytes cross than with the batch as a whole."""
    program = gpt_step()
    plan = make_plan(program, machines(stages), stages, parts=parts)
    inputs = inputs_of(program)
    assert outcome(program, inputs, plan) == outcome(program, inputs, None)
    assert plan.parts == parts
    cost, whole = cost_of(plan), cost_of(make_plan(program, machines(stages), stages))
    assert cost.bytes < 1.5 * whole.bytes
    assert cost.messages > whole.messages


def test_stages_work_at_the_same_time_on_parts() -> None:
    """With much work per node, parts make a step shorter. With little work, each node's own cost makes it longer."""
    program = wide_step()
    one = Machine(speed=10**9, memory=2**36, bandwidth=10**10)
    times = [cost_of(make_plan(program, [one] * 3, 3, parts=parts)).microseconds for parts in (1, 2, 4)]
    assert times[1] < 0.9 * times[0]
    assert times[2] < times[1]
    assert best_plan(program, [one] * 3, (3, 1)).parts == 4
    assert best_plan(gpt_step(), [one] * 2, (2, 1)).parts == 1


def test_gradients_of_weights_are_computed_for_the_whole_batch() -> None:
    program = wide_step()
    plan = make_plan(program, machines(2), 2, parts=4)
    runs = [action for action in plan.actions if isinstance(action, Run)]
    gradients = [run for run in runs if is_weight_gradient(program, run.offset)]
    assert gradients
    assert all(run.cut is None for run in gradients)
    divided = [run for run in runs if run.cut is not None and program.nodes[run.offset].op == "matmul"]
    assert {run.first for run in divided} == {0, 1, 2, 3}
    assert not any(run.cut.has_exchange for run in runs if run.cut is not None)


@cache
def wide_step() -> Program:
    """A deep network with wide layers, whose nodes have much work."""
    torch.manual_seed(3)
    layers: list[torch.nn.Module] = []
    for _ in range(6):
        layers += [torch.nn.Linear(256, 256), torch.nn.Tanh()]
    rows = {"x": np.zeros((512, 256), np.float32), "y": np.arange(512) % 5}
    spec = assay.JobSpec(
        name="wide",
        model=torch.nn.Sequential(*layers, torch.nn.Linear(256, 5)),
        loss=assay.cross_entropy(),
        train=rows,
        holdout=rows,
        batch=256,
        steps=2,
        optimizer=assay.SGD(),
        schedule=0.1,
    )
    with TemporaryDirectory() as folder:
        return build(spec, Path(folder) / "job", check=False).document.step


def test_a_batch_goes_in_parts_only_through_stages_of_one_machine() -> None:
    with pytest.raises(ValueError, match="2 parts cannot go through stages of 2 machines"):
        make_plan(gpt_step(), machines(4), 2, 2, parts=2)
    assert make_plan(gpt_step(), machines(1), parts=2).parts == 1


def test_rows_alone_keep_the_order_of_the_program() -> None:
    plan = make_plan(gpt_step(), machines(2), rows=2)
    offsets = [action.offset for action in plan.actions if isinstance(action, Run)]
    assert offsets == sorted(offsets)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_nodes_follow_their_operands_in_any_ranks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program, _ = shown(rng)
    ranks = [(int(rng.integers(3)), number) for number in range(program.first_node, len(program.types))]
    order = sorted_nodes(program, ranks)
    places = {program.first_node + offset: at for at, offset in enumerate(order)}
    assert len(places) == len(program.nodes) == len(order)
    for number, at in places.items():
        args = program.nodes[number - program.first_node].args
        assert all(places[arg] < at for arg in args if arg in places)


def test_the_time_of_a_step_is_that_of_the_slowest_machine() -> None:
    """One machine waits for nothing. Two stages that depend on each other wait for about half of a step."""
    program = gpt_step()
    one = Machine(speed=10**9, memory=2**33, bandwidth=10**12)
    (alone,) = cost_of(make_plan(program, [one])).machines
    total = cost_of(make_plan(program, [one])).microseconds
    assert alone.waiting == 0
    assert abs(total - alone.work // 1_000) <= len(program.nodes)
    both = cost_of(in_program_order(program, 2, one))
    assert both.microseconds > 0.9 * total
    for own in both.machines:
        assert abs(own.waiting + own.work // 1_000 - both.microseconds) <= 0.01 * both.microseconds


class Bordered(torch.nn.Module):
    """Two layers with a border between them."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first, self.second, self.bits = torch.nn.Linear(40, 48), torch.nn.Linear(48, 60), bits

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.gelu(self.first(x))
        if self.bits:
            x = assay.border(x, self.bits)
        found: torch.Tensor = self.second(x)
        return found


@cache
def bordered_step(bits: int) -> Program:
    rows = {"x": np.zeros((64, 40), dtype=np.float32), "y": np.arange(64) % 5}
    spec = assay.JobSpec(
        name="bordered",
        model=Bordered(bits),
        loss=assay.cross_entropy(),
        train=rows,
        holdout=rows,
        batch=8,
        steps=4,
        optimizer=assay.SGD(),
        schedule=0.1,
    )
    with TemporaryDirectory() as folder:
        return build(spec, Path(folder) / "job", check=False).document.step


@pytest.mark.parametrize(("bits", "row"), [(8, 48 + 4), (4, 24 + 4)])
def test_only_codes_and_scales_cross_a_border(bits: int, row: int) -> None:
    program = bordered_step(bits)
    # With this much work per byte, the stages are cut where the fewest bytes cross.
    plan = make_plan(program, [Machine(speed=10**15, memory=2**33, bandwidth=10**3)] * 2, stages=2)
    inputs = inputs_of(program)
    assert outcome(program, inputs, plan) == outcome(program, inputs, None)
    assert cost_of(plan).bytes == 2 * 8 * row
    assert plan.homes["global.first.weight"] != plan.homes["global.second.weight"]


def crossing(program: Program, layers: Sequence[int], is_free: Sequence[bool]) -> list[int]:
    """The bytes that cross to each layer."""
    readers: list[set[int]] = [{layer} for layer in layers]
    for number, node in enumerate(program.nodes, program.first_node):
        for arg in node.args:
            readers[arg].add(layers[number])
    found = [0] * len(program.types)
    for number, reading in enumerate(readers):
        for layer in range(min(reading) + 1, max(reading) + 1) if not is_free[number] else ():
            found[layer] += program.types[number].size
    return found


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_more_bytes_cross_after_nodes_are_moved(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program, _ = shown(rng)
    program = with_states(program, rng)
    is_free = [spec.name not in program.outputs for spec in program.inputs] + [True] * len(program.constants)
    is_free += [False] * len(program.nodes)
    layers = find_layers(program, ())
    before = crossing(program, layers.of_value, is_free)
    after = crossing(program, settle(program, layers, is_free, [False] * len(program.types)), is_free)
    assert all(new <= old for new, old in zip(after, before, strict=True)), (before, after)


class Images(torch.nn.Module):
    """Convolutions whose weights are small and whose activations are large."""

    def __init__(self) -> None:
        super().__init__()
        widths = (2, 4, 4, 4, 4)
        layers: list[torch.nn.Module] = []
        for before, width in pairwise(widths):
            layers += [torch.nn.Conv2d(before, width, 3, padding=1), torch.nn.ReLU()]
        self.layers = torch.nn.Sequential(*layers)
        self.out = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.out(self.layers(x).mean((2, 3)))
        return found


def test_convolutions_are_shared_between_stages(tmp_path: Path) -> None:
    """Products stay with their weights, even if fewer bytes crossed if all of them were in one stage."""
    torch.manual_seed(1)
    rows = {"x": np.ones((8, 2, 16, 16), np.float32), "y": np.arange(8) % 3}
    spec = assay.JobSpec(
        name="images",
        model=Images(),
        loss=assay.cross_entropy(),
        train=rows,
        holdout=rows,
        batch=8,
        steps=1,
        round_steps=1,
        segment_steps=1,
        optimizer=assay.SGD(),
        schedule=0.1,
    )
    build(spec, tmp_path / "job", check=False)
    program = load_job(tmp_path / "job").job.document.step
    one = Machine(speed=10**9, memory=2**33, bandwidth=10**9)
    works = [own.work for own in cost_of(make_plan(program, [one] * 2, 2)).machines]
    assert max(works) < 0.65 * sum(works)


class Tied(torch.nn.Module):
    """A model whose last layer has the weights of its first one, and many classes."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(64, 4)
        self.mix = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.mix(self.words(x))) @ self.words.weight.T


def test_the_gradient_of_shared_weights_crosses_and_not_its_operand() -> None:
    """The gradient of the scores has a row per token, and is larger than the gradient of the weights."""
    rows = {"x": np.zeros((32, 40), dtype=np.int64), "y": np.zeros((32, 40), dtype=np.int64)}
    spec = assay.JobSpec(
        name="tied",
        model=Tied(),
        loss=lambda model, batch: torch.nn.functional.cross_entropy(
            model(batch["x"]).flatten(0, 1), batch["y"].flatten()
        ),
        train=rows,
        holdout=rows,
        batch=8,
        steps=4,
        optimizer=assay.SGD(),
        schedule=0.1,
    )
    with TemporaryDirectory() as folder:
        program = build(spec, Path(folder) / "job", check=False).document.step
    plan = make_plan(program, [Machine(speed=10**15, memory=2**33, bandwidth=10**3)] * 2, stages=2)
    inputs = inputs_of(program)
    assert outcome(program, inputs, plan) == outcome(program, inputs, None)
    words, scores = 4 * 64 * 4, 4 * 8 * 40 * 64
    sends = [action for action in plan.actions if isinstance(action, Send)]
    assert max(program.types[send.value].size for send in sends) < scores
    assert sum(program.types[send.value].size == words for send in sends) >= 2


def test_the_best_plan_fits_the_memory() -> None:
    program = gpt_step()
    needs = {}
    for shape in shapes(2):
        cost = cost_of(make_plan(program, machines(2), *shape))
        needs[shape] = max(own.memory for own in cost.machines)
    assert len(set(needs.values())) == len(needs)
    for bandwidth in (10**3, 10**12):
        tight = [Machine(speed=10**9, memory=min(needs.values()), bandwidth=bandwidth)] * 2
        plan = best_plan(program, tight)
        assert all(own.memory <= tight[0].memory for own in cost_of(plan).machines)
        assert len(plan.used) == 2


def test_shapes() -> None:
    assert list(shapes(1)) == [(1, 1)]
    assert list(shapes(3)) == [(3, 1), (1, 2)]
    assert list(shapes(4)) == [(4, 1), (2, 2), (1, 4)]
    assert list(shapes(6)) == [(6, 1), (3, 2), (1, 4)]


@pytest.mark.parametrize(("stages", "rows"), [(1, 3), (2, 2), (0, 1)])
def test_shapes_that_there_are_not(stages: int, rows: int) -> None:
    with pytest.raises(ValueError, match="3 machines cannot form"):
        make_plan(gpt_step(), machines(3), stages, rows)


def test_a_plan_is_the_same_every_time() -> None:
    first, second = (make_plan(gpt_step(), machines(4), 2, 2) for _ in range(2))
    assert (first.actions, first.homes) == (second.actions, second.homes)
