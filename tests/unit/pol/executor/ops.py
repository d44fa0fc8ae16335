"""One primitive on given arrays, on one back end or on both, and hostile numbers."""

from collections.abc import Sequence
from functools import cache

import numpy as np

from pol.executor.backend import backend
from pol.executor.interface import Backend
from pol.executor.loop import LoopBackend
from pol.executor.names import BACKENDS, Engine
from pol.job.program import ProgramBuilder
from pol.state.arrays import Array, dtype_name

SEED = 7

_SMALL = "0 -0 1 -1 0.5 1.5 2.5 -2.5 0.33333334 3.1415927 1e-20 1e-40 1e-45 -1e-45 1.1754944e-38"
_LARGE = "16256 16256.5 16257 16383.5 88 -88 104 16777218 1e20 3e38 -3e38"
HOSTILE = np.array([float(number) for number in f"{_SMALL} {_LARGE}".split()], np.float32)
"""Zeros of both signs, ties, subnormals, numbers at the bounds of digits and functions."""
NOT_FINITE = np.array([np.inf, -np.inf, np.nan], np.float32)


@cache
def get(name: str) -> Backend:
    return backend(Engine(name))


@cache
def node_by_node(name: str) -> LoopBackend:
    """A back end that shows every node as it runs."""
    made = backend(Engine(name))
    assert isinstance(made, LoopBackend)
    return made


def apply(name: str, op: str, arrays: Sequence[Array], **attrs: object) -> Array:
    """The result of one node as it is, before anything is made canonical."""
    builder = ProgramBuilder()
    handles = [builder.input(f"global.t{i}", dtype_name(array, op), array.shape) for i, array in enumerate(arrays)]
    builder.output("global.shown", builder.node(op, *handles, **attrs))
    program = builder.build()
    inputs = {f"global.t{i}": array for i, array in enumerate(arrays)}
    shown = get(name).compile(program, SEED).run(inputs)["global.shown"]
    assert shown.shape == program.types[program.first_node].shape
    assert dtype_name(shown, op) == program.types[program.first_node].dtype
    return shown


def bits(array: Array) -> bytes:
    """The bytes, with every NaN the same (their payload reaches no state)."""
    plain = np.ascontiguousarray(array)
    if plain.dtype == np.float32:
        plain = np.where(np.isnan(plain), np.float32(np.nan), plain)
    return plain.tobytes()


def both(op: str, *arrays: Array, **attrs: object) -> Array:
    """The reference's result, after checking that all others give the same bits."""
    reference = apply("numpy", op, arrays, **attrs)
    for name in BACKENDS:
        other = apply(name, op, arrays, **attrs)
        assert bits(reference) == bits(other), f"{op} {attrs}, {name}: {reference} is not {other}"
    return reference


def floats(*shape: int, seed: int = 0, spread: int = 0) -> Array:
    """Random FP32, with exponents spread over 2^±spread."""
    generator = np.random.default_rng(seed)
    exponents = generator.integers(-spread, spread + 1, shape)
    return (generator.standard_normal(shape) * 2.0**exponents).astype(np.float32)
