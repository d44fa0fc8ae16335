"""Lots: random choices that later blocks determine and no party can influence (protocol sections 1.5, 4.3 and 5.1).

A draw reads a stream of bytes, whose block k is H("assay/lot/stream", seed, k). To draw a number below n, the draw
reads as many bytes as n - 1 has, and keeps as many of their bits as n - 1 has. If the number is not below n, the draw
tries again with the next bytes. Rejection makes all numbers equally likely, while a remainder would favor small
numbers. Each try is rejected with a probability below one half. ``tests/vectors/lots`` holds test cases for other
implementations.
"""

from collections.abc import Sequence

from domain.hashing import hash_fields, u64


class _Stream:
    """A stream of uniform numbers from a seed."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._block = 0
        self._bytes = b""

    def _take(self, size: int) -> bytes:
        while len(self._bytes) < size:
            self._bytes += hash_fields("assay/lot/stream", self._seed, u64(self._block))
            self._block += 1
        data = self._bytes[:size]
        self._bytes = self._bytes[size:]
        return data

    def below(self, bound: int) -> int:
        """Return a uniform number in 0..bound-1; a bound of 1 reads no bytes."""
        bits = (bound - 1).bit_length()
        mask = (1 << bits) - 1
        while True:
            number = int.from_bytes(self._take((bits + 7) // 8), "big") & mask
            if number < bound:
                return number


def seed(purpose: str, lot_id: bytes, beacon: bytes) -> bytes:
    """Return the seed of a lot (32 bytes). It depends on the beacon of the block in which the lot is drawn."""
    return hash_fields("assay/lot", purpose, lot_id, beacon)


def draw(seed: bytes, population: int, count: int) -> tuple[int, ...]:
    """Draw ``count`` different numbers from 0..population-1 and return them sorted.

    All sets of that size are equally likely. Returns all numbers if the population is not larger than ``count``.
    ValueError for a negative argument.
    """
    if population < 0 or count < 0:
        raise ValueError(f"cannot draw {count} of {population}")
    if count >= population:
        return tuple(range(population))
    stream = _Stream(seed)
    # Fisher-Yates shuffle of the list 0..population-1, of which only moved elements are stored.
    moved: dict[int, int] = {}
    drawn: list[int] = []
    for start in range(count):
        picked = start + stream.below(population - start)
        drawn.append(moved.get(picked, picked))
        moved[picked] = moved.get(start, start)
    return tuple(sorted(drawn))


def draw_weighted(seed: bytes, weights: Sequence[int], count: int) -> tuple[int, ...]:
    """Draw ``count`` different indices of ``weights`` and return them sorted.

    Each draw chooses an index in proportion to its weight. The indices are drawn one after another; a drawn index does
    not take part in later draws. An index of weight 0 is never drawn. So if fewer than ``count`` indices have a weight
    above 0, only these are returned. ValueError for a negative argument.
    """
    if count < 0 or any(weight < 0 for weight in weights):
        raise ValueError("counts and weights must not be negative")
    stream = _Stream(seed)
    remaining = list(weights)
    drawn: list[int] = []
    while len(drawn) < count and any(remaining):
        ticket = stream.below(sum(remaining))
        index = 0
        while ticket >= remaining[index]:
            ticket -= remaining[index]
            index += 1
        drawn.append(index)
        remaining[index] = 0
    return tuple(sorted(drawn))


def draw_duty_segments(seed: bytes, slots: int, segments: int, expected: int, at_least: int = 0) -> tuple[int, ...]:
    """Draw the segments of one share that its own validator must replay, sorted.

    The round has ``slots`` shares of ``segments`` segments each. The lot throws ``expected`` tickets onto all segments
    of the round, independently of each other. The tickets that fall on this share count, so ``expected`` tickets of a
    round count on average. Every segment of a round is equally likely, no matter how a round is divided into shares.
    If no ticket falls on the share, ``at_least`` different segments of it are drawn instead. All segments are drawn if
    the round has at most ``expected`` segments. ValueError for a negative argument.
    """
    if min(slots, segments, expected, at_least) < 0:
        raise ValueError("counts must not be negative")
    if slots * segments <= expected:
        return tuple(range(segments))
    stream = _Stream(seed)
    tickets = {stream.below(slots * segments) for _ in range(expected)}
    own = tuple(sorted(ticket for ticket in tickets if ticket < segments))
    return own or draw(hash_fields("assay/lot/duty", seed), segments, at_least)


def duty_segments(segments: int, drawn: Sequence[int]) -> tuple[int, ...]:
    """Return the segments of a share that its own validator must replay, sorted and without repeats.

    ``segments`` is the number n of the share's segments, which are numbered from 0, and ``drawn`` holds the numbers
    that a lot drew. The number n is always added. It stands for the end of the share: its update, or the place at which
    the job stopped. Numbers drawn beyond the end of the share are dropped. ValueError for a negative argument.
    """
    if segments < 0 or any(segment < 0 for segment in drawn):
        raise ValueError("segments must not be negative")
    return tuple(sorted({*(segment for segment in drawn if segment < segments), segments}))
