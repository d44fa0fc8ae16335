"""The measurement of this machine's speed of exact work.

The measurement times a fixed program that resembles a layer of a network.
"""

import time
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from pol.executor.interface import Backend, run
from pol.job.program import Program, ProgramBuilder
from pol.state.arrays import Array

_CORE_SECONDS = 0.1


def core_speed(backend: Backend) -> int:
    """Return the speed of one core in FLOP/s. The speed is measured in CPU time, so other processes do not affect
    it.
    """
    return measured_speed(backend, _CORE_SECONDS, time.process_time)


def measured_speed(backend: Backend, seconds: float, clock: Callable[[], float]) -> int:
    """Return the speed of this machine in FLOP/s. The measurement takes ``seconds`` on the given clock."""
    program, inputs = _program(), _inputs()
    # The first run compiles the program and starts threads.
    run(program, inputs, 1, backend)
    runs = 0
    start = clock()
    while (passed := clock() - start) < seconds:
        run(program, inputs, 1, backend)
        runs += 1
    return max(1, int(runs * program.work.flops / passed))


@lru_cache(maxsize=1)
def _program() -> Program:
    """Return the program that is timed: two products with a function between them."""
    builder = ProgramBuilder()
    x = builder.input("batch.x", "f32", (64, 256))
    w = builder.input("global.w", "f32", (256, 256))
    hidden = builder.node("tanh", builder.node("matmul", x, w, bits=15))
    builder.output("global.w", builder.node("matmul", hidden, w, bits=15))
    return builder.build()


def _inputs() -> dict[str, Array]:
    generator = np.random.default_rng(1)
    return {
        "batch.x": generator.standard_normal((64, 256), np.float32),
        "global.w": generator.standard_normal((256, 256), np.float32) / np.float32(16),
    }
