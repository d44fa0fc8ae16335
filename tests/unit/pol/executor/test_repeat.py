"""A repeat on every executor: the bits of its unrolling, the place of each operation in it, and one piece of memory."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from pol.errors import OutOfRange
from pol.executor.fusion import grouped
from pol.executor.interface import run
from pol.executor.names import BACKENDS
from pol.executor.native_backend import NativeBackend, Taped
from pol.executor.tape import InstructionKind, Tape, write_tape
from pol.job.program import Program, ProgramBuilder
from pol.job.unroll import unroll
from pol.native.library import load_library
from pol.state.arrays import Array
from pol.values import TensorType
from tests.support.bodies import counter, moved, nested, recurrence
from tests.unit.pol.executor.ops import bits as bits_of
from tests.unit.pol.executor.ops import floats, get, node_by_node

Inputs = Mapping[str, Array]


def repeated(
    body: Program,
    inputs: Inputs,
    count: int,
    *,
    reverse: bool = False,
    seen: Callable[[ProgramBuilder, int], int] = lambda _, value: value,
) -> Program:
    """A program with one repeat, whose operands are inputs as they are, or as they are ``seen``."""
    b = ProgramBuilder()
    operands = []
    for name, array in inputs.items():
        dtype = {"float32": "f32", "int64": "i64", "bool": "bool"}[str(array.dtype)]
        operands.append(seen(b, b.input(name, dtype, array.shape)))
    result = b.node("repeat", *operands, body=body, count=count, reverse=reverse)
    b.output("result", result)
    return b.build()


def same(program: Program, inputs: Inputs) -> Array:
    """The result, after checking that it is that of the unrolling on every executor."""
    flat = unroll(program)
    wanted = get("numpy").compile(flat, 7).run(inputs)
    for name in BACKENDS:
        for form in (program, flat):
            found = get(name).compile(form, 7).run(inputs)
            for output, value in found.items():
                assert bits_of(value) == bits_of(wanted[output]), f"{name}: {output} differs"
    return wanted["result"]


def of_recurrence(shape: tuple[int, ...], count: int) -> dict[str, Array]:
    return {
        "state": floats(*shape),
        "parts": floats(count, *shape, seed=1),
        "scale": floats(*shape, seed=2),
    }


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("shape", [(), (3,), (2, 5), (0, 2), (70, 300)])
def test_turns_follow_one_another(shape: tuple[int, ...], count: int, reverse: bool) -> None:
    inputs = of_recurrence(shape, count)
    result = same(repeated(recurrence(shape, "abs"), inputs, count, reverse=reverse), inputs)
    state, stack = inputs["state"], np.zeros((count, *shape), np.float32)
    for at in reversed(range(count)) if reverse else range(count):
        state = np.abs(state * inputs["scale"] + inputs["parts"][at])
        stack[at] = state
    assert bits_of(result) == bits_of(np.concatenate([state.reshape(-1), stack.reshape(-1)]))


def test_what_is_carried_changes_places_at_once() -> None:
    b = ProgramBuilder()
    first, second, third = (b.input(f"carry.{at}", "i64", (3,)) for at in range(3))
    b.output("carry.0", second)
    b.output("carry.1", third)
    b.output("carry.2", b.node("sub", first, second))
    inputs = {"a": np.array([1, 2, 3]), "b": np.array([10, 20, 30]), "c": np.array([-1, 0, 5])}
    result = same(repeated(b.build(), inputs, 4), inputs).reshape(3, 3)
    a, c, d = inputs.values()
    for _ in range(4):
        a, c, d = c, d, a - c
    assert result.tolist() == [a.tolist(), c.tolist(), d.tolist()]


def test_one_value_may_be_carried_and_stacked_often() -> None:
    b = ProgramBuilder()
    state, part = b.input("carry.0", "f32", (2,)), b.input("sequence.0", "f32", (2,))
    b.input("carry.1", "f32", (2,))
    total = b.node("add", state, part)
    for name in ("carry.0", "carry.1", "stacked.0", "stacked.1"):
        b.output(name, total)
    turned = b.node("permute", b.node("reshape", total, shape=[1, 2]), dims=[1, 0])
    b.output("stacked.2", turned)
    b.output("stacked.3", part)
    b.output("stacked.4", state)
    inputs = {"x": floats(2), "y": floats(2, seed=5), "parts": floats(3, 2, seed=1)}
    names = ["x", "y", "parts"]
    b2 = ProgramBuilder()
    given = [b2.input(name, "f32", inputs[name].shape) for name in names]
    body = _in_order(b.build())
    b2.output("result", b2.node("repeat", *given, body=body, count=3, reverse=False))
    same(b2.build(), inputs)


def _in_order(body: Program) -> Program:
    """The same with its inputs in the order of a body."""
    from pol.job.program import Node, make_program

    order = sorted(range(len(body.inputs)), key=lambda at: body.inputs[at].name)
    place = {old: new for new, old in enumerate(order)}
    nodes = [Node(n.op, tuple(place.get(a, a) for a in n.args), n.attrs) for n in body.nodes]
    outputs = {name: place.get(number, number) for name, number in body.outputs.items()}
    return make_program([body.inputs[at] for at in order], body.constants, nodes, outputs)


VIEWS: dict[str, tuple[tuple[int, ...], Callable[[ProgramBuilder, int], int]]] = {
    "turned": ((5, 3), lambda b, v: b.node("permute", v, dims=[1, 0])),
    "spread": ((1, 5), lambda b, v: b.node("broadcast", v, shape=[3, 5])),
    "part": ((6, 5), lambda b, v: b.node("slice", v, starts=[0, 0], stops=[6, 5], steps=[2, 1])),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("view", VIEWS)
def test_operands_may_lie_in_any_way(view: str, reverse: bool) -> None:
    shape, seen = VIEWS[view]
    b = ProgramBuilder()
    x = seen(b, b.input("x", "f32", shape))
    matrix, row = b.type(x).shape, b.node("slice", x, starts=[0, 0], stops=[1, 5], steps=[1, 1])
    state = b.node("reshape", row, shape=[5])
    c = ProgramBuilder()
    carried, part = c.input("carry.0", "f32", (5,)), c.input("sequence.0", "f32", (5,))
    whole = c.input("constant.0", "f32", matrix)
    seen_whole = c.node("sum", c.node("mul", whole, part), dims=[0], keepdim=False)
    c.output("carry.0", c.node("add", carried, seen_whole))
    c.output("stacked.0", c.node("mul", whole, carried))
    result = b.node("repeat", state, x, x, body=c.build(), count=3, reverse=reverse)
    b.output("result", result)
    same(b.build(), {"x": floats(*shape)})


def test_products_and_views_inside() -> None:
    c = ProgramBuilder()
    state, part = c.input("carry.0", "f32", (4, 6)), c.input("sequence.0", "f32", (4, 3))
    weight, other = c.input("constant.0", "f32", (6, 6)), c.input("constant.1", "f32", (3, 6))
    turned = c.node("permute", weight, dims=[1, 0])
    total = c.node("add", c.node("matmul", state, turned, bits=15), c.node("matmul", part, other, bits=8))
    after = c.node("tanh", total)
    c.output("carry.0", after)
    c.output("stacked.0", c.node("permute", c.node("matmul", after, weight, bits=22), dims=[1, 0]))
    inputs = {
        "h": floats(4, 6),
        "x": floats(9, 4, 3, seed=1),
        "w": floats(6, 6, seed=2),
        "v": floats(3, 6, seed=3),
    }
    same(repeated(c.build(), inputs, 9), inputs)


def _of_products(bits: int, rows: int) -> Program:
    """Constants as they are and transposed, on the left and on the right, with a batch of one, and twice."""
    c = ProgramBuilder()
    h = c.input("carry.0", "f32", (rows, 21))
    x = c.input("sequence.0", "f32", (21, 21))
    w, v = c.input("constant.0", "f32", (21, 21)), c.input("constant.1", "f32", (1, 21, 21))
    turned = c.node("permute", w, dims=[1, 0])
    h = c.node("matmul", h, w, bits=bits)
    h = c.node("matmul", h, turned, bits=bits)
    h = c.node("matmul", c.node("tanh", h), turned, bits=bits)
    one = c.node("matmul", c.node("reshape", h, shape=[1, rows, 21]), v, bits=bits)
    after = c.node("tanh", c.node("reshape", one, shape=[rows, 21]))
    left = c.node("matmul", w, c.node("permute", after, dims=[1, 0]), bits=bits)
    c.output("carry.0", c.node("tanh", c.node("permute", left, dims=[1, 0])))
    of_x = c.node("matmul", w, x, bits=bits)
    c.output("stacked.0", c.node("matmul", of_x, c.node("matmul", w, w, bits=bits), bits=bits))
    return c.build()


def _kinds(tape: Tape) -> list[InstructionKind]:
    """What the instructions of a tape do."""
    found = []
    at = 0
    while at < len(tape.words):
        found.append(InstructionKind(tape.words[at]))
        at += tape.words[at + 1]
    return found


@pytest.mark.parametrize("rows", [1, 40, 300])
@pytest.mark.parametrize("bits", [8, 15, 22])
def test_what_is_the_same_in_each_turn_is_packed_once(bits: int, rows: int) -> None:
    inputs = {
        "h": floats(rows, 21),
        "x": floats(3, 21, 21, seed=1),
        "w": floats(21, 21, seed=2),
        "v": floats(1, 21, 21, seed=3),
    }
    program = repeated(_of_products(bits, rows), inputs, 3)
    result = same(program, inputs)
    kinds = _kinds(write_tape(program, 7, grouped))
    packed = [at for at, kind in enumerate(kinds) if kind is InstructionKind.PACK]
    # of 22 bits nothing is packed; beside many rows it does not count
    assert len(packed) == (0 if bits == 22 else 2 if rows == 300 else 4)
    assert all(at < kinds.index(InstructionKind.TURNS) for at in packed)
    library = load_library()
    if library is None:
        pytest.skip("there are no native kernels here")
    shared = NativeBackend(library, threads=3, grain=1)
    assert bits_of(shared.compile(program, 7).run(inputs)["result"]) == bits_of(result)


def test_what_changes_between_turns_is_packed_again() -> None:
    """What a turn within carries nothing of may change in the turns around it."""
    inner = ProgramBuilder()
    h, w = inner.input("carry.0", "f32", (2, 5)), inner.input("constant.0", "f32", (5, 5))
    inner.output("carry.0", inner.node("tanh", inner.node("matmul", h, w, bits=15)))
    c = ProgramBuilder()
    w, x = c.input("carry.0", "f32", (5, 5)), c.input("sequence.0", "f32", (2, 5))
    attrs: dict[str, Any] = {"body": inner.build(), "count": 4, "reverse": False}
    c.output("carry.0", c.node("neg", c.node("matmul", w, w, bits=15)))
    c.output("stacked.0", c.node("repeat", x, w, **attrs))
    inputs = {"w": floats(5, 5), "x": floats(3, 2, 5, seed=1)}
    program = repeated(c.build(), inputs, 3)
    same(program, inputs)
    kinds = _kinds(write_tape(program, 7, grouped))
    assert kinds.index(InstructionKind.TURNS) < kinds.index(InstructionKind.PACK)


def test_a_repeat_within_a_repeat() -> None:
    inputs = {"x": np.array(1.5, np.float32)}
    result = same(repeated(nested(counter(), (3,)), inputs, 5), inputs)
    assert result.tolist() == [-1.5]


def test_random_numbers_are_those_of_the_number_they_are_given() -> None:
    c = ProgramBuilder()
    number, state = c.input("sequence.0", "i64", ()), c.input("carry.0", "f32", (3,))
    drawn = c.node("uniform", number, shape=[3], site=4)
    c.output("carry.0", c.node("add", state, drawn))
    c.output("stacked.0", drawn)
    inputs = {"x": floats(3), "n": np.array([5, 5, 9])}
    result = same(repeated(_in_order(c.build()), inputs, 3), inputs)[3:].reshape(3, 3)
    assert result[0].tolist() == result[1].tolist() != result[2].tolist()


@pytest.mark.parametrize("name", BACKENDS)
def test_a_row_that_is_not_there_ends_the_program(name: str) -> None:
    c = ProgramBuilder()
    index, table = c.input("sequence.0", "i64", ()), c.input("constant.0", "f32", (3,))
    c.output("stacked.0", c.node("take", table, index))
    inputs = {"i": np.array([0, 2, 3]), "t": floats(3)}
    with pytest.raises(OutOfRange, match=r"row 3, .*0\.\.2"):
        run(repeated(c.build(), inputs, 3), inputs, 7, get(name))


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_every_operation_has_a_place(name: str) -> None:
    """A node, the turn, and the node within: whoever compares two of them has bisected to one operation."""
    inputs = of_recurrence((2,), 2)
    program, seen = (
        repeated(recurrence((2,)), inputs, 2, reverse=True),
        dict[tuple[int, ...], Array](),
    )
    executor = node_by_node(name)
    executor.compile(program, 7).run(inputs, seen.__setitem__)
    first, inner = program.first_node, recurrence((2,)).first_node
    assert list(seen) == [(first, turn, inner + at) for turn in range(2) for at in range(3)] + [(first,)]
    flat, values = unroll(program), dict[tuple[int, ...], Array]()
    executor.compile(flat, 7).run(inputs, values.__setitem__)
    wanted = [value for (number,), value in values.items() if flat.nodes[number - flat.first_node].op == "tanh"]
    assert [bits_of(seen[first, turn, inner + 2]) for turn in range(2)] == list(map(bits_of, wanted))


def test_native_kernels_take_a_body_once_however_many_turns() -> None:
    sizes = {}
    for count in (2, 200):
        program = repeated(recurrence((8, 8)), of_recurrence((8, 8), count), count)
        compiled = get("native").compile(program, 7)
        if not isinstance(compiled, Taped):
            pytest.skip("there are no native kernels here")
        sizes[count] = len(compiled._tape.words), compiled.arena - 4 * 64 * count
    (few, small), (many, large) = sizes.values()
    assert few == many
    assert abs(large - small) < 2_000


def test_large_values_are_moved_and_not_kept() -> None:
    shape = (64, 1_000)
    inputs = {"x": floats(*shape), "parts": floats(4, *shape, seed=3)}
    same(repeated(moved(shape), inputs, 4), inputs)
    assert TensorType("f32", shape).size > 2**17


def test_outputs_lie_in_the_place_of_inputs_only_when_these_were_read() -> None:
    """The state is read in every turn, so its new value may not be written before the last one."""
    b: Any = ProgramBuilder()
    state, parts = b.input("global.w", "f32", (4,)), b.input("x", "f32", (3, 4))
    c = ProgramBuilder()
    total, part, weight = (c.input(n, "f32", (4,)) for n in ("carry.0", "sequence.0", "constant.0"))
    c.output("carry.0", c.node("add", total, c.node("mul", part, weight)))
    ended = b.node("repeat", state, parts, state, body=c.build(), count=3, reverse=False)
    b.output("global.w", b.node("sub", state, ended))
    program, w, x = b.build(), floats(4), floats(3, 4, seed=1)
    wanted = run(program, {"global.w": w, "x": x}, 7, get("numpy"))["global.w"]
    for name in BACKENDS:
        given = {"global.w": w.copy(), "x": x}
        found = run(program, given, 7, get(name), donated=["global.w"])["global.w"]
        assert bits_of(found) == bits_of(wanted)
