"""Rows that are drawn by weight, in the middle of a part of the stream, across parts, and far on."""

from typing import Any

import numpy as np

from pol.job.dataset import drawn_rows
from pol.ops.philox import PART_POSITIONS

SEED = 2**40 + 3
WEIGHTS = {
    "few": (3, 0, 1, 0, 0, 12, 4, 0),
    "one": (0, 0, 1),
    "large": (2**62, 1, 2**62 - 2, 0),
    "words": (2**32 - 1, 2**32, 2**33 + 5),
}
"""The last sums are the largest that there may be, and one whose halves are both in use."""
PLACES = ((0, 12), (PART_POSITIONS - 3, 6), (2**48 - 5, 5))


def build() -> Any:
    """Return the rows at some positions of the stream for each list of weights."""
    return {
        name: {
            "seed": SEED,
            "weights": list(weights),
            "drawn": [{"position": position, "rows": _rows(weights, position, count)} for position, count in PLACES],
        }
        for name, weights in WEIGHTS.items()
    }


def _rows(weights: tuple[int, ...], position: int, count: int) -> list[int]:
    ends = np.cumsum(np.array(weights, np.int64))
    return [int(row) for row in drawn_rows(SEED, ends, position, count)]
