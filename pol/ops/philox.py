"""Everything random in a job: Philox4x32-10, a counter generator in integer operations.

J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11; the constants and the
published test vectors are those of Random123. Word ``i`` of a stream is word ``i mod 4`` of the
block with the counter ``(i div 4, site, low half of step, high half of step)`` under the key ``(low
half of seed, high half of seed)``, so any part of a stream can be had without the rest, on any
machine. Sites below 2^31 belong to the program's ``uniform`` nodes; sample order, initial weights
and rows drawn by weight have sites of their own above.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

SITE_ORDER = 2**31
"""Site of the sample order; the step is the epoch."""
SITE_WEIGHTS = 2**31 + 1
"""Site of initial weights; the step is the index of the tensor in name order."""
SITE_ROWS = 2**31 + 2
"""Site of rows that are drawn by weight; the step is the number of the part of the sample stream."""
PART_POSITIONS = 2**12
"""Positions of the sample stream in such a part."""

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
_MASK = 0xFFFFFFFF
_SHIFT = np.uint64(32)
_PART = 2**14
"""Blocks that are computed at once, so that a long stream needs no memory but its own."""

Words = NDArray[np.uint32]


def round_keys(seed: int) -> list[tuple[int, int]]:
    """Return the key words of each round for a seed in 0..2^64-1."""
    if not 0 <= seed < 2**64:
        raise ValueError(f"the seed {seed} is outside 0..2^64-1")
    low, high = seed & _MASK, seed >> 32
    return [((low + index * WEYL[0]) & _MASK, (high + index * WEYL[1]) & _MASK) for index in range(ROUNDS)]


def philox(counter: tuple[NDArray[np.uint64], ...], seed: int) -> tuple[NDArray[np.uint64], ...]:
    """Return the four output words of each block.

    ``counter`` is four arrays of one shape with values below 2^32; ``seed`` is the key, low word first.
    """
    c0, c1, c2, c3 = counter
    first, second = (np.uint64(multiplier) for multiplier in MULTIPLIERS)
    mask = np.uint64(_MASK)
    for low, high in round_keys(seed):
        # products of 32-bit words fit 64 bits
        p0, p1 = first * c0, second * c2
        c0, c1, c2, c3 = (
            (p1 >> _SHIFT) ^ c1 ^ np.uint64(low),
            p1 & mask,
            (p0 >> _SHIFT) ^ c3 ^ np.uint64(high),
            p0 & mask,
        )
    return c0, c1, c2, c3


def words(seed: int, site: int, step: int, count: int) -> Words:
    """Return the first ``count`` 32-bit words of the stream of (seed, site, step)."""
    result = np.empty(count, np.uint32)
    for start, part in _parts(seed, site, step, count):
        result[start : start + len(part)] = part
    return result


def _parts(seed: int, site: int, step: int, count: int) -> Iterator[tuple[int, Words]]:
    """Yield the words of a stream piece by piece, each with the place of its first word."""
    blocks = -(-count // 4)
    if blocks > 2**32:
        raise ValueError(f"{count} words are more than a stream has")
    fixed = (site & _MASK, step & _MASK, (step >> 32) & _MASK)
    for start in range(0, blocks, _PART):
        index = np.arange(start, min(start + _PART, blocks), dtype=np.uint64)
        counter = (index, *(np.full(len(index), word, np.uint64) for word in fixed))
        lanes = np.stack([lane.astype(np.uint32) for lane in philox(counter, seed)], axis=1)
        yield 4 * start, lanes.reshape(-1)[: count - 4 * start]


def uniform(seed: int, site: int, step: int, count: int) -> NDArray[np.float32]:
    """Return ``count`` numbers in [0, 1): upper 24 bits of each word x 2^-24, exact in FP32."""
    result = np.empty(count, np.float32)
    for start, part in _parts(seed, site, step, count):
        result[start : start + len(part)] = part >> np.uint32(8)
    result *= np.float32(2.0**-24)
    return result


def draws(seed: int, site: int, step: int, count: int) -> NDArray[np.uint64]:
    """Return ``count`` 64-bit draws: two words each, the low one first."""
    return words(seed, site, step, 2 * count).astype("<u4", copy=False).view("<u8")


def permutation(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    """Return the sample order of an epoch: the stable argsort of one 64-bit draw for each row."""
    order = np.argsort(draws(seed, SITE_ORDER, epoch, count), kind="stable")
    return order.astype(np.int64, copy=False)


def drawn_places(seed: int, part: int, total: int) -> NDArray[np.int64]:
    """Return a place in 0..total - 1 for each position of a part of the sample stream.

    A place is the upper half of the product of a 64-bit draw and ``total`` (at most 2^63 - 1), so the chance of any
    run of places differs from its share of ``total`` by less than 2^-64.
    """
    drawn = draws(seed, SITE_ROWS, part, PART_POSITIONS).astype(np.uint64, copy=False)
    mask = np.uint64(_MASK)
    low, high = drawn & mask, drawn >> _SHIFT
    total_low, total_high = np.uint64(total & _MASK), np.uint64(total >> 32)
    # sums of a product of 32-bit words and a word fit 64 bits
    middle = high * total_low + (low * total_low >> _SHIFT)
    other = low * total_high + (middle & mask)
    upper: NDArray[np.uint64] = high * total_high + (middle >> _SHIFT) + (other >> _SHIFT)
    return upper.astype(np.int64)
