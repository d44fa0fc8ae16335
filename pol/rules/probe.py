"""What a probe counts: pieces of a seeded program (:mod:`pol.work.probe`), in the time that they took."""

PIECE_WORK = 49_280_672
"""FLOPs of a piece."""


def speed(pieces: int, nanoseconds: int) -> int:
    """Return FLOP/s."""
    return pieces * PIECE_WORK * 10**9 // max(1, nanoseconds)
