"""The speed that follows from a probe: computed pieces of a seeded program (:mod:`pol.work.probe`) and their time."""

PIECE_WORK = 49_280_672
"""FLOPs of a piece."""


def speed(pieces: int, nanoseconds: int) -> int:
    """Return the speed in FLOP/s of a machine that computed ``pieces`` pieces in this time."""
    return pieces * PIECE_WORK * 10**9 // max(1, nanoseconds)
