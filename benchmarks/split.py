"""The processor time of the busiest of several machines that share a step, compared with one machine alone.

A GPT of several widths goes through one machine, through two stages, and by rows through two and four machines. All
machines are virtual, in one process with one thread, and the time of each is counted alone: what a step takes on real
machines whose links cost nothing. The results have equal bits, or the benchmark fails.
"""

import time
from collections.abc import Generator, Mapping

import numpy as np

from benchmarks.figures import Figures, Row
from benchmarks.gpt import Shape, step_of
from pol.executor.backend import backend
from pol.executor.interface import Backend
from pol.executor.names import NATIVE, Engine
from pol.job.program import Program
from pol.split.exchanges import In, Message, Moves, Out
from pol.split.machine import Machine
from pol.split.member import Member
from pol.split.plan import make_plan
from pol.split.virtual import VirtualLinks
from pol.state.arrays import NUMPY_DTYPES, Array

NAME = "split"
MODELS: Mapping[str, Shape] = {
    f"width {width}": Shape(width, layers=4, rows=8, length=128, words=256, head=32) for width in (128, 256, 512)
}
SHAPES = ((2, 1), (1, 2), (1, 4))
"""Stages, and machines per stage."""
REPEATS = 5
ENGINE = Engine(NATIVE, threads=1)
MACHINE = Machine(speed=10**10, memory=2**36, bandwidth=125_000_000)


def run(models: list[str] | None = None) -> Figures:
    """Measure each model in each shape."""
    engine = backend(ENGINE)
    rows, wrong = [], []
    for name in models or MODELS:
        program = step_of(MODELS[name])
        inputs = _inputs(program)
        alone, whole = _alone(program, inputs, engine)
        rows.append(Row(f"{name}, alone", 1_000 * alone, "ms"))
        for stages, divided in SHAPES:
            case = f"{name}, {stages} stages" if divided == 1 else f"{name}, {divided} by rows"
            most, found = _together(program, inputs, stages, divided)
            rows.append(Row(case, 1_000 * most, "ms", baseline=1_000 * alone))
            if any(not np.array_equal(found[output], value, equal_nan=True) for output, value in whole.items()):
                wrong.append(f"{case}: other bits than alone")
    return Figures(NAME, rows, wrong, failed=bool(wrong))


def _inputs(program: Program) -> dict[str, Array]:
    """Return small numbers for each input of a step."""
    random = np.random.default_rng(1)
    inputs: dict[str, Array] = {}
    for spec in program.inputs:
        dtype = NUMPY_DTYPES[spec.dtype]
        if spec.name.startswith("batch."):
            inputs[spec.name] = random.integers(0, 256, spec.shape).astype(dtype)
        elif spec.dtype == "f32":
            inputs[spec.name] = np.abs(random.standard_normal(spec.shape) / 50).astype(dtype)
        else:
            inputs[spec.name] = np.ones(spec.shape, dtype)
    return inputs


def _alone(program: Program, inputs: Mapping[str, Array], engine: Backend) -> tuple[float, Mapping[str, Array]]:
    compiled = engine.compile(program, 0)
    times = []
    for _ in range(REPEATS):
        began = time.process_time()
        outputs = compiled.run(inputs)
        times.append(time.process_time() - began)
    return min(times), outputs


def _together(
    program: Program, inputs: Mapping[str, Array], stages: int, divided: int
) -> tuple[float, Mapping[str, Array]]:
    """Return the least processor time of the busiest machine (seconds), and the outputs."""
    plan = make_plan(program, [MACHINE] * (stages * divided), stages, divided)
    engine = backend(ENGINE, bounded=False)  # as the members of a group
    members = [Member(plan, machine, 0, engine) for machine in plan.used]
    times, outputs = [], dict[str, Array]()
    for _ in range(REPEATS):
        spent = dict.fromkeys(plan.used, 0.0)
        links = VirtualLinks(len(plan.machines))
        parts = {
            member.machine: _timed(member.run({name: inputs[name] for name in member.inputs}), spent, member.machine)
            for member in members
        }
        for own in links.run(parts).values():
            outputs |= own
        times.append(max(spent.values()))
    return min(times), outputs


def _timed(
    moves: Moves[dict[str, Array]], spent: dict[int, float], machine: int
) -> Generator[Out | In, Message, dict[str, Array]]:
    """Run the part of a machine, and add the processor time that it takes to ``spent``."""
    given: Message | None = None
    while True:
        began = time.process_time()
        try:
            move = next(moves) if given is None else moves.send(given)
        except StopIteration as end:
            result: dict[str, Array] = end.value
            return result
        finally:
            spent[machine] += time.process_time() - began
        given = yield move
