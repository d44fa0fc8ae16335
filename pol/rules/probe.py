"""The speed of a machine according to a probe.

It follows from the pieces of a seeded program that the machine computed (:mod:`pol.work.probe`), and from their time.
"""

PIECE_WORK = 49_280_672
"""FLOPs of a piece."""


def speed(pieces: int, nanoseconds: int) -> int:
    """Return the speed in FLOP/s of a machine that computed ``pieces`` pieces in ``nanoseconds``."""
    return pieces * PIECE_WORK * 10**9 // max(1, nanoseconds)
