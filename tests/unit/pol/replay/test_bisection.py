"""A lie about one operation, in one turn of a repeat, in one step: honest replay ends at this very operation."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from pol.executor.backend import backend
from pol.executor.interface import Backend, Compiled
from pol.executor.names import BACKENDS, Engine
from pol.job.dataset import batch_at
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.load import LoadedJob, load_job
from pol.job.program import Constant, Node, Program, make_program
from pol.local.run import run_locally
from pol.ops.product import integer_sums
from pol.ops.repeat import CARRY, SEQUENCE, form
from pol.replay.narrow import TraceParty, make_record, narrow
from pol.replay.operations import OperationRun, OperationRunner, value_hash
from pol.replay.place_record import record_name, write_record
from pol.replay.replay import replay_segment
from pol.replay.trace_file import read_trace
from pol.replay.walk import PlaceKind
from pol.state.arrays import Array, State
from pol.state.canonical import encode_state
from pol.values import TensorSpec
from pol.work.records import Boundary, RoundSlot
from pol.work.segments import SlotState, run_segment, slot_state, step_inputs
from pol.work.train import train_share
from tests.support.liar import OperationLiar
from tests.unit.pol.executor.ops import bits, get, node_by_node

torch = pytest.importorskip("torch", reason="the job of these tests is traced")

SHARE, LIED_STEP, TURNS = RoundSlot(0, 0), 4, 5
Place = tuple[int, ...]
Values = dict[Place, Array]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four segments of two steps: a layer of torch, and a loop that somebody wrote, each with its gradient."""
    from tests.unit.pol.replay.recurrent_job import build_recurrent_job

    folder = tmp_path_factory.mktemp("recurrent")
    build_recurrent_job(folder, TURNS)
    return folder


@pytest.fixture(scope="module")
def job(folder: Path) -> LoadedJob:
    return load_job(folder)


# --- who lies ---


@dataclass(frozen=True)
class Liar:
    """An executor that runs another program in the place of one."""

    executor: Backend
    program: Program
    forged: Program
    name: str = "liar"
    integer_sums = staticmethod(integer_sums)

    def compile(self, program: Program, seed: int) -> Compiled:
        """Return the other one, ready to run."""
        return self.executor.compile(self.forged if program is self.program else program, seed)


@dataclass(frozen=True)
class Forgery:
    """A program that adds something to one operation of a turn of a repeat in one step.

    ``outer`` and ``inner`` say where the values of the honest program, and of the body, are in it.
    """

    program: Program
    outer: Callable[[int], int]
    inner: Callable[[int], int]


def _forged(program: Program, place: Place) -> Forgery:
    number, turn, lied = place
    node = program.nodes[number - program.first_node]
    body, count = node.attrs["body"], node.attrs["count"]
    shape = body.types[lied].shape
    parts = form(body, count)
    at = parts.carried + parts.sequences

    def inner(value: int) -> int:
        return value + (value >= at) + (value >= lied)

    def after(value: int) -> int:
        return value + (value >= at) + (value > lied)

    inputs = list(body.inputs)
    inputs.insert(at, TensorSpec(f"{SEQUENCE}.{parts.sequences}", "f32", shape))
    nodes = []
    for old, one in enumerate(body.nodes, body.first_node):
        args = tuple(inner(arg) for arg in one.args)
        nodes.append(Node(one.op, args, one.attrs))
        if old == lied:
            nodes.append(Node("add", (after(lied), at), {}))
    outputs = {name: inner(value) for name, value in body.outputs.items()}
    lying = make_program(inputs, body.constants, nodes, outputs)

    lies = np.zeros((count, *shape), np.float32)
    lies[turn] = 0.25
    constants = [
        *program.constants,
        Constant("i64", (), np.int64(LIED_STEP).tobytes()),
        Constant("f32", lies.shape, lies.tobytes()),
    ]
    first = program.first_node + 2

    def outer(value: int) -> int:
        return value + 2 * (value >= program.first_node) + 5 * (value >= number)

    step = next(n for n, spec in enumerate(program.inputs) if spec.name == STEP)
    begin, ones = outer(number) - 5, [1] * lies.ndim
    made = [
        Node("eq", (step, first - 2), {}),
        Node("cast", (begin,), {"dtype": "f32"}),
        Node("reshape", (begin + 1,), {"shape": ones}),
        Node("broadcast", (begin + 2,), {"shape": list(lies.shape)}),
        Node("mul", (begin + 3, first - 1), {}),
    ]
    nodes = [Node(n.op, tuple(outer(arg) for arg in n.args), n.attrs) for n in program.nodes]
    index = number - program.first_node
    operands = list(nodes[index].args)
    operands.insert(at, begin + 4)
    nodes[index] = Node("repeat", tuple(operands), {**node.attrs, "body": lying})
    nodes[index:index] = made
    outputs = {name: outer(value) for name, value in program.outputs.items()}
    return Forgery(make_program(program.inputs, constants, nodes, outputs), outer, after)


def _places(program: Program) -> list[Place]:
    """An operation in the midst of each body, in a turn in the midst."""
    found: list[Place] = []
    for number, node in enumerate(program.nodes, program.first_node):
        if node.op != "repeat":
            continue
        body: Program = node.attrs["body"]
        within = [
            inner
            for inner, one in enumerate(body.nodes, body.first_node)
            if one.op in ("mul", "add", "tanh", "matmul") and body.types[inner].dtype == "f32"
        ]
        found.append((number, 2, within[len(within) // 2]))
    return found


# --- who checks ---


def _inputs(loaded: LoadedJob, state: SlotState, step: int) -> dict[str, Array]:
    inputs = {f"global.{name}": array for name, array in state.global_state.items()}
    inputs |= {f"local.{name}": array for name, array in state.local_state.items()}
    number = np.array(step, np.int64)
    return inputs | batch_at(loaded.data, loaded.job, step) | {STEP: number, BATCH_NUMBER: number}


def _seen(program: Program, inputs: dict[str, Array], name: str) -> Values:
    values: Values = {}

    def see(place: Place, value: Array) -> None:
        values[place] = value.copy()

    node_by_node(name).compile(program, 7).run(inputs, see)
    return values


def _operand(program: Program, inputs: dict[str, Array], values: Values, number: int) -> Array:
    if number < len(program.inputs):
        return inputs[program.inputs[number].name]
    if number < program.first_node:
        constant = program.constants[number - len(program.inputs)]
        kind = {"f32": np.float32, "i64": np.int64, "bool": np.bool_}[constant.dtype]
        return np.frombuffer(constant.data, kind).reshape(constant.shape)
    return values[number,]


def _operand_within(program: Program, inputs: dict[str, Array], values: Values, place: Place) -> Array:
    """The value of a number in a turn: of what is carried, one of the turn before or of the repeat's operands."""
    number, turn, inner = place
    node = program.nodes[number - program.first_node]
    body: Program = node.attrs["body"]
    if inner >= body.first_node:
        return values[place]
    if inner >= len(body.inputs):
        return _operand(body, {}, {}, inner)
    kind, _, index = body.inputs[inner].name.partition(".")
    if kind == CARRY and turn > 0:
        ended = body.outputs[f"{CARRY}.{index}"]
        return _operand_within(program, inputs, values, (number, turn - 1, ended))
    given = _operand(program, inputs, values, node.args[inner])
    at = node.attrs["count"] - 1 - turn if node.attrs["reverse"] else turn
    return given[at] if kind == SEQUENCE else given


def _alone(body: Program, inner: int, operands: list[Array], executor: Backend) -> Array:
    """One operation as a program of its own."""
    node = body.nodes[inner - body.first_node]
    specs = [
        TensorSpec(f"given.{at}", body.types[arg].dtype, body.types[arg].shape) for at, arg in enumerate(node.args)
    ]
    single = make_program(specs, [], [Node(node.op, tuple(range(len(specs))), node.attrs)], {"found": len(specs)})
    given = {spec.name: array for spec, array in zip(specs, operands, strict=True)}
    return executor.compile(single, 7).run(given)["found"]


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("name", BACKENDS)
def test_a_lie_about_one_operation_of_a_turn_is_found(job: LoadedJob, name: str, which: int) -> None:
    step_program, honest = job.job.document.step, get(name)
    places = _places(step_program)
    assert len(places) == 4
    lied = places[which]
    forgery = _forged(step_program, lied)
    liar = Liar(backend(Engine(name)), step_program, forgery.program)

    # the trace: boundaries, and the states at them
    states: list[tuple[Boundary, State, State]] = []

    def keep(boundary: Boundary, *reached: State) -> None:
        # the next step may lie where they are
        first, second = ({n: a.copy() for n, a in state.items()} for state in reached)
        states.append((boundary, first, second))

    train_share(job, SHARE, job.global_state, job.local_state, backend=liar, on_boundary=keep)

    # the segment
    def holds(index: int) -> bool:
        boundary, opening, local = states[index]
        replayed = replay_segment(job, SHARE, index, opening, local, honest)
        return replayed.boundary == states[index + 1][0] and boundary.index == index

    assert [holds(index) for index in range(4)] == [True, True, False, True]

    # the step
    def behind(executor: Backend) -> list[tuple[int, SlotState]]:
        found: list[tuple[int, SlotState]] = []
        start = slot_state(job, *states[2][1:])
        run_segment(job, SHARE, 2, start, executor, lambda step, _, s: found.append((step, s)))
        return found

    steps = [
        step
        for (step, mine), (_, theirs) in zip(behind(honest), behind(liar), strict=True)
        if encode_state(mine.global_state) != encode_state(theirs.global_state)
    ]
    assert steps[0] == LIED_STEP

    # the operation: native kernels show none, so NumPy, which has their bits, shows it
    shown = "numpy" if name == "native" else name
    inputs = _inputs(job, slot_state(job, *states[2][1:]), LIED_STEP)
    seen, claimed = (_seen(p, inputs, shown) for p in (step_program, forgery.program))

    def claim(place: Place) -> Array:
        outer, *within = forgery.outer(place[0]), *place[1:]
        if within and place[0] == lied[0]:
            within[1] = forgery.inner(within[1])
        return claimed[(outer, *within)]

    # what the forger wrote over the operation itself is its claim
    number, turn, inner = lied
    claimed[forgery.outer(number), turn, forgery.inner(inner)] = claimed[
        forgery.outer(number), turn, forgery.inner(inner) + 1
    ]
    found = next(place for place in seen if bits(seen[place]) != bits(claim(place)))
    assert found == lied

    # and it is judged alone, on any executor
    node = step_program.nodes[number - step_program.first_node]
    body: Program = node.attrs["body"]
    operands = [
        _operand_within(step_program, inputs, seen, (number, turn, arg))
        for arg in body.nodes[inner - body.first_node].args
    ]
    for judge in BACKENDS:
        own = _alone(body, inner, operands, get(judge))
        assert bits(own) == bits(seen[lied]) != bits(claim(lied))


def test_a_record_names_the_operation_of_a_turn(folder: Path, job: LoadedJob, tmp_path: Path) -> None:
    """The same for people: the trace of a liar, and its record of the segment, lead to the operation in one command."""
    start, document = slot_state(job, job.global_state, job.local_state), job.job.document
    ran: list[OperationRun] = []
    OperationRunner(get("numpy"), document.seed).run(document.step, step_inputs(job, start, 0, 0), ran.append)
    lied = [each for each in ran if len(each.path) == 3 and each.node.op == "tanh" and each.path[1] == 1][-1]
    liar = OperationLiar(get("numpy"), "tanh", tuple(map(value_hash, lied.operands)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("pol.local.run.backend", lambda _: liar)
        run_locally(folder, out=tmp_path)
    theirs = TraceParty(name="theirs", trace=read_trace(tmp_path / "trace.json"), records=tmp_path)
    record = make_record(theirs, job, liar, PlaceKind.SEGMENT, 0, 0, 0)
    write_record(record, tmp_path / record_name(PlaceKind.SEGMENT, 0, 0, 0))
    found = narrow(theirs, None, job, get("native"))
    assert found is not None
    difference = found.difference
    number, turn, operation = lied.path
    assert (difference.step, difference.node, difference.turn, difference.inner) == (0, number, turn, operation)
    assert difference.path == lied.path
    words = f"step 0, node {number} (repeat), turn {turn}, operation {operation} (tanh): from the same inputs"
    assert words in difference.sentence
    assert value_hash(found.arrays["operand.0"]) == liar.operands[0]
    assert value_hash(found.arrays["result"]) == value_hash(lied.result) == difference.own
