"""A training job made by hand: an MLP with LayerNorm, GELU, dropout, clipping, AdamW, a schedule.

Written without tracing, so that tests of loading and execution need no torch.
"""

from collections.abc import Mapping
from math import prod
from pathlib import Path
from types import MappingProxyType

import numpy as np

from pol.job.document import BATCH_NUMBER, STEP, Job
from pol.job.program import Program, ProgramBuilder
from pol.job.sampling import SHUFFLING, Sampling
from pol.job.updates import DIFFERENCE
from pol.job.write import JobSource, write_job
from pol.limits import LIMITS, Limits
from pol.ops.philox import SITE_WEIGHTS, uniform
from pol.state.arrays import Array

INPUTS, HIDDEN, CLASSES, BATCH = 64, 128, 10, 32
SHAPES = {
    "a.bias": (HIDDEN,),
    "a.weight": (INPUTS, HIDDEN),
    "b.bias": (CLASSES,),
    "b.weight": (HIDDEN, CLASSES),
    "norm.bias": (HIDDEN,),
    "norm.weight": (HIDDEN,),
}


class Maker:
    """Arithmetic on handles of a ProgramBuilder."""

    def __init__(self) -> None:
        self.builder = ProgramBuilder()
        self.n = self.builder.node

    def c(self, value: float) -> int:
        return self.builder.constant("f32", (), np.array(value, "<f4").tobytes())

    def total(self, value: int, *dims: int, keepdim: bool = True) -> int:
        return self.n("sum", value, dims=list(dims), keepdim=keepdim)

    def mean(self, value: int, dim: int) -> int:
        size = self.builder.type(value).shape[dim]
        return self.n("mul", self.total(value, dim), self.c(1 / size))

    def transposed(self, value: int) -> int:
        return self.n("permute", value, dims=[1, 0])


def _one_hot(m: Maker, labels: int, batch: int) -> int:
    column = m.n("reshape", labels, shape=[batch, 1])
    equal = m.n("eq", column, m.n("iota", size=CLASSES))
    return m.n("cast", equal, dtype="f32")


def _softmax_loss(m: Maker, logits: int, one_hot: int, batch: int) -> tuple[int, int]:
    """Return the mean cross-entropy and its gradient by the logits."""
    shifted = m.n("sub", logits, m.n("amax", logits, dims=[1], keepdim=True))
    exponentials = m.n("exp", shifted)
    sums = m.total(exponentials, 1)
    log_probabilities = m.n("sub", shifted, m.n("log", sums))
    picked = m.total(m.n("mul", log_probabilities, one_hot), 0, 1, keepdim=False)
    loss = m.n("mul", m.n("neg", picked), m.c(1 / batch))
    difference = m.n("sub", m.n("div", exponentials, sums), one_hot)
    return loss, m.n("mul", difference, m.c(1 / batch))


def _normalise(m: Maker, x: int) -> tuple[int, int]:
    """Return x with mean 0 and variance 1 along dimension 1, and the factor."""
    centred = m.n("sub", x, m.mean(x, 1))
    variance = m.mean(m.n("mul", centred, centred), 1)
    factor = m.n("div", m.c(1), m.n("sqrt", m.n("add", variance, m.c(1e-5))))
    return m.n("mul", centred, factor), factor


def _gelu(m: Maker, x: int) -> tuple[int, int]:
    """Return gelu(x) and its derivative."""
    erf = m.n("erf", m.n("mul", x, m.c(0.5**0.5)))
    half = m.n("mul", m.n("add", erf, m.c(1)), m.c(0.5))
    density = m.n("exp", m.n("mul", m.n("mul", x, x), m.c(-0.5)))
    slope = m.n("mul", m.n("mul", x, density), m.c((2 * np.pi) ** -0.5))
    return m.n("mul", x, half), m.n("add", half, slope)


def _gradients(m: Maker, p: dict[str, int], number: int, batch: int, dropout: float) -> tuple[int, dict[str, int]]:
    x = m.builder.input("batch.x", "f32", (batch, INPUTS))
    one_hot = _one_hot(m, m.builder.input("batch.y", "i64", (batch,)), batch)
    hidden = m.n("add", m.n("matmul", x, p["a.weight"], bits=15), p["a.bias"])
    normal, factor = _normalise(m, hidden)
    scaled = m.n("add", m.n("mul", normal, p["norm.weight"]), p["norm.bias"])
    active, slope = _gelu(m, scaled)
    chance = m.n("uniform", number, shape=[batch, HIDDEN], site=0)
    mask = m.n("cast", m.n("ge", chance, m.c(dropout)), dtype="f32")
    mask = m.n("mul", mask, m.c(1 / (1 - dropout)))
    dropped = m.n("mul", active, mask)
    logits = m.n("add", m.n("matmul", dropped, p["b.weight"], bits=15), p["b.bias"])
    loss, d_logits = _softmax_loss(m, logits, one_hot, batch)
    g = {"b.bias": m.total(d_logits, 0, keepdim=False)}
    g["b.weight"] = m.n("matmul", m.transposed(dropped), d_logits, bits=15)
    d_dropped = m.n("matmul", d_logits, m.transposed(p["b.weight"]), bits=15)
    d_scaled = m.n("mul", m.n("mul", d_dropped, mask), slope)
    g["norm.bias"] = m.total(d_scaled, 0, keepdim=False)
    g["norm.weight"] = m.total(m.n("mul", d_scaled, normal), 0, keepdim=False)
    d_normal = m.n("mul", d_scaled, p["norm.weight"])
    along = m.n("mul", normal, m.mean(m.n("mul", d_normal, normal), 1))
    centred = m.n("sub", m.n("sub", d_normal, m.mean(d_normal, 1)), along)
    d_hidden = m.n("mul", centred, factor)
    g["a.bias"] = m.total(d_hidden, 0, keepdim=False)
    g["a.weight"] = m.n("matmul", m.transposed(x), d_hidden, bits=15)
    return loss, g


def _clipped(m: Maker, g: dict[str, int], limit: float) -> dict[str, int]:
    squares = m.c(0)
    for name in sorted(g):
        dims = range(len(SHAPES[name]))
        squares = m.n("add", squares, m.total(m.n("mul", g[name], g[name]), *dims, keepdim=False))
    factor = m.n("minimum", m.n("div", m.c(limit), m.n("sqrt", squares)), m.c(1))
    return {name: m.n("mul", value, factor) for name, value in g.items()}


def _adamw(m: Maker, p: dict[str, int], g: dict[str, int], rate: int) -> None:
    b = m.builder
    corrections = {}
    for kind, beta in (("beta1", 0.9), ("beta2", 0.999)):
        power = m.n("mul", b.input(f"local.{kind}", "f32", ()), m.c(beta))
        b.output(f"local.{kind}", power)
        corrections[kind] = m.n("sub", m.c(1), power)
    for name in sorted(g):
        first = b.input(f"local.{name}.m", "f32", SHAPES[name])
        second = b.input(f"local.{name}.v", "f32", SHAPES[name])
        first = m.n("add", m.n("mul", first, m.c(0.9)), m.n("mul", g[name], m.c(0.1)))
        square = m.n("mul", g[name], g[name])
        second = m.n("add", m.n("mul", second, m.c(0.999)), m.n("mul", square, m.c(0.001)))
        root = m.n("sqrt", m.n("div", second, corrections["beta2"]))
        move = m.n("div", m.n("div", first, corrections["beta1"]), m.n("add", root, m.c(1e-8)))
        decayed = m.n("add", move, m.n("mul", p[name], m.c(0.01)))
        b.output(f"global.{name}", m.n("sub", p[name], m.n("mul", decayed, rate)))
        b.output(f"local.{name}.m", first)
        b.output(f"local.{name}.v", second)


def step_program(batch: int = BATCH, dropout: float = 0.1) -> Program:
    """One training step with AdamW."""
    m = Maker()
    p = {name: m.builder.input(f"global.{name}", "f32", shape) for name, shape in SHAPES.items()}
    step, number = (m.builder.input(name, "i64", ()) for name in (STEP, BATCH_NUMBER))
    loss, g = _gradients(m, p, number, batch, dropout)
    rates = np.linspace(1e-3, 1e-4, 64, dtype="<f4")
    table = m.builder.constant("f32", (64,), rates.tobytes())
    last = m.n("full", shape=[], dtype="i64", value="3f00000000000000")
    rate = m.n("take", table, m.n("minimum", step, last))
    _adamw(m, p, _clipped(m, g, 1.0), rate)
    m.builder.output("metric.loss", loss)
    return m.builder.build()


def numbers(step: int) -> dict[str, Array]:
    """Return the inputs of a step that are numbers, for a job with one slot."""
    return {STEP: np.array(step), BATCH_NUMBER: np.array(step)}


def outer_program() -> Program:
    """The next global state is the last one minus the mean update."""
    m = Maker()
    for name, shape in SHAPES.items():
        before = m.builder.input(f"global.{name}", "f32", shape)
        update = m.builder.input(f"aggregate.{name}", "f32", shape)
        m.builder.output(f"global.{name}", m.n("sub", before, update))
    return m.builder.build()


def eval_program(batch: int = 8) -> Program:
    """A number of labels in a batch that are 0: enough of an evaluation for tests of loading."""
    m = Maker()
    labels = m.builder.input("batch.y", "i64", (batch,))
    zeros = m.n("eq", labels, m.n("full", shape=[], dtype="i64", value="00" * 8))
    total = m.total(zeros, 0, keepdim=False)
    m.builder.output("metric.zeros", m.n("cast", total, dtype="f32"))
    return m.builder.build()


def initial_states() -> tuple[dict[str, Array], dict[str, Array]]:
    """Global and local state: uniform weights from the seed, zeros, powers of beta."""
    weights: dict[str, Array] = {}
    for index, (name, shape) in enumerate(SHAPES.items()):
        if len(shape) == 2:
            drawn = uniform(7, SITE_WEIGHTS, index, prod(shape)).reshape(shape)
            weights[name] = (drawn - np.float32(0.5)) * np.float32(2 * shape[0] ** -0.5)
        else:
            weights[name] = np.full(shape, float(name == "norm.weight"), np.float32)
    local: dict[str, Array] = {name: np.ones((), np.float32) for name in ("beta1", "beta2")}
    for name, shape in SHAPES.items():
        local[f"{name}.m"] = np.zeros(shape, np.float32)
        local[f"{name}.v"] = np.zeros(shape, np.float32)
    return weights, local


def rows(count: int) -> dict[str, Array]:
    """Made-up samples with ten classes that can be learned."""
    generator = np.random.default_rng(5)
    y = generator.integers(0, CLASSES, count)
    centres = generator.standard_normal((CLASSES, INPUTS))
    x = centres[y] + generator.standard_normal((count, INPUTS))
    return {"x": x.astype(np.float32), "y": y.astype(np.int64)}


def write_mlp_job(
    directory: Path,
    count: int = 200,
    shard_rows: int = 80,
    limits: Limits = LIMITS,
    more: Mapping[str, Array] = MappingProxyType({}),
    sampling: Sampling = SHUFFLING,
    outer: Program | None = None,
) -> Job:
    """Write the whole job: two rounds of two slots, four steps in segments of two, three shards.

    ``more`` are columns beside those that its step reads.
    """
    weights, local = initial_states()
    source = JobSource(
        name="test mlp",
        seed=7,
        rounds=2,
        slots=2,
        round_steps=4,
        batch=BATCH,
        segment_steps=2,
        aggregation=DIFFERENCE,
        step=step_program(),
        outer=outer or outer_program(),
        eval=eval_program(),
        metrics=("loss",),
        global_state=weights,
        local_state=local,
        data={**rows(count), **more},
        holdout=rows(8),
        shard_rows=shard_rows,
        sampling=sampling,
    )
    return write_job(directory, source, limits)
