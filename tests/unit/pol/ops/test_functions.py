"""exp, log, tanh, erf: at most one FP32 ulp from FP64, the same bits in both back ends."""

import math
import tracemalloc
from hashlib import sha256

import numpy as np
import pytest

from pol.ops import elementwise, functions
from pol.ops.primitive import Site
from pol.ops.table import PRIMITIVES
from pol.state.arrays import Array
from pol.values import TensorType
from tests.unit.pol.executor.ops import HOSTILE, NOT_FINITE, apply, bits, both

FUNCTIONS = {"exp": math.exp, "log": math.log, "tanh": math.tanh, "erf": math.erf}


def samples(op: str) -> Array:
    """Numbers over all exponents, dense where the function bends, and hostile ones."""
    generator = np.random.default_rng(1)
    bits = generator.integers(0, 2**32, 4000, dtype=np.uint32).view(np.float32)
    dense = generator.uniform(-6, 6, 8000).astype(np.float32)
    wide = generator.uniform(-110, 95, 4000).astype(np.float32)
    near = (1 + generator.uniform(-1e-3, 1e-3, 2000)).astype(np.float32)
    every = np.concatenate([bits[np.isfinite(bits)], dense, wide, near, HOSTILE])
    return np.asarray(np.abs(every[every != 0]) if op == "log" else every)


def expected(op: str, x: Array) -> Array:
    def one(value: float) -> float:
        try:
            return FUNCTIONS[op](value)
        except OverflowError:
            return math.inf

    with np.errstate(over="ignore", under="ignore"):
        return np.array([one(float(value)) for value in x]).astype(np.float32)


@pytest.mark.parametrize("op", FUNCTIONS)
def test_within_one_ulp(op: str) -> None:
    x = samples(op)
    found, exact = both(op, x), expected(op, x)
    assert np.array_equal(np.isinf(found), np.isinf(exact))
    finite = np.isfinite(exact)
    distance = np.abs(found[finite].astype(np.float64) - exact[finite].astype(np.float64))
    assert (distance <= np.spacing(np.abs(exact[finite])).astype(np.float64)).all()
    assert (distance > 0).mean() < 0.001  # FP64 inside: nearly every result is the nearest one


PINNED = {
    "exp": "c38d94e6e5b5b181",
    "log": "c5fc1b0aaadb3cbb",
    "tanh": "577679a34a48e424",
    "erf": "67d991a698cbfefa",
}


@pytest.mark.parametrize("op", FUNCTIONS)
def test_sequences_are_pinned(op: str) -> None:
    """Every FP64 bit before the rounding: another sequence is another executor version."""
    x = (np.arange(1, 4001) * np.float32(0.00390625)).astype(np.float64)
    x = np.concatenate([x, x * 2.0**-20]) if op == "log" else np.concatenate([x, -x])
    found = getattr(functions, op)(elementwise.NAMESPACE, x)
    assert sha256(found.tobytes()).hexdigest()[:16] == PINNED[op]


@pytest.mark.parametrize(
    ("op", "results"),
    [
        ("exp", [math.inf, 0.0, math.nan]),
        ("log", [math.inf, math.nan, math.nan]),
        ("tanh", [1.0, -1.0, math.nan]),
        ("erf", [1.0, -1.0, math.nan]),
        ("sqrt", [math.inf, math.nan, math.nan]),
    ],
)
def test_not_finite(op: str, results: list[float]) -> None:
    np.testing.assert_array_equal(both(op, NOT_FINITE), np.array(results, np.float32))


def test_log_outside_its_domain() -> None:
    x = np.array([0.0, -0.0, -1.0, -1e-45], np.float32)
    np.testing.assert_array_equal(both("log", x), np.array([-np.inf, -np.inf, np.nan, np.nan], np.float32))


def test_sqrt_is_ieee() -> None:
    numbers = (np.arange(2**20, dtype=np.uint32) * 8191 % 2**31).view(np.float32)
    x = numbers[np.isfinite(numbers)]
    roots = both("sqrt", x).astype(np.float64)
    exact = np.array([math.sqrt(value) for value in x[:20000].tolist()])
    assert np.array_equal(roots[:20000].astype(np.float32), exact.astype(np.float32))


def test_division_is_ieee() -> None:
    a, b = np.meshgrid(HOSTILE, HOSTILE[2:])
    with np.errstate(all="ignore"):
        exact = (a.astype(np.float64) / b.astype(np.float64)).astype(np.float32)
    normal = (np.abs(exact) > 1.2e-38) | (exact == 0)  # below, FP64 and then FP32 round twice
    assert np.array_equal(both("div", a, b)[normal], exact[normal])
    scalar = np.array(3.0, np.float32)
    assert np.array_equal(both("div", a, scalar), a / scalar)


@pytest.mark.parametrize("op", ["exp", "log", "tanh", "erf"])
def test_functions_go_through_blocks(op: str) -> None:
    """The same bits for an element wherever it stands, and memory for one block only."""
    x = np.linspace(0.1, 3, 3 * elementwise._BLOCK + 5).astype(np.float32)
    whole = both(op, x)
    parts = [both(op, part) for part in np.array_split(x, 7)]
    assert bits(whole) == bits(np.concatenate(parts))
    turned = both(op, x.reshape(-1, 1)[::-1])
    assert bits(turned) == bits(whole[::-1].reshape(-1, 1))
    apply("numpy", op, [x])
    make = PRIMITIVES[op].reference
    assert make is not None
    tracemalloc.start()
    try:
        make(Site({}, (), TensorType("f32", x.shape), 0))(x)
        assert tracemalloc.get_traced_memory()[1] < 2 * x.nbytes + 20 * 8 * elementwise._BLOCK
    finally:
        tracemalloc.stop()
