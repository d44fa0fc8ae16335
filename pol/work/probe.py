"""The program that measures a machine's speed of exact work. It runs in pieces, each with its own inputs.

The seed determines the inputs of all pieces, and every back end gives the same bits. The machine that drew the seed can
therefore verify the work by recomputing a few pieces, even if it is slower. Results for one seed and piece cannot be
used for another seed or another piece.

A piece consists of a part of a large model and of steps of a tiny model, because the measured speed must be valid for
both. A back end with slow calls, such as torch, is slower with a small model than its large products suggest.
"""

from collections.abc import Iterable
from functools import cache
from hashlib import sha256

import numpy as np

from domain.hashing import hash_fields, u32
from pol.executor.interface import Backend, run
from pol.job.program import Program, ProgramBuilder
from pol.ops.philox import uniform
from pol.state.arrays import Array

_ROWS, _WIDTH = 64, 256
_FEW, _INNER, _OUTER, _STEPS = 8, 16, 4, 4
"""Numbers of the tiny model: the rows of a step, the inner width, the outer width, and the number of steps."""
_BATCH, _WEIGHTS, _SCALE = 1, 2, 3
"""Streams of random numbers."""


@cache
def program() -> Program:
    """Return the program that computes one piece."""
    builder = ProgramBuilder()
    x = builder.input("batch.x", "f32", (_ROWS, _WIDTH))
    w = builder.input("global.w", "f32", (_WIDTH, _WIDTH))
    builder.output("global.w", _layer(builder, x, w))
    trained = _corner(builder, w, 0, _INNER), _corner(builder, w, 1, _OUTER)
    rows, wanted = _corner(builder, x, 0, _INNER, _FEW), _corner(builder, x, 1, _OUTER, _FEW)
    rate = builder.constant("f32", (), np.array(0.125, "<f4").tobytes())
    for _ in range(_STEPS):
        trained = _step(builder, rows, wanted, trained, rate)
    for name, value in zip(("tiny0", "tiny1"), trained, strict=True):
        builder.output(f"global.{name}", value)
    return builder.build()


def _layer(builder: ProgramBuilder, x: int, w: int) -> int:
    """Add the nodes of a layer of a large network: two products with a function between them.

    Return the value of the layer.
    """
    hidden = builder.node("tanh", builder.node("matmul", x, w, bits=15))
    return builder.node("matmul", hidden, w, bits=15)


def _corner(builder: ProgramBuilder, value: int, at: int, width: int, rows: int = _INNER) -> int:
    """Return a part of a matrix: of its first ``rows`` rows, the ``width`` columns that begin with column ``at`` x
    16.
    """
    starts, stops = [0, at * _INNER], [rows, at * _INNER + width]
    return builder.node("slice", value, starts=starts, stops=stops, steps=[1, 1])


def _step(builder: ProgramBuilder, x: int, wanted: int, weights: tuple[int, int], rate: int) -> tuple[int, int]:
    """Add the nodes of one training step of the tiny model, which has two layers with tanh between them.

    Return its new weights.

    ``wanted`` are the outputs that the model should give for ``x``.
    """

    def product(left: int, right: int) -> int:
        return builder.node("matmul", left, right, bits=15)

    def turned(value: int) -> int:
        return builder.node("permute", value, dims=[1, 0])

    first, second = weights
    hidden = builder.node("tanh", product(x, first))
    error = builder.node("sub", product(hidden, second), wanted)
    back = product(error, turned(second))
    slope = builder.node("sub", back, builder.node("mul", back, builder.node("mul", hidden, hidden)))
    gradients = product(turned(x), slope), product(turned(hidden), error)
    after = [
        builder.node("sub", weight, builder.node("mul", gradient, rate))
        for weight, gradient in zip(weights, gradients, strict=True)
    ]
    return after[0], after[1]


def work_pieces(seed: bytes, pieces: Iterable[int], backend: Backend) -> tuple[bytes, ...]:
    """Compute the given pieces of a seed, and return the digest of each."""
    key = int.from_bytes(hash_fields("assay/probe/inputs", seed)[:8])
    batch = _signed(key, _BATCH, _ROWS * _WIDTH).reshape(_ROWS, _WIDTH)
    weights = _signed(key, _WEIGHTS, _WIDTH * _WIDTH).reshape(_WIDTH, _WIDTH) / np.float32(16)
    digests = []
    for piece in pieces:
        # The factors make the inputs of each piece differ at little cost; a product without these factors is useless
        # for another piece.
        scale = uniform(key, _SCALE, piece, _WIDTH) + np.float32(0.5)
        inputs = {"batch.x": batch * scale, "global.w": weights}
        outputs = run(program(), inputs, 0, backend)
        digest = sha256()
        for output in outputs.values():
            digest.update(np.ascontiguousarray(output).astype("<f4", copy=False).tobytes())
        digests.append(hash_fields("assay/probe/piece", seed, u32(piece), digest.digest()))
    return tuple(digests)


def _signed(key: int, stream: int, count: int) -> Array:
    """Return ``count`` numbers in [-1, 1) from a stream of random numbers."""
    return uniform(key, stream, 0, count) * np.float32(2) - np.float32(1)
