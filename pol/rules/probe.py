"""The speed of a machine according to a probe.

A probe is a seeded program that runs in pieces (:mod:`pol.work.probe`). The speed follows from the number of pieces
that the machine ran and the time that they took.
"""

PIECE_WORK = 49_280_672
"""FLOPs of a piece."""


def speed(pieces: int, nanoseconds: int) -> int:
    """Return the speed (FLOP/s) of a machine that took ``nanoseconds`` to compute ``pieces`` pieces."""
    return pieces * PIECE_WORK * 10**9 // max(1, nanoseconds)
