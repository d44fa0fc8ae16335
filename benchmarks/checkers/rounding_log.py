"""Verification with a rounding log, as a baseline: written from its description.

Source: Srivastava, Arora, Boneh, "Optimistic Verifiable Training by Controlling Hardware Nondeterminism" (NeurIPS
2024, arXiv 2403.09603). The trainer computes in FP64 and rounds the output and the input gradient of every layer to
``b`` bits of FP32. For each value v near the middle between two rounded values, it logs how it rounded: 0 is down, 1 is
none, 2 is up. A value is near the middle if |v - rnd(v)| > exp (0.5 eps - (0.5 - pivot) 2^-23), with
eps = 2^(32-b) 2^-23, pivot 0.25, and exp the power of two below |v|. Five symbols fit in a byte. The auditor computes
the same on its hardware, and rounds as the log says if its own value is near the middle too.

The trainer writes the log. So it may choose the direction of every value near the middle, and the auditor follows it
(adversary A21).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from benchmarks.figures import Row
from pol.state.arrays import Array
from tests.security import plain
from tests.security.plain import EPSILON, MOMENTUM, RATE

BITS, PIVOT = 32, 0.25
EPS = 2.0 ** (32 - BITS) * 2.0**-23
DOWN, NONE, UP = 0, 1, 2
STEPS = 200
Hook = Callable[[Array], Array]


def rounded(values: Array) -> tuple[Array, Array, Array]:
    """Return the values rounded to ``BITS`` bits, the spacing of each, and whether it is near the middle."""
    power = np.exp2(np.floor(np.log2(np.abs(values), where=values != 0, out=np.zeros_like(values))))
    grid = power * EPS
    result = np.where(values == 0, 0.0, np.round(values / grid) * grid)
    limit = power * (0.5 * EPS - (0.5 - PIVOT) * 2.0**-23)
    return result, grid, np.abs(values - result) > limit


@dataclass
class Trainer:
    """Rounds and writes the log. ``steers`` makes it round up whenever a value is near the middle."""

    steers: bool = False
    log: list[bytes] = field(default_factory=list)

    def __call__(self, values: Array) -> Array:
        """Round values and log the directions."""
        result, grid, near = rounded(values)
        if self.steers:
            result = np.where(near & (result < values), result + grid, result)
        symbols = np.where(near, np.where(result < values, DOWN, UP), NONE).astype(np.uint8)
        self.log.append(packed(symbols.reshape(-1)))
        return result


@dataclass
class Auditor:
    """Rounds as a log says where its own values are near the middle."""

    log: Iterator[bytes]

    def __call__(self, values: Array) -> Array:
        """Round values by the next part of the log."""
        result, grid, near = rounded(values)
        symbols = unpacked(next(self.log), values.size).reshape(values.shape)
        result = np.where(near & (symbols == UP) & (result < values), result + grid, result)
        return np.where(near & (symbols == DOWN) & (result > values), result - grid, result)


def packed(symbols: Array) -> bytes:
    """Return symbols in base 3, five to a byte."""
    padded = np.concatenate([symbols, np.zeros(-len(symbols) % 5, np.uint8)]).reshape(-1, 5)
    return bytes((padded @ np.array([81, 27, 9, 3, 1], np.uint8)).astype(np.uint8))


def unpacked(data: bytes, count: int) -> Array:
    """Return the first ``count`` symbols of packed ones."""
    values = np.frombuffer(data, np.uint8)[:, None] // np.array([81, 27, 9, 3, 1], np.uint8) % 3
    return values.reshape(-1)[:count]


def step(weights: dict[str, Array], velocity: dict[str, Array], x: Array, y: Array, hook: Hook) -> float:
    """Run one step of the matrix's model in FP64, and change its weights. ``hook`` gets the output and the input
    gradient of every layer.
    """
    batch = len(y)
    hidden = hook(x @ weights["0.weight"].T + weights["0.bias"])
    factor = 1 / np.sqrt(hidden.var(0) + float(EPSILON))
    normal = (hidden - hidden.mean(0)) * factor
    scaled = hook(normal * weights["1.weight"] + weights["1.bias"])
    active = hook(np.maximum(scaled, 0))
    logits = hook(active @ weights["3.weight"].T + weights["3.bias"])
    shifted = logits - logits.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    loss = hook(np.array([-logs[np.arange(batch), y].mean()]))
    d_logits = np.exp(logs)
    d_logits[np.arange(batch), y] -= 1
    d_logits = hook(d_logits / batch)
    d_active = hook(d_logits @ weights["3.weight"])
    d_scaled = hook(d_active * (scaled > 0))
    d_normal = d_scaled * weights["1.weight"]
    d_hidden = hook(factor * (d_normal - d_normal.mean(0) - normal * (d_normal * normal).mean(0)))
    hook(d_hidden @ weights["0.weight"])
    found = {
        "0.bias": d_hidden.sum(0),
        "0.weight": d_hidden.T @ x,
        "1.bias": d_scaled.sum(0),
        "1.weight": (d_scaled * normal).sum(0),
        "3.bias": d_logits.sum(0),
        "3.weight": d_logits.T @ active,
    }
    for name, gradient in found.items():
        velocity[name] = MOMENTUM * velocity[name] + gradient
        weights[name] = weights[name] - RATE * velocity[name]
    return float(loss[0])


def trained(hook: Hook, steps: int) -> dict[str, Array]:
    """Return the weights after some steps on made-up data, as FP32."""
    random = np.random.default_rng(1)
    shapes: dict[str, tuple[int, ...]] = {"0.bias": (32,), "0.weight": (32, 64), "1.bias": (32,), "1.weight": (32,)}
    shapes |= {"3.bias": (10,), "3.weight": (10, 32)}
    weights = {name: 0.1 * random.standard_normal(shape) for name, shape in shapes.items()}
    velocity = {name: np.zeros(shape) for name, shape in shapes.items()}
    for _ in range(steps):
        step(weights, velocity, random.random((32, 64)), random.integers(0, 10, 32), hook)
    return {name: value.astype(np.float32) for name, value in weights.items()}


def is_same(one: dict[str, Array], other: dict[str, Array]) -> bool:
    """Return whether two models have the same bits."""
    return all(np.array_equal(one[name], other[name]) for name in one)


def rounding_rows() -> Iterator[Row]:
    """Yield the bytes and the time of a step, and how an auditor judges a false log."""
    honest = Trainer()
    since = perf_counter()
    model = trained(honest, STEPS)
    logged = (perf_counter() - since) / STEPS
    weights = {name: value.astype(np.float32) for name, value in model.items()}
    velocity = {f"momentum.{name}": np.zeros_like(value) for name, value in weights.items()}
    weights |= {"1.running_mean": np.zeros(32, np.float32), "1.running_var": np.ones(32, np.float32)}
    random = np.random.default_rng(1)
    x, y = random.random((32, 64)).astype(np.float32), random.integers(0, 10, 32)
    since = perf_counter()
    for _ in range(STEPS):
        plain.step(weights, velocity, x, y)
    usual = (perf_counter() - since) / STEPS
    size = sum(map(len, honest.log)) / STEPS
    state = 4 * sum(value.size for value in model.values())
    yield Row("rounding log: bytes of a step's log, to the bytes of the weights", size, "B", baseline=state)
    yield Row("rounding log: a step, to a step in FP32", logged, "s", baseline=usual)
    false = Trainer(steers=True)
    steered = trained(false, STEPS)
    audited = trained(Auditor(iter(false.log)), STEPS)
    accepted = is_same(steered, audited) and not is_same(steered, model)
    yield Row("rounding log, A21: false logs that its auditor accepts", float(accepted), "of 1")
