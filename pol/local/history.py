"""The loss of a training as arrays, in the same form for local training and for training on a network."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

HISTORY = np.dtype([("step", "i8"), ("slot", "i8"), ("loss", "f8")])
"""A point of a history: the number of steps since the job began, the slot, and the slot's loss."""

History = np.ndarray[tuple[int], np.dtype[np.void]]


def make_history(points: Iterable[tuple[int, int, float]]) -> History:
    """Return the points (step, slot, loss) as an array, sorted by step and slot.

    >>> history = make_history([(8, 0, 0.5), (4, 1, 0.75), (4, 0, 1.0)])
    >>> history["step"].tolist(), history["loss"].tolist()
    ([4, 4, 8], [1.0, 0.75, 0.5])
    """
    return np.array(sorted(points), dtype=HISTORY)


def make_losses(rounds: Iterable[dict[int, float]], slots: int) -> NDArray[np.float64]:
    """Return the losses as an array with one row per round and one column per slot.

    NaN means that the slot has no loss in that round.

    >>> make_losses([{0: 1.0, 1: 0.5}, {1: 0.25}], 2).tolist()
    [[1.0, 0.5], [nan, 0.25]]
    """
    rows = [[losses.get(slot, np.nan) for slot in range(slots)] for losses in rounds]
    return np.array(rows, dtype=np.float64).reshape(len(rows), slots)
