"""Random programs, and every value of them on a back end."""

from typing import Any

import numpy as np

from pol.errors import JobError, NotFinite, OutOfRange
from pol.executor.interface import Backend, run
from pol.job.program import Program, ProgramBuilder, make_program
from pol.ops.primitive import Attribute
from pol.ops.table import PRIMITIVES
from pol.ops.windows import summed_and_columns
from pol.state.arrays import Array
from pol.values import TensorType
from tests.unit.pol.executor.ops import HOSTILE, NOT_FINITE, bits

SIZES = (0, 1, 1, 2, 3, 3, 4, 5, 8, 17, 33)
SPECIAL = np.concatenate([HOSTILE, NOT_FINITE])
INTEGERS = np.array([0, 0, 1, 2, 3, -1, 2**24 + 1, 2**53 + 1, 2**62, -(2**63), 2**63 - 1], np.int64)
NODES = 25
NAMES = (*sorted(PRIMITIVES), "repeat")


def array(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Random elements: ordinary numbers, or those at the edges."""
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype == "i64":
        return rng.choice(INTEGERS if rng.random() < 0.3 else INTEGERS[:5], shape)
    plain = rng.standard_normal(shape) * 2.0 ** rng.integers(-30, 30, shape)
    return (rng.choice(SPECIAL, shape) if rng.random() < 0.4 else plain).astype(np.float32)


def attribute(rng: np.random.Generator, name: str, row: Attribute, operand: TensorType) -> object:
    """A value that has a chance to fit the first operand."""
    rank = len(operand.shape)
    if row.kind == "bool":
        return bool(rng.random() < 0.5)
    if row.kind == "dtype":
        return str(rng.choice(["f32", "i64", "bool"]))
    if row.kind == "element":
        return str(rng.choice(["00", "01", "0000c03f", "000080ff", "feffffffffffffff"]))
    if row.kind == "choice":
        return int(rng.choice(row.choices))
    if row.kind == "int":
        return int(rng.integers(0, 5))
    if name == "dims":
        chosen = rng.permutation(rank)
        return chosen.tolist() if rng.random() < 0.5 else sorted(chosen[: rng.integers(0, rank + 1)].tolist())
    if name == "shape":
        return _shape(rng, operand)
    if name == "stops":
        return list(operand.shape)
    low = 1 if name == "steps" else 0
    return rng.integers(low, low + 3, rank).tolist()


def _shape(rng: np.random.Generator, operand: TensorType) -> list[int]:
    choice = rng.integers(0, 4)
    if choice == 0:
        return [operand.elements]
    if choice == 1:
        return [1, *operand.shape, 1]
    if choice == 2:
        return [int(rng.choice(SIZES)), *operand.shape]
    return [int(rng.choice(SIZES)) if size == 1 else size for size in operand.shape]


def _windows_product(
    rng: np.random.Generator, builder: ProgramBuilder, inputs: dict[str, Array], values: list[int]
) -> int:
    """Add a product with windows of a value, and its left operand as an input; return how many were added."""
    x = int(rng.choice(values))
    channels, *sizes = builder.type(x).shape or (0,)
    if builder.type(x).dtype != "f32" or not sizes or not builder.type(x).elements:
        return 0
    kernel = [int(rng.integers(1, min(size, 3) + 1)) for size in sizes]
    steps = [int(rng.choice([-1, 1])) for _ in sizes]
    strides = [int(rng.integers(1, 3)) for _ in sizes]
    room = [size - k for size, k in zip(sizes, kernel, strict=True)]
    attrs: dict[str, Any] = {
        "bits": int(rng.choice([8, 15, 22])),
        "transposed": bool(rng.random() < 0.5),
        "kernel": kernel,
        "steps": steps,
        "strides": strides,
        "starts": [k - 1 if step < 0 else 0 for k, step in zip(kernel, steps, strict=True)],
        "counts": [left // stride + 1 for left, stride in zip(room, strides, strict=True)],
    }
    groups = int(rng.choice([1, channels]))
    summed, columns = summed_and_columns(channels // groups, attrs)
    shape = (groups, int(rng.integers(1, 9)), summed)
    if groups * shape[1] * max(summed, columns) > 50_000:
        return 0
    name = f"global.l{len(inputs)}"
    inputs[name] = array(rng, "f32", shape)
    left = builder.input(name, "f32", shape)
    handle = builder.node("matmul_windows", left, x, **attrs)
    values.append(handle)
    builder.output(f"metric.w{len(inputs)}", builder.node("cast", handle, dtype="bool"))
    return 1


def _one(rng: np.random.Generator, builder: ProgramBuilder, name: str, values: list[int]) -> int | None:
    """Add a node of a primitive if it takes some of the values, and return its handle."""
    row = PRIMITIVES[name]
    args = rng.choice(values, rng.integers(row.arity[0], min(row.arity[1], 3) + 1)).tolist()
    first = builder.type(args[0]) if args else TensorType("f32", (2, 3))
    attrs: dict[str, Any] = {name: attribute(rng, name, kind, first) for name, kind in row.attributes.items()}
    try:
        handle = builder.node(row.name, *args, **attrs)
    except JobError:
        return None
    return handle if builder.type(handle).elements <= 50_000 else None


def _repeat(rng: np.random.Generator, builder: ProgramBuilder, values: list[int], depth: int = 0) -> int | None:
    """Add a repeat of a random body, within which there may be another one."""
    dtype = str(rng.choice(["f32", "f32", "f32", "i64", "bool"]))
    small = [v for v in values if builder.type(v).elements <= 2_000]
    long = [v for v in small if builder.type(v).shape and 0 < builder.type(v).shape[0] <= 9]
    count = builder.type(int(rng.choice(long))).shape[0] if long else int(rng.integers(1, 5))
    carried = _some(rng, [v for v in small if builder.type(v).dtype == dtype], 2)
    sequences = _some(rng, [v for v in long if builder.type(v).shape[0] == count], 3)
    constants = _some(rng, small, 3)
    body, inside = ProgramBuilder(), list[int]()
    for kind, chosen in (("carry", carried), ("sequence", sequences), ("constant", constants)):
        for index, value in enumerate(chosen):
            given = builder.type(value)
            shape = given.shape[1:] if kind == "sequence" else given.shape
            inside.append(body.input(f"{kind}.{index}", given.dtype, shape))
    for _ in range(int(rng.integers(0, 30)) if inside else 0):
        name = str(rng.choice(NAMES))
        if name == "repeat":
            handle = _repeat(rng, body, inside, depth + 1) if depth == 0 else None
        else:
            handle = _one(rng, body, name, inside) if name != "matmul_windows" else None
        if handle is not None and body.type(handle).elements <= 2_000:
            inside.append(handle)
    for index, value in enumerate(carried):
        fitting = [v for v in inside if body.type(v) == builder.type(value)]
        body.output(f"carry.{index}", int(rng.choice(fitting[-2:] if rng.random() < 0.7 else fitting)))
    stacked = _some(rng, [v for v in inside if body.type(v).dtype == dtype], 3)
    for index, value in enumerate(stacked):
        body.output(f"stacked.{index}", value)
    if not carried and not stacked:
        return None
    attrs = {"body": body.build(), "count": count, "reverse": bool(rng.random() < 0.5)}
    return builder.node("repeat", *carried, *sequences, *constants, **attrs)


def _some(rng: np.random.Generator, values: list[int], most: int) -> list[int]:
    """Some of the values, which may be the same; none where there are none."""
    return rng.choice(values, rng.integers(0, most + 1)).tolist() if values else []


def random_program(rng: np.random.Generator) -> tuple[Program, dict[str, Array]]:
    """A program of about ``NODES`` nodes, and inputs for it."""
    builder = ProgramBuilder()
    inputs: dict[str, Array] = {"step": np.array(rng.integers(0, 9))}
    values = [builder.input("step", "i64", ())]
    sides = [int(size) for size in rng.choice(SIZES, 3)]
    for index in range(6):
        dtype = str(rng.choice(["f32", "f32", "i64", "bool"]))
        shape = tuple(int(size) for size in rng.choice([*sides, 1], rng.integers(0, 4)))
        inputs[f"global.t{index}"] = array(rng, dtype, shape)
        values.append(builder.input(f"global.t{index}", dtype, shape))
    made = 0
    for _ in range(40 * NODES):
        chosen = str(rng.choice(NAMES))
        if chosen == "matmul_windows":
            made += _windows_product(rng, builder, inputs, values)
            continue
        handle = _repeat(rng, builder, values) if chosen == "repeat" else _one(rng, builder, chosen, values)
        if handle is None:
            continue
        values.append(handle)
        made += 1
        # an output of bool keeps the node and does not mind infinities
        builder.output(f"metric.v{made}", builder.node("cast", handle, dtype="bool"))
        if made == NODES:
            break
    return builder.build(), inputs


def shown(rng: np.random.Generator) -> tuple[Program, dict[str, Array]]:
    """A random program whose values are outputs as they are: some of them, and all that nobody reads."""
    program, inputs = random_program(rng)
    read = {arg for node in program.nodes for arg in node.args}
    numbers = range(program.first_node, len(program.types))
    outputs = {f"global.v{n}": n for n in numbers if n not in read or rng.random() < 0.4}
    return make_program(program.inputs, program.constants, program.nodes, outputs), inputs


def every_value(executor: Backend, program: Program, inputs: dict[str, Array]) -> tuple[list[bytes], str]:
    """The bits of every node, and how the run ended."""
    numbers = range(program.first_node, len(program.types))
    outputs = {f"global.v{number:05}": number for number in numbers}
    all_shown = make_program(program.inputs, program.constants, program.nodes, outputs)
    seen: list[bytes] = []
    try:
        found = executor.compile(all_shown, 7).run(inputs)
        seen = [bits(found[name]) for name in sorted(outputs)]
        run(program, inputs, 7, executor)
    except (NotFinite, OutOfRange) as error:
        return seen, str(error)
    return seen, ""


def outcome(executor: Backend, program: Program, inputs: dict[str, Array]) -> object:
    """The outputs of a run as a back end takes programs (fused, where it does that), or how it ended."""
    try:
        found = executor.compile(program, 7).run(inputs)
    except OutOfRange as error:
        return str(error)
    return {key: (bits(value), value.shape, value.dtype) for key, value in found.items()}


def observed(executor: Backend, program: Program, inputs: dict[str, Array]) -> dict[str, object]:
    """All that can be seen of a program on a back end, each by what it is."""
    values, ending = every_value(executor, program, inputs)
    nodes = enumerate(zip(program.nodes, values, strict=False))
    seen: dict[str, object] = {f"node {at} ({node.op})": value for at, (node, value) in nodes}
    return seen | {"the end": ending, "an output": outcome(executor, program, inputs)}
