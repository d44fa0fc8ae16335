"""Lots: what later blocks draw, and nobody chose (protocol sections 1.5, 4.3 and 5.1).

A draw reads a stream of bytes, block k of it being H("assay/lot/stream", seed, k). A number below n
takes as many bytes as n - 1 has, keeps as many bits as n - 1 has, and starts again with the next
bytes when it is not below n. Rejection makes every number equally likely, where a remainder would
prefer small ones; fewer than half of the tries are rejected. ``tests/vectors/lots`` holds cases for
other implementations.
"""

from collections.abc import Sequence

from domain.hashing import hash_fields, u64


class _Stream:
    """Uniform numbers from a seed; the only state of a draw."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._block = 0
        self._bytes = b""

    def _take(self, size: int) -> bytes:
        while len(self._bytes) < size:
            self._bytes += hash_fields("assay/lot/stream", self._seed, u64(self._block))
            self._block += 1
        taken, self._bytes = self._bytes[:size], self._bytes[size:]
        return taken

    def below(self, bound: int) -> int:
        """Return a uniform number in 0..bound-1; a bound of 1 takes no bytes."""
        bits = (bound - 1).bit_length()
        mask = (1 << bits) - 1
        while True:
            number = int.from_bytes(self._take((bits + 7) // 8), "big") & mask
            if number < bound:
                return number


def seed(purpose: str, lot_id: bytes, beacon: bytes) -> bytes:
    """Return the seed of a lot (32 bytes) from the beacon of the block that completed it."""
    return hash_fields("assay/lot", purpose, lot_id, beacon)


def draw(seed: bytes, population: int, count: int) -> tuple[int, ...]:
    """Draw ``count`` different numbers of 0..population-1, every set equally likely; sorted.

    All of them where the population is not larger than ``count``. ValueError for a negative
    argument.
    """
    if population < 0 or count < 0:
        raise ValueError(f"cannot draw {count} of {population}")
    if count >= population:
        return tuple(range(population))
    stream = _Stream(seed)
    # Fisher-Yates on the list 0..population-1, holding only what is out of its place.
    moved: dict[int, int] = {}
    drawn: list[int] = []
    for start in range(count):
        picked = start + stream.below(population - start)
        drawn.append(moved.get(picked, picked))
        moved[picked] = moved.get(start, start)
    return tuple(sorted(drawn))


def draw_weighted(seed: bytes, weights: Sequence[int], count: int) -> tuple[int, ...]:
    """Draw ``count`` different indices of ``weights``, each by its exact weight; sorted.

    They are drawn one after the other. After each draw the drawn weight is taken out. An index of
    weight 0 is never drawn, so that fewer than ``count`` come back where fewer have a weight.
    ValueError for a negative argument.
    """
    if count < 0 or any(weight < 0 for weight in weights):
        raise ValueError("counts and weights are not negative")
    stream = _Stream(seed)
    left = list(weights)
    drawn: list[int] = []
    while len(drawn) < count and any(left):
        ticket = stream.below(sum(left))
        index = 0
        while ticket >= left[index]:
            ticket -= left[index]
            index += 1
        drawn.append(index)
        left[index] = 0
    return tuple(sorted(drawn))


def duty_segments(segments: int, drawn: Sequence[int]) -> tuple[int, ...]:
    """Return the segments of a share that are its validator's duty, sorted and without repeats.

    These are the drawn ones, the first, the last, and the end: the update, or where the job stopped, which counts as
    segment n. What was drawn behind the end of a share falls away. ValueError for a negative argument.
    """
    if segments < 0 or any(segment < 0 for segment in drawn):
        raise ValueError("segments are not negative")
    inside = (segment for segment in drawn if segment < segments)
    return tuple(sorted({*inside, 0, max(0, segments - 1), segments}))
