"""The random numbers of a job.

They come from Philox4x32-10, a counter-based generator that uses only integer operations. Source: J. K. Salmon et al.,
"Parallel random numbers: as easy as 1, 2, 3", SC'11. The constants are from Random123, whose published test vectors a
test uses. Word ``i`` of a stream is word ``i mod 4`` of a block. The counter of the block is ``(i div 4, site, low half
of step, high half of step)``, and its key is ``(low half of seed, high half of seed)``. Any machine can therefore
compute any part of a stream without computing the rest. Sites below 2^31 are for the ``uniform`` nodes of programs; the
sample order, initial weights and rows drawn by weight have sites from 2^31 on.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

SITE_ORDER = 2**31
"""Site of the sample order. The step of its stream is the number of the epoch."""
SITE_WEIGHTS = 2**31 + 1
"""Site of the initial weights. The step of its stream is the index of the tensor in name order."""
SITE_ROWS = 2**31 + 2
"""Site of rows drawn by weight. The step of its stream is the number of the part of the sample stream."""
PART_POSITIONS = 2**12
"""Number of positions in each part of the sample stream, if rows are drawn by weight."""

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
_MASK = 0xFFFFFFFF
_SHIFT = np.uint64(32)
_PART = 2**14
"""Number of blocks that are computed at once, so that a long stream needs little additional memory."""

Words = NDArray[np.uint32]


def round_keys(seed: int) -> list[tuple[int, int]]:
    """Return the two key words of each round of the generator. ``seed`` is in 0..2^64-1."""
    if not 0 <= seed < 2**64:
        raise ValueError(f"the seed {seed} is outside 0..2^64-1")
    low, high = seed & _MASK, seed >> 32
    return [((low + index * WEYL[0]) & _MASK, (high + index * WEYL[1]) & _MASK) for index in range(ROUNDS)]


def philox(counter: tuple[NDArray[np.uint64], ...], seed: int) -> tuple[NDArray[np.uint64], ...]:
    """Return the four output words of the generator for each block.

    ``counter`` consists of four arrays of the same shape with values below 2^32. ``seed`` is the key, low word first.
    """
    c0, c1, c2, c3 = counter
    first, second = (np.uint64(multiplier) for multiplier in MULTIPLIERS)
    mask = np.uint64(_MASK)
    for low, high in round_keys(seed):
        # Products of 32-bit words fit into 64 bits.
        p0, p1 = first * c0, second * c2
        c0, c1, c2, c3 = (
            (p1 >> _SHIFT) ^ c1 ^ np.uint64(low),
            p1 & mask,
            (p0 >> _SHIFT) ^ c3 ^ np.uint64(high),
            p0 & mask,
        )
    return c0, c1, c2, c3


def words(seed: int, site: int, step: int, count: int) -> Words:
    """Return the first ``count`` 32-bit words of a stream. A stream is named by (seed, site, step)."""
    result = np.empty(count, np.uint32)
    for start, part in _parts(seed, site, step, count):
        result[start : start + len(part)] = part
    return result


def _parts(seed: int, site: int, step: int, count: int) -> Iterator[tuple[int, Words]]:
    """Yield the words of a stream piece by piece. Each piece comes with the index of its first word."""
    blocks = -(-count // 4)
    if blocks > 2**32:
        raise ValueError(f"{count} words were requested, but a stream has 2^34")
    fixed = (site & _MASK, step & _MASK, (step >> 32) & _MASK)
    for start in range(0, blocks, _PART):
        index = np.arange(start, min(start + _PART, blocks), dtype=np.uint64)
        counter = (index, *(np.full(len(index), word, np.uint64) for word in fixed))
        lanes = np.stack([lane.astype(np.uint32) for lane in philox(counter, seed)], axis=1)
        yield 4 * start, lanes.reshape(-1)[: count - 4 * start]


def uniform(seed: int, site: int, step: int, count: int) -> NDArray[np.float32]:
    """Return ``count`` numbers in [0, 1). Each is the upper 24 bits of a word x 2^-24, which is exact in FP32."""
    result = np.empty(count, np.float32)
    for start, part in _parts(seed, site, step, count):
        result[start : start + len(part)] = part >> np.uint32(8)
    result *= np.float32(2.0**-24)
    return result


def uniform_at(seed: int, site: int, step: int, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the numbers of :func:`uniform` with these indices in the stream. Only their blocks are computed."""
    blocks, places = np.unique(numbers // 4, return_inverse=True)
    fixed = (site & _MASK, step & _MASK, (step >> 32) & _MASK)
    counter = (blocks.astype(np.uint64), *(np.full(len(blocks), word, np.uint64) for word in fixed))
    lanes = np.stack([lane.astype(np.uint32) for lane in philox(counter, seed)], axis=1)
    drawn = lanes[places.reshape(numbers.shape), numbers % 4] >> np.uint32(8)
    result: NDArray[np.float32] = drawn.astype(np.float32) * np.float32(2.0**-24)
    return result


def draws(seed: int, site: int, step: int, count: int) -> NDArray[np.uint64]:
    """Return ``count`` draws of 64 bits. Each consists of two words of the stream, the low word first."""
    return words(seed, site, step, 2 * count).astype("<u4", copy=False).view("<u8")


def permutation(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    """Return the order of the rows in an epoch. It is the stable argsort of one 64-bit draw per row."""
    order = np.argsort(draws(seed, SITE_ORDER, epoch, count), kind="stable")
    return order.astype(np.int64, copy=False)


def drawn_places(seed: int, part: int, total: int) -> NDArray[np.int64]:
    """Return a number in 0..total - 1 for each position of part ``part`` of the sample stream.

    Each number is the upper half of the product of a 64-bit draw and ``total`` (at most 2^63 - 1). The probability that
    a number is in an interval therefore differs from the interval's share of ``total`` by less than 2^-64.
    """
    drawn = draws(seed, SITE_ROWS, part, PART_POSITIONS).astype(np.uint64, copy=False)
    mask = np.uint64(_MASK)
    low, high = drawn & mask, drawn >> _SHIFT
    total_low, total_high = np.uint64(total & _MASK), np.uint64(total >> 32)
    # The sum of a 32-bit word and a product of two 32-bit words fits into 64 bits.
    middle = high * total_low + (low * total_low >> _SHIFT)
    other = low * total_high + (middle & mask)
    upper: NDArray[np.uint64] = high * total_high + (middle >> _SHIFT) + (other >> _SHIFT)
    return upper.astype(np.int64)
