"""The speed of a machine according to a probe.

The speed is computed from the number of pieces of a seeded program that the machine ran (:mod:`pol.work.probe`), and
from the time that they took.
"""

PIECE_WORK = 49_280_672
"""FLOPs of a piece."""


def speed(pieces: int, nanoseconds: int) -> int:
    """Return the speed in FLOP/s of a machine that computed ``pieces`` pieces in ``nanoseconds``."""
    return pieces * PIECE_WORK * 10**9 // max(1, nanoseconds)
