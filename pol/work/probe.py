"""The program by which a machine's speed of exact work is measured: so many pieces, each with inputs of its own.

A seed names the inputs of all pieces, and every back end gives the same bits. So whoever drew the seed finds out by a
few pieces whether all were worked out, however fast the other machine is; and nothing of one seed serves another, or
one piece another.
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
_BATCH, _WEIGHTS, _SCALE = 1, 2, 3
"""Streams of random numbers."""


@cache
def program() -> Program:
    """Return what is run for each piece: two products with a function between them, as a layer of a network has."""
    builder = ProgramBuilder()
    x = builder.input("batch.x", "f32", (_ROWS, _WIDTH))
    w = builder.input("global.w", "f32", (_WIDTH, _WIDTH))
    hidden = builder.node("tanh", builder.node("matmul", x, w, bits=15))
    builder.output("global.w", builder.node("matmul", hidden, w, bits=15))
    return builder.build()


def work_pieces(seed: bytes, pieces: Iterable[int], backend: Backend) -> tuple[bytes, ...]:
    """Return the digest of each of these pieces of a seed."""
    key = int.from_bytes(hash_fields("assay/probe/inputs", seed)[:8])
    batch = _signed(key, _BATCH, _ROWS * _WIDTH).reshape(_ROWS, _WIDTH)
    weights = _signed(key, _WEIGHTS, _WIDTH * _WIDTH).reshape(_WIDTH, _WIDTH) / np.float32(16)
    found = []
    for piece in pieces:
        # A factor for each column is cheap to draw, and nothing that is known of the product without it helps.
        scale = uniform(key, _SCALE, piece, _WIDTH) + np.float32(0.5)
        inputs = {"batch.x": batch * scale, "global.w": weights}
        output = run(program(), inputs, 0, backend)["global.w"]
        data = np.ascontiguousarray(output).astype("<f4", copy=False).tobytes()
        found.append(hash_fields("assay/probe/piece", seed, u32(piece), sha256(data).digest()))
    return tuple(found)


def _signed(key: int, stream: int, count: int) -> Array:
    """Return numbers in [-1, 1)."""
    return uniform(key, stream, 0, count) * np.float32(2) - np.float32(1)
