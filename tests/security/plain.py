"""Training without Assay: one step of the matrix's model in NumPy, in code of a provider's or a verifier's own.

It computes the same mathematics as the job's program, in ordinary FP32. So it stands for other hardware: its results
are close to those of the job, and their bits differ.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from pol.state.arrays import Array, State

RATE, MOMENTUM = 0.02, 0.9
PARAMETERS = ("0.bias", "0.weight", "1.bias", "1.weight", "3.bias", "3.weight")
_NO_BIAS = np.float32(0)
EPSILON, TRACKED = np.float32(1e-5), np.float32(0.1)

Product = Callable[[Array, Array], Array]


def parameters(state: Mapping[str, Array]) -> tuple[str, ...]:
    """Return the parameters that a model has. The bias in front of the normalisation may be left out."""
    return tuple(name for name in PARAMETERS if name in state)


@dataclass(frozen=True)
class Hyper:
    """Hyper-parameters of an optimizer, as a checkpoint of ordinary training stores them."""

    rate: float = RATE
    momentum: float = MOMENTUM


@dataclass(frozen=True)
class Gradients:
    """The loss of a batch, its gradients by parameter and by input, and the mean and variance of its hidden layer."""

    loss: float
    by_name: dict[str, Array]
    by_input: Array
    mean: Array
    variance: Array


def gradients(weights: Mapping[str, Array], x: Array, y: Array, product: Product = np.matmul) -> Gradients:
    """Return the gradients of the mean cross-entropy of a batch ``x`` of shape (batch, 64) with labels ``y``."""
    batch = len(y)
    hidden = product(x, weights["0.weight"].T) + weights.get("0.bias", _NO_BIAS)
    mean, variance = hidden.mean(0), hidden.var(0)
    factor = 1 / np.sqrt(variance + EPSILON)
    normal = (hidden - mean) * factor
    scaled = normal * weights["1.weight"] + weights["1.bias"]
    active = np.maximum(scaled, 0)
    logits = product(active, weights["3.weight"].T) + weights["3.bias"]
    shifted = logits - logits.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    d_logits = np.exp(logs)
    d_logits[np.arange(batch), y] -= 1
    d_logits /= batch
    d_scaled = product(d_logits, weights["3.weight"]) * (scaled > 0)
    d_normal = d_scaled * weights["1.weight"]
    d_hidden = factor * (d_normal - d_normal.mean(0) - normal * (d_normal * normal).mean(0))
    by_name = {
        "0.bias": d_hidden.sum(0),
        "0.weight": product(d_hidden.T, x),
        "1.bias": d_scaled.sum(0),
        "1.weight": (d_scaled * normal).sum(0),
        "3.bias": d_logits.sum(0),
        "3.weight": product(d_logits.T, active),
    }
    loss = float(-logs[np.arange(batch), y].mean())
    return Gradients(loss, by_name, product(d_hidden, weights["0.weight"]), mean, variance)


def step(
    weights: State,
    velocity: State,
    x: Array,
    y: Array,
    hyper: Hyper = Hyper(),
    product: Product = np.matmul,
    frozen: tuple[str, ...] = (),
) -> tuple[dict[str, Array], dict[str, Array], float]:
    """Return the weights, the velocities and the loss of one step of SGD with momentum; ``frozen`` names stay as they
    are.
    """
    found = gradients(weights, x, y, product)
    after, velocities = dict(weights), dict(velocity)
    for name in parameters(weights):
        if name in frozen:
            continue
        speed = np.float32(hyper.momentum) * velocity[f"momentum.{name}"] + found.by_name[name]
        velocities[f"momentum.{name}"] = speed.astype(np.float32)
        after[name] = (weights[name] - np.float32(hyper.rate) * speed).astype(np.float32)
    unbiased = found.variance * np.float32(len(y) / (len(y) - 1))
    for name, value in (("1.running_mean", found.mean), ("1.running_var", unbiased)):
        after[name] = ((1 - TRACKED) * weights[name] + TRACKED * value).astype(np.float32)
    return after, velocities, found.loss


def evaluate(weights: Mapping[str, Array], x: Array, y: Array) -> float:
    """Return the mean cross-entropy of a model in evaluation mode."""
    hidden = x @ weights["0.weight"].T + weights.get("0.bias", _NO_BIAS)
    normal = (hidden - weights["1.running_mean"]) / np.sqrt(np.abs(weights["1.running_var"]) + EPSILON)
    active = np.maximum(normal * weights["1.weight"] + weights["1.bias"], 0)
    logits = active @ weights["3.weight"].T + weights["3.bias"]
    shifted = logits - logits.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return float(-logs[np.arange(len(y)), y].mean())


def distance(one: Mapping[str, Array], other: Mapping[str, Array]) -> float:
    """Return the Euclidean distance between the parameters of two states. It is NaN if a parameter is NaN."""
    return float(np.sqrt(sum(np.square(one[name] - other[name], dtype=np.float64).sum() for name in parameters(one))))


def between(one: State, other: State, part: float) -> dict[str, Array]:
    """Return the state at ``part`` of the way from one state to another; integers come from the first."""
    return {
        name: (value + np.float32(part) * (other[name] - value)).astype(value.dtype)
        if value.dtype == np.float32
        else value
        for name, value in one.items()
    }


def bfloat16(left: Array, right: Array) -> Array:
    """Return the product of two matrices after rounding both to BF16 (to nearest, ties to even)."""
    product: Array = np.matmul(_rounded(left), _rounded(right))
    return product


def _rounded(array: Array) -> Array:
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    kept = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (kept & np.uint32(0xFFFF0000)).view(np.float32)
