"""Declared work tells the truth: what once cost hours or gigabytes and was declared as nothing is refused or priced.

Nothing is timed here. What is priced is compared with a lower bound of what the reference executor has to do: calls of
kernels, rows that are gathered or sorted, bytes that are written or hashed. ``python -m benchmarks work`` is the clock.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pol.errors import JobError
from pol.executor.interface import run
from pol.job import cost
from pol.job.document import (
    ARITHMETIC,
    VERSION,
    JobDocument,
    Shard,
    dump_job,
    parse_job,
)
from pol.job.program import Node, Program, ProgramBuilder, make_program
from pol.job.updates import DIFFERENCE
from pol.limits import LIMITS, Limits
from pol.state.arrays import Array
from pol.state.layout import chunk_count
from pol.values import TensorSpec
from tests.unit.pol.executor.ops import get, node_by_node

CALL = 2_000
"""FLOPs that the shortest call of a library is worth at least."""
W = TensorSpec("w", "f32", ())
X = TensorSpec("x", "f32", ())


def scalar(builder: ProgramBuilder, value: float) -> int:
    return builder.constant("f32", (), np.array(value, "<f4").tobytes())


def adds(names: Sequence[str] = ("w",), times: int = 1) -> Program:
    """A step that adds 1 to each of its scalars, so many times."""
    builder = ProgramBuilder()
    one = scalar(builder, 1)
    for name in names:
        value = builder.input(f"global.{name}", "f32", ())
        for _ in range(times):
            value = builder.node("add", value, one)
        builder.output(f"global.{name}", value)
    return builder.build()


def averaging(tensors: Sequence[TensorSpec]) -> Program:
    builder = ProgramBuilder()
    for spec in tensors:
        before, update = (
            builder.input(f"{kind}.{spec.name}", spec.dtype, spec.shape) for kind in ("global", "aggregate")
        )
        builder.output(f"global.{spec.name}", builder.node("sub", before, update))
    return builder.build()


def document(
    step: Program,
    tensors: Sequence[TensorSpec] = (W,),
    *,
    rows: int = 64,
    batch: int = 1,
    segment_steps: int = 1,
    slots: int = 1,
    column: TensorSpec = X,
    local: Sequence[TensorSpec] = (),
    outer: Program | None = None,
) -> JobDocument:
    """A job without its files: they are read after everything here was checked."""
    outer = outer or averaging(tensors)
    shard = Shard("00000.safetensors", bytes(32), rows * column.type.size + 64, rows)
    made = JobDocument(
        version=VERSION,
        name="cost",
        executor_version=1,
        arithmetic=ARITHMETIC,
        seed=1,
        rounds=1,
        slots=slots,
        round_steps=segment_steps,
        batch=batch,
        segment_steps=segment_steps,
        aggregation=DIFFERENCE,
        columns=(column,),
        rows=rows,
        shards=(shard,),
        data_root=bytes(32),
        global_tensors=tuple(tensors),
        local_tensors=tuple(local),
        global_root=bytes(32),
        local_root=bytes(32),
        global_chunks=chunk_count(tensors),
        step=step,
        outer=outer,
        eval=ProgramBuilder().build(),
        metrics=(),
        step_flops=0,
        outer_flops=0,
    )
    return replace(made, step_flops=cost.step_work(made), outer_flops=cost.outer_work(made))


def loaded(made: JobDocument, limits: Limits = LIMITS) -> JobDocument:
    return parse_job(dump_job(made), limits).document


def refused(made: JobDocument, limits: Limits = LIMITS) -> JobError:
    with pytest.raises(JobError) as caught:
        loaded(made, limits)
    return caught.value


@pytest.mark.parametrize(("rows", "batch"), [(2**18, 2**27), (2**14, 2**24), (64, 129)])
def test_a_batch_of_many_epochs_is_refused(rows: int, batch: int) -> None:
    """A payload of 18 kB declared 4 FLOPs for a step of 14.5 s: an order for each of 1,024 epochs."""
    error = refused(document(adds(), rows=rows, batch=batch))
    assert error.field == "batch"
    assert f"use at most {2 * rows}" in error.remedy
    loaded(document(adds(), rows=64, batch=128))


def test_the_order_of_an_epoch_is_work() -> None:
    """2^27 rows of one bool took 187 s in the first step of an epoch, for 4 FLOPs."""
    rows, length = 2**27, 4
    made = loaded(document(adds(), rows=rows, segment_steps=length, column=TensorSpec("x", "bool", ())))
    # who replays one segment sorts the rows
    assert length * cost.step_work(made) > rows * rows.bit_length()
    # who trains on sorts them once an epoch
    whole = document(adds(), rows=1_000, batch=1_000, segment_steps=1_000)
    assert cost.step_work(whole) > 1_000 * cost.ORDER_WORK


def test_slots_that_share_the_stream_pay_for_its_orders() -> None:
    """With as many slots as there are rows, every step of a slot is in an epoch of its own."""
    one = document(adds(), rows=1_000, batch=1, segment_steps=100)
    many = replace(one, slots=1_000)
    assert cost.step_work(many) - cost.step_work(one) >= cost.ORDER_WORK * (1_000 - 10)


def test_the_order_of_an_epoch_is_memory() -> None:
    """2^27 rows were 2.7 GB that nobody had counted."""
    many = document(adds(), rows=2**27, column=TensorSpec("x", "bool", ()))
    # draws, the order before, this order, and half of one to sort
    assert cost.running_size(many) > (8 + 8 + 8 + 4) * 2**27
    assert refused(many, Limits(live_size=2**31)).field == "batch"


def test_gathering_a_batch_is_work_although_the_step_does_not_read_it() -> None:
    batch, width = 2**16, 16
    column = TensorSpec("x", "f32", (width,))
    made = loaded(document(adds(), rows=batch, batch=batch, column=column))
    assert cost.step_work(made) > batch * 2 * 4 * width


def test_nodes_whose_result_nobody_needs_are_refused() -> None:
    """19,000 dead products of empty matrices were 6 s for 9 FLOPs; 200 dead reshapes 4 s."""
    spec = TensorSpec("global.a", "f32", (0, 1))
    empty = Node("permute", (0,), {"dims": (1, 0)})
    dead = [Node("matmul", (0, 1), {"bits": 15}) for _ in range(19_000)]
    with pytest.raises(JobError) as caught:
        make_program([spec], [], [empty, *dead], {"global.a": 0})
    assert caught.value.field == "nodes[19000]"
    assert "no output needs" in caught.value.reason
    assert "remove the node" in caught.value.remedy


def test_a_node_that_only_a_dead_node_needs_is_refused_too() -> None:
    spec = TensorSpec("global.x", "f32", (4,))
    chain = [Node("neg", (0,), {}), Node("neg", (1,), {}), Node("abs", (0,), {})]
    with pytest.raises(JobError) as caught:
        make_program([spec], [], chain, {"global.x": 3})
    assert caught.value.field == "nodes[1]"
    make_program([spec], [], chain, {"global.x": 3, "global.y": 2})


def test_small_nodes_are_work() -> None:
    """19,000 additions of scalars ran a thousand times slower than declared."""
    made = loaded(document(adds(times=19_000)))
    assert cost.step_work(made) > 19_000 * CALL


def test_small_sums_are_work_at_each_level() -> None:
    """A sum of 256 numbers in eight dimensions ran 18,000 times slower than declared."""
    builder = ProgramBuilder()
    x = builder.input("global.x", "f32", (2,) * 8)
    builder.output("global.w", builder.node("sum", x, dims=list(range(8)), keepdim=False))
    assert builder.build().work.flops > 8 * CALL


def test_functions_of_scalars_are_work() -> None:
    builder = ProgramBuilder()
    value = builder.input("global.w", "f32", ())
    for op in ("exp", "log", "tanh", "erf"):
        value = builder.node(op, value)
    step = builder.input("step", "i64", ())
    drawn = builder.node("uniform", step, shape=[], site=0)
    builder.output("global.w", builder.node("add", value, drawn))
    works = tuple(builder.build().works())
    # about as many calls as operations in the sequences
    assert all(work.flops > 20 * CALL for work in works[:4])
    assert works[4].flops > 100 * CALL


@pytest.mark.parametrize("op", ["amax", "argmax", "sum"])
def test_short_rows_are_work(op: str) -> None:
    """The largest of two, 2^19 times over, ran 49 times slower than declared."""
    builder = ProgramBuilder()
    x = builder.input("global.x", "f32", (2**19, 2))
    attrs: dict[str, object] = {"dim": 1} if op == "argmax" else {"dims": [1]}
    builder.output("global.y", builder.node(op, x, keepdim=False, **attrs))
    # a loop of its own for each row
    assert builder.build().work.flops > 2**19 * 300


def test_short_rows_of_operands_that_repeat_are_work() -> None:
    def flops(*shapes: tuple[int, ...]) -> int:
        builder = ProgramBuilder()
        x, y = (builder.input(f"global.{i}", "bool", shape) for i, shape in enumerate(shapes))
        builder.output("global.z", builder.node("logical_or", x, y))
        return builder.build().work.flops

    assert flops((2**19, 1), (1, 2)) > 2**19 * 300
    assert flops((2**19, 2), (2**19, 2)) < 2**20 * 20
    assert flops((2**19, 2), ()) < 2**20 * 20


def test_products_of_small_matrices_are_work() -> None:
    """Products of 2 x 2 ran 51 times slower than declared; [N, 1] @ [1, 1] 36 times."""
    builder = ProgramBuilder()
    x = builder.input("global.x", "f32", (2**16, 2, 2))
    builder.output("global.y", builder.node("matmul", x, x, bits=15))
    a, b = builder.input("global.a", "f32", (2**20, 1)), builder.input("global.b", "f32", (1, 1))
    builder.output("global.c", builder.node("matmul", a, b, bits=15))
    small, thin = builder.build().works()
    assert small.products == 2**16 * 16
    assert small.flops > 2**16 * 4 * 300
    assert thin.flops > 2**20 * 600


def test_rows_taken_from_anywhere_are_work() -> None:
    builder = ProgramBuilder()
    table, index = (
        builder.input("global.x", "f32", (2**20, 1)),
        builder.input("global.i", "i64", (2**20,)),
    )
    builder.output("global.y", builder.node("take", table, index))
    assert builder.build().work.flops > 2**20 * 50


def test_many_tensors_are_refused_and_fewer_are_work() -> None:
    """2 x 9,999 scalars took 0.6 s a step, for 4 FLOPs: each is checked, copied and hashed."""
    names = [f"t{index:04}" for index in range(9_999)]
    tensors = [TensorSpec(name, "f32", ()) for name in names]
    step, outer = adds(names[:1]), averaging(tensors[:1])
    assert refused(document(step, tensors, outer=outer)).field == "global_tensors"
    assert refused(document(step, tensors[:1], local=tensors)).field == "local_tensors"
    some = tensors[: LIMITS.tensors]
    made = loaded(document(adds(names[: LIMITS.tensors]), some, local=some))
    # beside the additions themselves, and reading their operands
    assert cost.state_work(made) > LIMITS.tensors * 100 * CALL


def test_a_frozen_tensor_that_a_step_is_given_is_work() -> None:
    """Torch copies each input, whether a node reads it or not."""
    frozen = TensorSpec("frozen", "f32", (2**20,))
    builder = ProgramBuilder()
    builder.input("global.frozen", "f32", frozen.shape)
    value = builder.input("global.w", "f32", ())
    builder.output("global.w", builder.node("neg", value))
    made = loaded(document(builder.build(), (frozen, W), outer=averaging((W,))))
    assert cost.state_work(made) > frozen.type.size


def test_a_step_that_only_moves_its_state_is_work() -> None:
    """Each byte that it writes is made canonical and hashed."""
    builder = ProgramBuilder()
    names = ("a", "b")
    for name, other in zip(names, reversed(names), strict=True):
        builder.output(f"global.{name}", builder.input(f"global.{other}", "f32", (2**20,)))
    tensors = [TensorSpec(name, "f32", (2**20,)) for name in names]
    made = loaded(document(builder.build(), tensors))
    assert made.step.work.flops == 0
    assert cost.step_work(made) > 8 * 2**20


def test_the_end_of_a_round_is_work() -> None:
    """60 products in `outer` were free, and so was an aggregation over a thousand slots."""
    m = TensorSpec("m", "f32", (512, 512))
    builder = ProgramBuilder()
    matrix = value = builder.input("global.m", "f32", m.shape)
    for _ in range(60):
        value = builder.node("matmul", value, matrix, bits=15)
    builder.output("global.m", value)
    builder.output("global.w", builder.input("aggregate.w", "f32", ()))
    made = loaded(document(adds(), (m, W), outer=builder.build()))
    assert cost.outer_work(made) > 60 * 2 * 512**3
    step = ProgramBuilder()
    step.output("global.m", step.node("neg", step.input("global.m", "f32", m.shape)))
    plain = loaded(document(step.build(), (m,)))
    size = m.type.size
    assert cost.outer_work(replace(plain, slots=1_001)) - cost.outer_work(plain) >= 1_000 * size


def test_a_boundary_is_a_flop_for_each_byte_of_both_states() -> None:
    big = TensorSpec("big", "f32", (1_000,))
    made = document(adds(), (W,), local=(big,))
    assert cost.boundary_work(made) == cost.global_size(made) + cost.local_size(made)
    assert cost.local_size(made) >= big.type.size


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_a_reshape_of_what_was_permuted_is_no_copy(name: str) -> None:
    """200 reshapes of neg(permute(x)) copied 800 MB, and were declared as views."""
    builder = ProgramBuilder()
    x = builder.input("global.x", "f32", (64, 32))
    turned = builder.node("neg", builder.node("permute", x, dims=[1, 0]))
    builder.output("global.y", builder.node("reshape", turned, shape=[2_048]))
    program = builder.build()
    works = tuple(program.works())
    assert works[0].moved == 2 * 4 * 2_048
    assert works[2].moved == 0
    seen: list[Array] = []
    inputs = {"global.x": np.ones((64, 32), np.float32)}
    node_by_node(name).compile(program, 1).run(inputs, lambda _number, value: seen.append(value))
    # kept here, so that no place is used twice
    assert seen[2].ctypes.data == seen[1].ctypes.data


def test_a_reshape_of_what_repeats_is_a_copy_and_counts() -> None:
    builder = ProgramBuilder()
    x = builder.input("global.x", "f32", (64, 1))
    wide = builder.node("broadcast", x, shape=[64, 32])
    again = builder.node("reshape", wide, shape=[64, 32, 1])
    builder.output("global.y", builder.node("reshape", again, shape=[2_048]))
    full = builder.node("full", shape=[8, 4], dtype="f32", value="00000000")
    builder.output("global.z", builder.node("reshape", full, shape=[32]))
    program = builder.build()
    moved: dict[str, list[int]] = {node.op: [] for node in program.nodes}
    for node, work in zip(program.nodes, program.works(), strict=True):
        moved[node.op].append(work.moved)
    assert moved == {"broadcast": [0], "full": [0], "reshape": [2 * 4 * 2_048] * 2 + [2 * 4 * 32]}


def test_the_document_says_the_work_that_loading_finds() -> None:
    made = document(adds())
    assert refused(replace(made, step_flops=made.step.work.flops)).field == "step_flops"
    assert refused(replace(made, outer_flops=0)).field == "outer_flops"


def test_the_end_of_a_round_takes_as_much_memory_for_a_thousand_slots() -> None:
    m = TensorSpec("m", "f32", (2**20,))
    builder = ProgramBuilder()
    builder.output("global.m", builder.node("neg", builder.input("global.m", "f32", m.shape)))
    made = document(builder.build(), (m,))
    many = replace(made, slots=1_000)
    assert cost.aggregation_size(many) == cost.aggregation_size(made)
    # the sum in FP64, an update, and the mean
    assert cost.aggregation_size(made) >= 4 * m.type.size
    assert cost.memory_size(many) >= cost.aggregation_size(many)


def test_memory_is_that_of_states_batch_order_and_program() -> None:
    """Data stay on disk."""
    column = TensorSpec("x", "f32", (100,))
    made = loaded(document(adds(), rows=1_000, batch=10, column=column))
    wide = replace(made, columns=(TensorSpec("x", "f32", (100,)), TensorSpec("y", "f32", (10**6,))))
    most = cost.running_size(made) + 2 * (cost.global_size(made) + cost.local_size(made))
    assert cost.memory_size(made) == most + cost.BLOCKS_SIZE
    assert cost.memory_size(wide) - cost.memory_size(made) == made.batch * 4 * 10**6
    assert cost.running_size(made) > 10 * 400 + made.step.peak_size
    run(made.step, {"global.w": np.zeros((), np.float32)}, 1, get("numpy"))
