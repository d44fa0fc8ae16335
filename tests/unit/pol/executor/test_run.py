"""The interpreter: inputs, outputs, what it keeps, and a whole training step."""

import gc
import tracemalloc
import weakref
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import pytest

from pol.errors import ExecutionError, NotFinite
from pol.executor.backend import backend
from pol.executor.interface import nothing_reads, run
from pol.executor.names import BACKENDS, Engine
from pol.job.document import BATCH_NUMBER
from pol.job.program import Program, ProgramBuilder
from pol.ops.product import integer_sums
from pol.state.arrays import Array, State, canonical_array
from pol.state.canonical import state_tree
from pol.state.held import Held, on_host
from tests.unit.pol import mlp
from tests.unit.pol.executor.ops import get


def halves() -> Program:
    builder = ProgramBuilder()
    x = builder.input("global.x", "f32", (3,))
    half = builder.constant("f32", (), np.array(0.5, "<f4").tobytes())
    builder.output("global.y", builder.node("mul", x, half))
    builder.output("global.x", x)
    return builder.build()


@pytest.mark.parametrize("name", BACKENDS)
def test_outputs_are_canonical_and_own_their_memory(name: str) -> None:
    x = np.array([1.0, -0.0, 3.0], np.float32)
    x.flags.writeable = False
    outputs = run(halves(), {"global.x": x, "other": x}, 0, get(name))
    assert list(outputs) == ["global.x", "global.y"]
    assert outputs["global.y"].tolist() == [0.5, 0.0, 1.5]
    for array in outputs.values():
        assert not np.signbit(array).any()
        assert not np.shares_memory(array, x)


@pytest.mark.parametrize("name", BACKENDS)
def test_numbers_of_numpy_are_inputs_too(name: str) -> None:
    """NumPy gives them where an array of no dimension was to come."""
    builder = ProgramBuilder()
    x = builder.input("x", "f32", ())
    builder.output("y", builder.node("add", x, x))
    program = builder.build()
    for number in (np.float32(1.5), np.float32(2.5)):
        given: dict[str, Any] = {"x": number}
        assert run(program, given, 0, get(name))["y"] == 2 * number


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite_is_an_error_that_names_the_output(name: str, value: float) -> None:
    x = np.array([1.0, value, 3.0], np.float32)
    with pytest.raises(NotFinite) as caught:
        run(halves(), {"global.x": x}, 0, get(name))
    assert caught.value.field == "global.x"


@pytest.mark.parametrize(
    "wrong", [np.zeros(2, np.float32), np.zeros(3, np.float64), np.zeros((3, 1), np.float32), None]
)
def test_inputs_of_another_type(wrong: Array | None) -> None:
    inputs = {} if wrong is None else {"global.x": wrong}
    with pytest.raises(ExecutionError) as caught:
        run(halves(), inputs, 0, get("numpy"))
    assert caught.value.field == "global.x"


def test_unknown_back_end() -> None:
    with pytest.raises(ExecutionError, match="use one of native, numpy, torch"):
        backend(Engine("jax"))


class Whole:
    """A back end that knows no nodes: it runs this one program in a single expression."""

    name = "whole"
    integer_sums = staticmethod(integer_sums)

    def compile(self, program: Program, seed: int) -> "Whole":
        assert len(program.nodes) == 1
        return self

    def run(self, inputs: Mapping[str, Held]) -> dict[str, Array]:
        assert list(inputs) == ["global.x"]
        x = on_host(inputs["global.x"])
        return {"global.x": x, "global.y": x * np.float32(0.5)}

    def canonical(
        self,
        inputs: Mapping[str, Held],
        donated: Collection[str] = (),
        release: Callable[[], None] = nothing_reads,
    ) -> dict[str, Array]:
        return {name: canonical_array(found, name) for name, found in self.run(inputs).items()}


def test_a_back_end_may_take_a_program_as_a_whole() -> None:
    x = np.array([1.0, -0.0, 3.0], np.float32)
    outputs = run(halves(), {"global.x": x, "other": x}, 0, Whole())
    expected = run(halves(), {"global.x": x}, 0, get("numpy"))
    assert state_tree(outputs).root == state_tree(expected).root
    with pytest.raises(ExecutionError):
        run(halves(), {}, 0, Whole())
    with pytest.raises(NotFinite):
        run(halves(), {"global.x": np.full(3, np.inf, np.float32)}, 0, Whole())


def test_programs_are_compiled_once_and_forgotten_with_them() -> None:
    program, numpy = halves(), get("numpy")
    inputs = {"global.x": np.ones(3, np.float32)}
    run(program, inputs, 1, numpy)
    first = numpy.compile(program, 1)
    assert numpy.compile(program, 1) is first
    assert numpy.compile(program, 2) is not first
    assert backend(Engine("numpy")).compile(program, 1) is not first
    watched = weakref.ref(program)
    del program
    gc.collect()
    assert watched() is None


def test_dead_values_are_freed() -> None:
    builder = ProgramBuilder()
    value = builder.input("global.x", "f32", (250_000,))
    for _ in range(50):
        value = builder.node("neg", value)
    builder.output("global.x", value)
    program = builder.build()
    # the input and a copy of it, one operand, one result; at the end a canonical copy with its flags
    assert program.peak_size == 4_250_000
    inputs = {"global.x": np.ones(250_000, np.float32)}
    run(program, inputs, 1, get("numpy"))
    tracemalloc.start()
    run(program, inputs, 1, get("numpy"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000  # 50 million bytes if all were kept


def train(name: str, steps: int) -> tuple[State, list[float]]:
    program, data = mlp.step_program(), mlp.rows(400)
    weights, local = mlp.initial_states()
    state: dict[str, Array] = {f"global.{key}": value for key, value in weights.items()}
    state |= {f"local.{key}": value for key, value in local.items()}
    losses = []
    for step in range(steps):
        rows = np.arange(step * mlp.BATCH, (step + 1) * mlp.BATCH) % 400
        batch = {f"batch.{key}": column[rows] for key, column in data.items()}
        outputs = run(program, {**state, **batch, **mlp.numbers(step)}, 7, get(name))
        losses.append(float(outputs.pop("metric.loss")))
        state |= outputs
    return state, losses


def test_a_training_step_has_one_root_in_both_back_ends_and_learns() -> None:
    state, losses = train("numpy", 30)
    other, _ = train("torch", 30)
    assert state_tree(state).root == state_tree(other).root
    assert losses[0] == pytest.approx(np.log(mlp.CLASSES), rel=0.2)
    assert np.mean(losses[-5:]) < 0.6 * losses[0]


def test_gradients_are_those_of_the_loss() -> None:
    """The hand-made step agrees with finite differences, so the tests train something real."""
    m = mlp.Maker()
    parameters = {name: m.builder.input(f"global.{name}", "f32", shape) for name, shape in mlp.SHAPES.items()}
    number = m.builder.input(BATCH_NUMBER, "i64", ())
    loss, gradients = mlp._gradients(m, parameters, number, mlp.BATCH, 0.1)
    m.builder.output("metric.loss", loss)
    for name, handle in gradients.items():
        m.builder.output(f"global.{name}", handle)
    program, (weights, _) = m.builder.build(), mlp.initial_states()
    batch = {f"batch.{key}": column for key, column in mlp.rows(mlp.BATCH).items()}

    def evaluate(changed: State) -> dict[str, Array]:
        state = {f"global.{name}": value for name, value in changed.items()}
        return run(program, {**state, **batch, **mlp.numbers(3)}, 7, get("numpy"))

    exact = evaluate(weights)
    direction = {name: exact[f"global.{name}"] for name in weights}
    length = np.sqrt(sum(float((value.astype(np.float64) ** 2).sum()) for value in direction.values()))
    slope = {}
    for sign in (1, -1):
        moved = {n: (w + np.float32(sign * 0.01 / length) * direction[n]) for n, w in weights.items()}
        slope[sign] = float(evaluate(moved)["metric.loss"])
    assert (slope[1] - slope[-1]) / 0.02 == pytest.approx(length, rel=0.02)
