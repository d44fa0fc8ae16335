"""The two-sided check of an integer product (Freivalds), compared with the product that it would replace.

A product of Assay is an exact sum of integers of 15 bits, rounded once. A checker that has the integer product C of A
and B may compare C r with A (B r) for random vectors r, in n² instead of n³ operations. Here r has three columns of
numbers below 2^26, so a wrong C passes with a chance of at most 2^-78. All sums are exact in FP64.

The check needs C, which a replay does not: 8 bytes for each number of each product of each step, from the provider. The
rows have the CPU time of both, and the time that C takes at 1 Gbit/s.
"""

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from time import process_time

import numpy as np

from benchmarks.figures import Row
from pol.executor.backend import backend
from pol.executor.names import NATIVE, Engine
from pol.job.program import ProgramBuilder
from pol.state.arrays import Array

BITS, COLUMNS, LIMB = 26, 3, 14
LARGEST = 2**14
SIZES = (512, 1024, 2048)
RATE = 125_000_000
TURNS = 5


def holds(left: Array, right: Array, product: Array, vectors: Array) -> bool:
    """Return whether ``product`` is the product of two matrices of integers of at most 2^14, up to 4,096 rows.

    All are FP64. ``vectors`` has ``COLUMNS`` columns of random integers below 2^26, drawn after the product was fixed.
    """
    high, low = np.divmod(right @ vectors, 2.0**BITS)
    first = _joined([left @ low, left @ high], BITS)
    parts = []
    rest = product
    for _ in range(3):
        rest, part = np.divmod(rest, 2.0**LIMB)
        parts.append(part @ vectors)
    # The rest of a negative number is -1, and that of other numbers 0.
    parts.append(rest @ vectors)
    return bool(np.array_equal(first, _joined(parts, LIMB)))


def _joined(limbs: list[Array], bits: int) -> Array:
    """Return sums of limbs, the lowest first, as integers of any size."""
    total = np.zeros(limbs[0].shape, object)
    for at, limb in enumerate(limbs):
        total += limb.astype(np.int64).astype(object) << (at * bits)
    return total


def product_rows() -> Iterator[Row]:
    """Yield the time of the check of a square product, compared with the product by the native executor."""
    random = np.random.default_rng(0)
    executor = backend(Engine(NATIVE))
    for size in SIZES:
        builder = ProgramBuilder()
        operands = [builder.input(name, "f32", (size, size)) for name in ("x", "y")]
        builder.output("z", builder.node("matmul", *operands, bits=15))
        compiled = executor.compile(builder.build(), 0)
        left, right = (random.integers(-LARGEST, LARGEST, (size, size)).astype(np.float64) for _ in range(2))
        given = {"x": left.astype(np.float32), "y": right.astype(np.float32)}
        vectors = random.integers(0, 2**BITS, (size, COLUMNS)).astype(np.float64)
        product = left @ right
        if not holds(left, right, product, vectors):
            raise RuntimeError("the check refuses a right product")
        replayed = _seconds(partial(compiled.run, given))
        checked = _seconds(partial(holds, left, right, product, vectors))
        yield Row(
            case=f"two-sided check of a product of {size} x {size}, to the product by {executor.name}",
            value=checked,
            unit="s",
            baseline=replayed,
            details={"transfer_seconds": 8 * size * size / RATE},
        )


def _seconds(work: Callable[[], object]) -> float:
    work()
    times = []
    for _ in range(TURNS):
        since = process_time()
        work()
        times.append(process_time() - since)
    return median(times)
