"""The processor time of each stage before a program runs, for programs near the maximum number of nodes.

Each row is one program. Its baseline is four times the time of a program of the same kind with a quarter of the nodes.
A ratio well above 1 therefore means that a stage grows faster than linearly. The programs are an LSTM, as a Python loop
and as torch's layer, and programs that are meant to be slow: random programs, and a program with fragmented memory.
"""

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import process_time
from types import MappingProxyType
from typing import Any

import numpy as np

from benchmarks.figures import Figures, Row
from pol.executor.backend import backend
from pol.executor.fusion import grouped, singly
from pol.executor.names import BACKENDS, Engine
from pol.executor.tape import write_tape
from pol.job.program import Program, ProgramBuilder, parse_program, program_json
from pol.job.strict_json import JsonLimits, dump_json, parse_json
from pol.limits import LIMITS
from pol.values import TensorType

NAME = "graphs"
NODES = 19_000
PART = 4
GOAL = 1.5
SECONDS = 10.0
"""Maximum seconds of all stages together, without making the program; a run fails above it."""


def lstm(nodes: int) -> Program:
    """Return the program of a training step of an LSTM that is a Python loop, so that the program is unrolled."""
    from benchmarks import networks

    return _step_of(networks.Unrolled(8, 4, 10), nodes // 68)


def repeat(nodes: int) -> Program:
    """Return the program of a training step of ``nn.LSTM``, on sequences of the same length as in ``lstm``."""
    import torch

    class Scores(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.LSTM(4, 8, batch_first=True)
            self.score = torch.nn.Linear(8, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores: torch.Tensor = self.score(self.layer(x)[0][:, -1])
            return scores

    return _step_of(Scores(), nodes // 68)


def _step_of(model: Any, length: int) -> Program:
    import torch

    from benchmarks import networks
    from pol.capture.functions import JobFunctions, named
    from pol.capture.graph.capture import capture_program
    from pol.job.document import BATCH_NUMBER, STEP

    x, y = np.zeros((8, length, 4), np.float32), np.zeros(8, np.int64)
    spec = networks.spec("lstm", model, x, y, 4, 1)
    functions = JobFunctions(spec, 1)
    state: dict[str, Any] = {name: p.detach() for name, p in spec.model.named_parameters()}
    inputs = {
        **named("global", state),
        **named("local", functions.initial_local(state)),
        **named("batch", {"x": torch.from_numpy(x[:4]), "y": torch.from_numpy(y[:4])}),
        STEP: torch.tensor(0),
        BATCH_NUMBER: torch.tensor(0),
    }
    return capture_program(functions.step, inputs)


_SHAPES = ((4, 8), (8, 4), (1, 8), (4, 1), ())
_TWO, _ONE = ("add", "sub", "mul", "maximum"), ("tanh", "neg", "abs")


def scattered(nodes: int) -> Program:
    """Return a program of random operations whose operands are random earlier values."""
    draw, builder = random.Random(1), ProgramBuilder()
    by_shape = {shape: [builder.input(f"x{n}", "f32", shape)] for n, shape in enumerate(_SHAPES)}
    everything: list[int] = []
    read: set[int] = set()

    def node(op: str, *args: int, **attrs: object) -> None:
        value = builder.node(op, *args, **attrs)
        by_shape.setdefault(builder.type(value).shape, []).append(value)
        everything.append(value)
        read.update(args)

    while len(everything) < 0.7 * nodes:
        shape, way = draw.choice(_SHAPES), draw.random()
        value = draw.choice(by_shape[shape])
        if way < 0.4:
            node(draw.choice(_TWO), value, draw.choice(by_shape[shape]))
        elif way < 0.55:
            node(draw.choice(_ONE), value)
        elif shape in {(1, 8), (4, 1)}:
            node("broadcast", value, shape=(4, 8))
        elif shape == (4, 8):
            node("matmul", value, draw.choice(by_shape[8, 4]), bits=15)
            node("slice", value, starts=(0, 0), stops=(1, 8), steps=(1, 1))
        elif len(shape) == 2:
            node("permute", value, dims=(1, 0))
    sums: dict[TensorType, int] = {}
    for value in [value for value in everything if value not in read]:
        kind = builder.type(value)
        sums[kind] = builder.node("add", sums[kind], value) if kind in sums else value
    for number, value in enumerate(sums.values()):
        builder.output(f"y{number}", value)
    return builder.build()


def holes(nodes: int) -> Program:
    """Return a program that fragments memory: every second value is freed early, but later ones do not fit the gaps."""
    builder, share = ProgramBuilder(), nodes // 9
    values = [builder.node("iota", size=100 + number % 1_200) for number in range(2 * share)]
    total = builder.input("x", "i64", ())

    def add(value: int) -> None:
        nonlocal total
        total = builder.node("add", total, builder.node("sum", value, dims=(0,), keepdim=False))

    for value in values[::2]:
        add(value)
    for number in range(share):
        add(builder.node("iota", size=20_000 + number))
    for value in values[1::2]:
        add(value)
    builder.output("y", total)
    return builder.build()


MODELS: Mapping[str, Callable[[int], Program]] = MappingProxyType(
    {"lstm": lstm, "repeat": repeat, "scattered": scattered, "holes": holes}
)


def run(models: Sequence[str] = tuple(MODELS)) -> Figures:
    """Measure some programs, or all by default."""
    for name in BACKENDS:
        # Run a small program first, because the first use loads libraries.
        backend(Engine(name)).compile(scattered(50), 1)
    rows = []
    for name in models:
        print(f"{NAME}: {name}", file=sys.stderr, flush=True)
        MODELS[name](NODES // 100)
        part, _ = _stages(MODELS[name], NODES // PART)
        whole, nodes = _stages(MODELS[name], NODES)
        make_seconds = whole.pop("make"), part.pop("make")
        seconds, before = sum(whole.values()), sum(part.values())
        case = f"{name}, {nodes}"
        rows.append(
            Row(
                case=case,
                value=seconds,
                unit="s",
                baseline=PART * before,
                goal=GOAL,
                columns={"make": make_seconds[0], **whole},
            )
        )
    slow = [row.case for row in rows if row.value > SECONDS]
    notes = [f"{case} took more than {SECONDS:g} s" for case in slow]
    return Figures(NAME, rows, notes, failed=bool(slow))


def _stages(make: Callable[[int], Program], nodes: int) -> tuple[dict[str, float], str]:
    """Return the processor seconds of each stage for a program, and its number of nodes as text."""
    seconds: dict[str, float] = {}

    def timed(stage: str, work: Callable[[], Any]) -> Any:
        start = process_time()
        result = work()
        seconds[stage] = process_time() - start
        return result

    program = timed("make", lambda: make(nodes))
    data = timed("write", lambda: dump_json(program_json(program)))
    value = timed("read", lambda: parse_json(data, JsonLimits(LIMITS.document_size, LIMITS.json_tokens, 64), "program"))
    checked: Program = timed("check", lambda: parse_program(value))
    timed("work", lambda: checked.work)
    timed("tape", lambda: write_tape(checked, 1, grouped))
    timed("singly", lambda: write_tape(checked, 1, singly))
    for name in BACKENDS:
        timed(name, partial(backend(Engine(name)).compile, checked, 1))
    size = f"{len(checked.nodes):,} nodes"
    return seconds, size + (f" for {checked.unrolled_nodes:,}" if checked.nested else "")
