"""The ratio of real time to the time predicted from declared work and measured speed.

The cases are a sweep of primitives over shapes and values, and the parts of steps and rounds outside their programs, on
one thread of each executor. The measured speed is the speed that a provider promises, which is the speed of computing
the pieces of a probe (``pol/work/probe.py``). A ratio of 4 means that the case takes four times as long as the same
number of FLOPs in a probe. A ratio below 1 means that the case is faster than its declared work. For each primitive the
case with the highest ratio is shown, the highest first. The page ``docs/decisions/work-is-time.md`` explains the use of
the numbers.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

from benchmarks.figures import Figures, Row
from pol.executor.backend import backend
from pol.executor.interface import Backend
from pol.executor.names import Engine
from pol.job import cost
from pol.job.dataset import batch_at
from pol.job.load import LoadedJob, load_job
from pol.job.program import Program, ProgramBuilder
from pol.job.updates import DIFFERENCE
from pol.job.write import JobSource, write_job
from pol.ops.philox import PART_POSITIONS, drawn_places, permutation
from pol.ops.primitive import Traffic
from pol.ops.product import BITS, DEFAULT_BITS
from pol.ops.table import PRIMITIVES
from pol.rules.probe import PIECE_WORK
from pol.state.arrays import NUMPY_DTYPES, Array
from pol.work.probe import work_pieces
from pol.work.segments import advance, slot_state
from pol.work.train import aggregate
from tests.support.bodies import counter, moved, nested, recurrence

NAME = "work"
EXECUTORS = ("native", "numpy", "torch")
ROOT = Path(__file__).parents[1]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LARGE = 2**20
SMALL, COPIES = 1_000_000, 32
"""Largest FLOPs of a small case, and number of copies of its node, so that starting a program matters little."""
PIECES = 32
"""Number of probe pieces per run, so that their common preparation matters little."""
SECONDS = 0.02
"""Minimum seconds to repeat a case, at least three times; the fastest run counts."""

Shape = tuple[int, ...]
SHAPES: tuple[Shape, ...] = (
    (),
    (1_000,),
    (2,) * 8,
    (LARGE,),
    (LARGE // 2, 2),
    (2, LARGE // 2),
    (1_024, 1_024),
)
VALUES = ("plain", "subnormal", "huge")


@dataclass(frozen=True)
class Case:
    """An operation to measure: its operands as (dtype, shape), attributes, and kind of values.

    If ``spread`` is a shape, the first operand is broadcast to it before the operation.
    """

    op: str
    operands: tuple[tuple[str, Shape], ...]
    attrs: dict[str, Any]
    values: str = "plain"
    spread: Shape | None = None

    def __str__(self) -> str:
        """Return the name of the case in one line."""
        shapes = " ".join(f"{dtype}[{','.join(map(str, shape))}]" for dtype, shape in self.operands)
        attrs = ",".join(
            f"{name}={len(value.nodes)} nodes" if isinstance(value, Program) else f"{name}={value}"
            for name, value in self.attrs.items()
            if name != "value"
        )
        spread = f"broadcast to {list(self.spread)}" if self.spread is not None else ""
        words = [self.op, shapes, attrs, spread, "" if self.values == "plain" else self.values]
        return " ".join(word for word in words if word)


def run() -> Figures:
    """Measure each executor in a separate process with one thread, and return the worst cases."""
    rows: list[Row] = []
    for name in EXECUTORS:
        environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.work", name],
            cwd=ROOT,
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
        )
        rows += [Row(case, value, unit) for case, value, unit in json.loads(done.stdout)]
    return Figures(NAME, rows)


def sweep() -> Iterator[Case]:
    """Yield the cases of every primitive."""
    yield from _elementwise()
    yield from _reductions()
    yield from _products()
    yield from _windows()
    yield from _shapes()
    yield from _repeats()
    yield Case("iota", (), {"size": 1})
    yield Case("iota", (), {"size": LARGE})
    for size in (1, 1_000, LARGE):
        yield Case("full", (), {"shape": [size], "dtype": "f32", "value": "00000000"})
        yield Case("uniform", (("i64", ()),), {"shape": [size], "site": 0})


_BOTH, _F32, _BOOL = ("f32", "i64"), ("f32",), ("bool",)
_ELEMENTWISE: dict[str, tuple[Sequence[str], int]] = {
    **dict.fromkeys(("add", "sub", "mul", "maximum", "minimum"), (_BOTH, 2)),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), (("f32", "i64", "bool"), 2)),
    **dict.fromkeys(("neg", "abs"), (_BOTH, 1)),
    **dict.fromkeys(("sqrt", "exp", "log", "tanh", "erf"), (_F32, 1)),
    **dict.fromkeys(("logical_and", "logical_or"), (_BOOL, 2)),
    "div": (_F32, 2),
    "floor_divide": (("i64",), 2),
    "logical_not": (_BOOL, 1),
}


def _elementwise() -> Iterator[Case]:
    for op, (dtypes, arity) in _ELEMENTWISE.items():
        for dtype, shape in product(dtypes, SHAPES):
            for values in VALUES if dtype == "f32" else VALUES[:1]:
                yield Case(op=op, operands=((dtype, shape),) * arity, attrs={}, values=values)
            if arity == 2 and len(shape) == 2:
                yield Case(op, ((dtype, (shape[0], 1)), (dtype, (1, shape[1]))), {})
    for dtype, shape in product(("f32", "i64", "bool"), SHAPES):
        yield Case("where", (("bool", shape), (dtype, shape), (dtype, shape)), {})
        yield Case("where", (("bool", shape), (dtype, ()), (dtype, shape)), {})
        for target in ("f32", "i64", "bool"):
            yield Case("cast", ((dtype, shape),), {"dtype": target})


def _reductions() -> Iterator[Case]:
    for dtype, shape in product(("f32", "i64", "bool"), SHAPES):
        dims = [list(range(len(shape))), *([dim] for dim in range(min(2, len(shape))))]
        for chosen in dims:
            yield Case("sum", ((dtype, shape),), {"dims": chosen, "keepdim": False})
            if dtype != "bool":
                yield Case("amax", ((dtype, shape),), {"dims": chosen, "keepdim": False})
            if dtype != "bool" and len(chosen) == 1:
                yield Case("argmax", ((dtype, shape),), {"dim": chosen[0], "keepdim": False})
    for width in (3, 5, 33):
        shape = (LARGE // width, width)
        yield Case("sum", (("f32", shape),), {"dims": [1], "keepdim": False})
        yield Case("amax", (("f32", shape),), {"dims": [1], "keepdim": False})
        yield Case("argmax", (("f32", shape),), {"dim": 1, "keepdim": False})


def _products() -> Iterator[Case]:
    sizes = [(1, 1, 1), (64, 256, 256), (128, 784, 512), (512, 512, 512), (LARGE, 1, 1)]
    sizes += [
        (1, LARGE // 8, 1),
        (1_024, 1, 1_024),
        (LARGE // 2, 2, 2),
        (2, 2, LARGE // 2),
        (8, 1_024, 8),
        (256, 4_097, 256),
    ]
    for rows, summed, columns in sizes:
        for values in VALUES:
            for bits in BITS:
                operands = ("f32", (rows, summed)), ("f32", (summed, columns))
                yield Case(op="matmul", operands=operands, attrs={"bits": bits}, values=values)
    for batch, side in ((100_000, 1), (100_000, 2), (10_000, 8), (256, 64)):
        for bits in BITS:
            yield Case("matmul", (("f32", (batch, side, side)),) * 2, {"bits": bits})


def _windows() -> Iterator[Case]:
    """Yield the cases of 3 x 3 convolutions and their weight gradients, dense and depthwise, small and large."""
    sizes = [(1, 64, 64, 56), (1, 256, 256, 14), (96, 96, 1, 56), (960, 960, 1, 7), (1, 3, 64, 112)]
    for groups, channels, rows, side in (*sizes, (1, 1, 1, 1), (LARGE // 16, LARGE // 16, 1, 1)):
        per_group, places = channels // groups, {"kernel": [3, 3], "steps": [1, 1]}
        windows = {**places, "starts": [0, 0], "strides": [1, 1], "counts": [side, side]}
        x = ("f32", (channels, side + 2, side + 2))
        for summed, transposed in ((9 * per_group, False), (side * side, True)):
            for bits in BITS if side == 14 else (DEFAULT_BITS,):
                attrs = {"bits": bits, "transposed": transposed, **windows}
                yield Case("matmul_windows", (("f32", (groups, rows, summed)), x), attrs)


def _shapes() -> Iterator[Case]:
    for shape in SHAPES:
        operand = (("f32", shape),)
        rank = len(shape)
        yield Case("reshape", operand, {"shape": [int(np.prod(shape))]})
        yield Case("permute", operand, {"dims": list(reversed(range(rank)))})
        yield Case("broadcast", operand, {"shape": list(shape)})
        starts = {"starts": [0] * rank, "steps": [1] * rank}
        yield Case("slice", operand, {**starts, "stops": list(shape)})
        if rank:
            yield Case("slice", operand, {**starts, "stops": [*shape[:-1], 1]})
            yield Case("slice", operand, {"starts": [0] * rank, "stops": list(shape), "steps": [2] * rank})
            yield Case("concat", operand * 2, {"dim": rank - 1})
            yield Case("concat", operand * 2, {"dim": 0})
        yield Case("pad", operand, {"low": [1] * rank, "high": [0] * rank, "value": "00000000"})
    yield Case("concat", (("f32", (1,)),) * 64, {"dim": 0})
    yield Case("permute", (("f32", (64, 128, 128)),), {"dims": [2, 1, 0]})
    yield Case("permute", (("f32", (8, 128, 8, 128)),), {"dims": [0, 2, 1, 3]})
    yield Case("reshape", (("f32", (1_024,)),), {"shape": [LARGE]}, spread=(1_024, 1_024))
    yield Case("reshape", (("f32", (1_024, 1)),), {"shape": [LARGE]}, spread=(1_024, 1_024))
    for rows, width, count in (
        (LARGE, 1, LARGE),
        (LARGE // 64, 64, LARGE // 64),
        (4, 1, 1),
        (1, 0, LARGE),
    ):
        yield Case("take", (("f32", (rows, width)), ("i64", (count,))), {})
        if width:
            yield Case("add_rows", (("i64", (count,)), ("f32", (count, width))), {"rows": rows})
    yield Case("add_rows", (("i64", (LARGE // 2,)), ("f32", (LARGE // 2, 2))), {"rows": 4})
    yield Case("add_rows", (("i64", (1,)), ("f32", (1, 0))), {"rows": LARGE})
    for dtype, shape in product(("f32", "i64"), ((LARGE,), (LARGE // 2, 2), (1_024, 1_024), (1,))):
        for dim in range(len(shape)):
            yield Case("argsort", ((dtype, shape),), {"dim": dim})


def _repeats() -> Iterator[Case]:
    """Yield the cases of repeats whose bodies do little or nothing, with many values or with large ones."""
    for body in (counter(nodes=0), counter(), counter(carried=8), counter(sequences=16)):
        scalars = [("f32", spec.shape) for spec in body.inputs if spec.name.startswith("carry")]
        for count in (1, 1_000):
            rows = [("f32", (count,))] * (len(body.inputs) - len(scalars))
            yield _of_body(body, [*scalars, *rows], count)
    for shape in ((8, 64), (1_024, 1_024)):
        for body in (moved(shape), recurrence(shape)):
            operands = [("f32", shape), ("f32", (4, *shape)), ("f32", shape)]
            yield _of_body(body, operands[: len(body.inputs)], 4)
    yield _of_body(nested(counter(), (30,)), [("f32", ())], 30)


def _of_body(body: Program, operands: Sequence[tuple[str, Shape]], count: int) -> Case:
    return Case("repeat", tuple(operands), {"body": body, "count": count, "reverse": False})


def _array(random: np.random.Generator, dtype: str, shape: Shape, case: Case) -> Array:
    if case.op == "take" and dtype == "i64":
        return random.integers(0, case.operands[0][1][0], shape)
    if case.op == "add_rows" and dtype == "i64":
        return random.integers(0, case.attrs["rows"], shape)
    if case.op == "argsort" and dtype == "i64":
        return random.integers(-(2**63), 2**63, shape)
    if dtype != "f32":
        return np.asarray(random.integers(0, 2, shape).astype(NUMPY_DTYPES[dtype]))
    scale = {"plain": 1.0, "subnormal": 2.0**-135, "huge": 2.0**60}[case.values]
    return np.asarray(random.standard_normal(shape) * scale, np.float32)


def _program(case: Case) -> Program:
    """Return a program with the node of the case. If the case is small, the program has many copies of the node."""
    builder = ProgramBuilder()
    arguments = [builder.input(f"global.t{index}", dtype, shape) for index, (dtype, shape) in enumerate(case.operands)]
    if case.spread is not None:
        arguments = [builder.node("broadcast", arguments[0], shape=list(case.spread))]

    def once() -> int:
        value = builder.node(case.op, *arguments, **case.attrs)
        if PRIMITIVES[case.op].traffic is Traffic.VIEW:
            # The program returns a small slice, because torch would copy a whole view, which is not part of the node.
            rank = len(builder.type(value).shape)
            ends = {"starts": [0] * rank, "stops": [1] * rank, "steps": [1] * rank}
            value = builder.node("slice", value, **ends)
        return value

    first = once()
    builder.output("global.o", first)
    program = builder.build()
    if program.work.flops > SMALL:
        return program
    # The copies are concatenated to one output, because a job pays for its outputs separately.
    shape = [builder.type(first).elements]
    values = [first, *(once() for _ in range(1, COPIES))]
    flat = [builder.node("reshape", value, shape=shape) for value in values]
    builder.output("global.all", builder.node("concat", *flat, dim=0))
    return builder.build()


def fastest(function: Callable[[], object]) -> float:
    """Return the seconds of the fastest of several runs."""
    best, passed, runs = float("inf"), 0.0, 0
    while runs < 3 or passed < SECONDS:
        start = process_time()
        function()
        seconds = process_time() - start
        best, passed, runs = min(best, seconds), passed + seconds, runs + 1
    return best


def product_speed(executor: Backend) -> float:
    """Return the FLOP/s of an executor in the product of two 512 x 512 matrices."""
    shape = (512, 512)
    return 1 / _pace(executor, Case("matmul", (("f32", shape), ("f32", shape)), {"bits": DEFAULT_BITS}))


def measured_speed(executor: Backend) -> float:
    """Return the FLOP/s of an executor in the pieces of a probe, which is the reference for declared work."""
    work_pieces(b"", range(1), executor)
    return PIECES * PIECE_WORK / fastest(lambda: work_pieces(b"", range(PIECES), executor))


def _pace(executor: Backend, case: Case) -> float:
    """Return the seconds that a case takes per FLOP of its declared work."""
    random = np.random.default_rng(1)
    inputs = {
        f"global.t{index}": _array(random, dtype, shape, case) for index, (dtype, shape) in enumerate(case.operands)
    }
    program = _program(case)
    compiled = executor.compile(program, 7)
    input_work = cost.INPUT_WORK * sum(array.nbytes for array in inputs.values())
    return fastest(lambda: compiled.run(inputs)) / (program.work.flops + input_work)


def _worst(executor: Backend, cases: Sequence[Case]) -> tuple[float, str]:
    """Return the seconds per FLOP and the name of the slowest case, measured again in case other load slowed it."""
    paces = {index: _pace(executor, case) for index, case in enumerate(cases)}
    for _ in range(2 * len(cases)):
        slowest = max(paces, key=lambda index: paces[index])
        before = paces[slowest]
        again = _pace(executor, cases[slowest])
        paces[slowest] = min(before, again)
        if again > 0.9 * before:
            break
    slowest = max(paces, key=lambda index: paces[index])
    return paces[slowest], str(cases[slowest])


def _jobs(executor: Backend) -> Iterator[tuple[str, float, int]]:
    """Yield the name, seconds and declared work of each part of a job that is outside the nodes of its programs."""
    with TemporaryDirectory() as folder:
        small = _written(Path(folder) / "small", [()] * 4_000, 256, 64)
        yield "step of 4,000 scalars", *_step(small, executor)
        large = _written(Path(folder) / "large", [(2_048, 1_024)], 256, 64)
        yield "step that changes 8 MiB", *_step(large, executor)
        for loaded, case in ((small, "4,000 scalars"), (large, "8 MiB")):
            state, document = loaded.global_state, loaded.job.document
            updates = [state]
            seconds = fastest(lambda s=state, u=updates, job=loaded: aggregate(job, s, u, executor))  # type: ignore[misc]
            yield f"aggregation of {case}", seconds, cost.outer_work(document)
        wide = _written(Path(folder) / "wide", [(1,)], 2**18, 2**16)
        rows, document = wide.data, wide.job.document
        yield (
            "order of 2^18 rows",
            fastest(lambda: permutation(1, 0, rows.rows)),
            cost.ORDER_WORK * rows.rows,
        )
        rows.weigh("w")
        yield (
            "weights of 2^18 rows",
            fastest(lambda: rows.weigh("w")),
            cost.WEIGHT_WORK * rows.rows,
        )
        ends = rows.weight_ends
        yield (
            "4,096 draws of 2^18 rows",
            fastest(lambda: ends.searchsorted(drawn_places(1, 0, int(ends[-1])), "right")),
            cost.DRAW_WORK * PART_POSITIONS * (1 + rows.rows.bit_length()),
        )
        batch_at(rows, wide.job, 0)
        yield (
            "batch of 2^16 rows",
            fastest(lambda: batch_at(rows, wide.job, 0)),
            cost.gather_work(document),
        )


def _step(loaded: LoadedJob, executor: Backend) -> tuple[float, int]:
    before = slot_state(loaded, loaded.global_state, loaded.local_state)
    return fastest(lambda: advance(loaded, before, 0, 0, executor)[0].root), cost.step_work(loaded.job.document)


def _written(directory: Path, shapes: Sequence[Shape], rows: int, batch: int) -> LoadedJob:
    """Write a job whose step adds 1 to each of its tensors, and load it."""
    step, outer, evaluate = ProgramBuilder(), ProgramBuilder(), ProgramBuilder()
    names = [f"t{index:04}" for index in range(len(shapes))]
    one = step.constant("f32", (), np.array(1, "<f4").tobytes())
    for name, shape in zip(names, shapes, strict=True):
        step.output(f"global.{name}", step.node("add", step.input(f"global.{name}", "f32", shape), one))
        before, update = (outer.input(f"{kind}.{name}", "f32", shape) for kind in ("global", "aggregate"))
        outer.output(f"global.{name}", outer.node("sub", before, update))
    state = {name: np.zeros(shape, np.float32) for name, shape in zip(names, shapes, strict=True)}
    data: dict[str, Array] = {"x": np.zeros((rows, 4), np.float32), "w": np.arange(1, rows + 1)}
    source = JobSource(
        name="bench",
        seed=1,
        rounds=1,
        slots=1,
        round_steps=1,
        batch=batch,
        segment_steps=1,
        aggregation=DIFFERENCE,
        step=step.build(),
        outer=outer.build(),
        eval=evaluate.build(),
        metrics=(),
        global_state=state,
        local_state={},
        data=data,
    )
    directory.mkdir()
    write_job(directory, source)
    return load_job(directory)


def measure(name: str) -> list[tuple[str, float, str]]:
    """Return an executor's rows: its speeds, the worst case of all and of each primitive, and the parts of a job."""
    executor = backend(Engine(name))
    if name == "torch":
        import torch

        torch.set_num_threads(1)
    product, speed = product_speed(executor), measured_speed(executor)
    worst = []
    by_op: dict[str, list[Case]] = {}
    for case in sweep():
        by_op.setdefault(case.op, []).append(case)
    if missing := set(PRIMITIVES) - set(by_op):
        raise RuntimeError(f"no case for {sorted(missing)}")
    for cases in by_op.values():
        worst.append(_worst(executor, cases))
        product, speed = max(product, product_speed(executor)), max(speed, measured_speed(executor))
    worst += [(seconds / work, case) for case, seconds, work in _jobs(executor)]
    ordered = sorted(((pace * speed, case) for pace, case in worst), reverse=True)
    rows = [(f"{name}: worst of all", ordered[0][0], "x measured")]
    rows += [(f"{name}: {case}", ratio, "x measured") for ratio, case in ordered]
    speeds = [("measured", speed), ("product 512 x 512", product)]
    return [(f"{name}: {what}", rate / 1e9, "GFLOP/s") for what, rate in speeds] + rows


if __name__ == "__main__":
    json.dump(measure(sys.argv[1]), sys.stdout)
