"""Each native kernel with the shapes of training, on one thread.

The baseline is the best library for the plain operation.

An operation is written once, in torch. Its eager run is the baseline; captured into primitives, it runs on the native
executor. Only AdamW (fused in torch), random numbers and hashing are written twice. Times are processor time. Runs of
the kernel and of the library alternate; rows have the median of the repeats and the range of their ratios.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import torch

from benchmarks.figures import Figures, Row
from benchmarks.threads import limited
from pol.capture.graph.capture import capture_program
from pol.capture.optim.updates import Adam, Now, ParameterState
from pol.executor.backend import backend, computing
from pol.executor.interface import Backend
from pol.executor.names import NATIVE, Engine
from pol.job.program import ProgramBuilder
from pol.state.canonical import encode_state, state_tree

NAME = "kernels"
TURNS = 7
SECONDS = 0.02
"""Minimum seconds per repeat; short operations run many times in it."""
MANY = 2**18

Tensors = Mapping[str, torch.Tensor]
Shape = tuple[int, ...]
_aten = torch.ops.aten


@dataclass(frozen=True)
class Case:
    """The same work, done by a kernel and by a library."""

    name: str
    ours: Callable[[], object]
    plain: Callable[[], object]


def run() -> Figures:
    """Measure every case. If there are no native kernels, NumPy is measured; each row has the name of the executor."""
    with limited(1), torch.no_grad():
        executor = backend(Engine(NATIVE))
        return Figures(NAME, [row(case, computing(Engine(NATIVE))) for case in cases(executor)])


def cases(executor: Backend) -> Iterator[Case]:
    """Yield all cases."""
    yield from _products(executor)
    for function in (torch.exp, torch.log, torch.tanh, torch.erf):
        name = f"{function.__name__} of {MANY:,}"
        yield _traced(executor, name, partial(_apply, function), x=(MANY,))
    for shape, dims in (
        ((1024, 1024), (1,)),
        ((1024, 1024), (0,)),
        ((8, 128, 512), (0, 1)),
        ((32, 128, 64), (1,)),
        ((1024, 1024), (0, 1)),
    ):
        name = f"sum of {list(shape)} over {list(dims)}"
        yield _traced(executor, name, partial(_sum, dims), x=shape)
    yield _uniform(executor)
    yield _traced(executor, "GELU and its derivative", _gelu, x=(1024, 512), g=(1024, 512))
    yield _traced(executor, "softmax of rows", _softmax, x=(2048, 128))
    yield _traced(
        executor, "LayerNorm and its derivative", _layer_norm, x=(1024, 128), g=(1024, 128), w=(128,), b=(128,)
    )
    for channels, side, groups in ((64, 28, 1), (96, 28, 96)):
        sizes = {"x": (4, channels, side, side), "w": (channels, channels // groups, 3, 3)}
        name = f"convolution of {sizes['x']} by {sizes['w']} and its derivatives"
        yield _traced(executor, name, partial(_convolution, groups), **sizes, g=sizes["x"])
    yield _adamw(executor)
    for size in (2**21, 2**14):
        yield _hashing(size)


def row(case: Case, executor: str) -> Row:
    """Measure one case."""
    counts = {side: _count(side) for side in (case.ours, case.plain)}
    times: dict[Callable[[], object], list[float]] = {side: [] for side in counts}
    for _ in range(TURNS):
        for side, count in counts.items():
            times[side].append(_seconds(side, count) / count)
    ratios = [ours / plain for ours, plain in zip(times[case.ours], times[case.plain], strict=True)]
    label = f"{case.name}, {executor} ({min(ratios):.2f} to {max(ratios):.2f})"
    ours, plain = (1e6 * median(times[side]) for side in (case.ours, case.plain))
    return Row(case=label, value=ours, unit="us", baseline=plain)


def _seconds(work: Callable[[], object], count: int) -> float:
    start = process_time()
    for _ in range(count):
        work()
    return process_time() - start


def _count(work: Callable[[], object]) -> int:
    """Return the number of runs of ``work`` per repeat. The first run compiles, and does not count."""
    work()
    count = 1
    while (passed := _seconds(work, count)) < SECONDS:
        count = max(2 * count, int(count * SECONDS / max(passed, 1e-9)))
    return count


def _traced(executor: Backend, name: str, function: Callable[[Tensors], Tensors], **shapes: Shape) -> Case:
    random = np.random.default_rng(1)
    arrays = {
        # The values are positive, because logarithms need that.
        f"global.{key}": np.abs(random.standard_normal(shape, np.float32)) + np.float32(0.1)
        for key, shape in shapes.items()
    }

    def named(tensors: Tensors) -> Tensors:
        results = function({key: tensors[f"global.{key}"] for key in shapes})
        return {f"global.{key}": value for key, value in results.items()}

    tensors = {key: torch.tensor(array) for key, array in arrays.items()}
    plain = {key: tensors[f"global.{key}"] for key in shapes}
    compiled = executor.compile(capture_program(named, tensors), 1)
    return Case(name, lambda: compiled.run(arrays), lambda: function(plain))


def _products(executor: Backend) -> Iterator[Case]:
    """Yield the matrix products of layers: in forward passes, and for the gradients of inputs and of weights."""
    for what, left, right in (
        ("large", (1024, 1024), (1024, 1024)),
        ("large", (1024, 512), (512, 2048)),
        ("layer of MLP-512", (128, 784), (784, 512)),
        ("layer of GPT-128", (1024, 128), (128, 512)),
        ("layer of GPT-128", (1024, 512), (512, 128)),
        ("layer of digits", (32, 64), (64, 128)),
        ("cell of an LSTM", (32, 80), (80, 256)),
        ("skinny", (1024, 128), (128, 65)),
        ("skinny", (128, 512), (512, 10)),
        ("one row", (1, 512), (512, 512)),
        ("heads of attention", (16, 128, 64), (16, 64, 128)),
        ("heads of attention", (32, 128, 128), (32, 128, 64)),
    ):
        name = f"product, {what}, {list(left)} x {list(right)}"
        yield _traced(executor, name, _product, a=left, b=right)
    for what, left, right in (
        ("weights transposed", (1024, 128), (512, 128)),
        ("weights transposed", (128, 784), (512, 784)),
    ):
        name = f"product, {what}, {list(left)} x {list(right)}"
        yield _traced(executor, name, _product_with_transposed, a=left, b=right)
    for what, left, right in (
        ("gradient of weights", (1024, 128), (1024, 512)),
        ("gradient of weights", (128, 784), (128, 512)),
    ):
        name = f"product, {what}, {list(left)} x {list(right)}"
        yield _traced(executor, name, _product_of_transposed, a=left, b=right)


def _product(of: Tensors) -> Tensors:
    return {"r": of["a"] @ of["b"]}


def _product_with_transposed(of: Tensors) -> Tensors:
    return {"r": of["a"] @ of["b"].T}


def _product_of_transposed(of: Tensors) -> Tensors:
    return {"r": of["a"].T @ of["b"]}


def _apply(function: Callable[[torch.Tensor], torch.Tensor], of: Tensors) -> Tensors:
    return {"r": function(of["x"])}


def _sum(dims: Shape, of: Tensors) -> Tensors:
    return {"r": of["x"].sum(dims)}


def _gelu(of: Tensors) -> Tensors:
    return {"r": _aten.gelu(of["x"]), "d": _aten.gelu_backward(of["g"], of["x"])}


def _softmax(of: Tensors) -> Tensors:
    return {"r": torch.softmax(of["x"], -1)}


def _layer_norm(of: Tensors) -> Tensors:
    x, g, w, b = (of[name] for name in "xgwb")
    shape = [x.shape[-1]]
    r, mean, scale = _aten.native_layer_norm(x, shape, w, b, 1e-5)
    back = _aten.native_layer_norm_backward(g, x, shape, mean, scale, w, b, [True] * 3)
    return {"r": r, **dict(zip(("x", "w", "b"), back, strict=True))}


def _convolution(groups: int, of: Tensors) -> Tensors:
    form: tuple[Any, ...] = ([1, 1], [1, 1], [1, 1], False, [0, 0], groups)
    x, w, g = (of[name] for name in "xwg")
    back = _aten.convolution_backward(g, x, w, None, *form, [True, True, False])
    return {"r": _aten.convolution(x, w, None, *form), "x": back[0], "w": back[1]}


def _adamw(executor: Backend) -> Case:
    """Return the case of AdamW with weight decay on one tensor. The baseline is torch's fused AdamW."""
    rule = Adam(weight_decay=0.01, decoupled_weight_decay=True)
    kinds, numbered = tuple(rule.fills()), tuple(rule.numbers())

    def function(of: Tensors) -> Tensors:
        now = Now(torch.tensor(0), of["lr"])
        numbers, common = rule.begin({name: of[name] for name in numbered}, now)
        state = {kind: of[kind] for kind in kinds}
        moved, new_state = rule.update(
            ParameterState(name="p", value=of["p"], gradient=of["g"], state=state), now, common
        )
        return {"p": moved, **new_state, **numbers}

    large = dict.fromkeys(("p", "g", *kinds), (MANY,))
    small: dict[str, Shape] = dict.fromkeys((*numbered, "lr"), ())
    case = _traced(executor, f"AdamW of {MANY:,}", function, **large, **small)
    parameter = torch.nn.Parameter(torch.rand(MANY))
    parameter.grad = torch.rand(MANY)
    optimizer = torch.optim.AdamW([parameter], 1e-3, weight_decay=0.01, fused=True)
    return Case(case.name, case.ours, optimizer.step)


def _uniform(executor: Backend) -> Case:
    builder = ProgramBuilder()
    step = builder.input("step", "i64", ())
    builder.output("global.r", builder.node("uniform", step, shape=[MANY], site=0))
    compiled = executor.compile(builder.build(), 1)
    inputs = {"step": np.array(5, np.int64)}
    return Case(f"uniform, {MANY:,}", lambda: compiled.run(inputs), lambda: torch.rand(MANY))


def _hashing(elements: int) -> Case:
    """Return the case of the hash tree of a state with one tensor. The baseline is one hash of its canonical bytes."""
    state = {"p": np.random.default_rng(1).standard_normal(elements, np.float32)}
    data = encode_state(state)
    name = f"tree of a state, {4 * elements / 2**20:g} MiB"
    return Case(name, lambda: state_tree(state).root, lambda: sha256(data).digest())
