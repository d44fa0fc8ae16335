"""The measurement of distances between end states of a segment (:mod:`pol.rules.tolerance`).

All machines measure the same integers: differences are rounded once, in FP64, and their sums have a fixed order.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pol.job.tolerance import Tolerance, thresholds_of
from pol.rules.tolerance import FAR, SAME, Distance, parts_of, within
from pol.state.arrays import Array, State
from pol.values import metric_values

_BLOCK = 2**20
"""Number of elements that have FP64 copies at once. It is a power of two, and part of the order of sums."""


@dataclass(frozen=True)
class SegmentEnd:
    """The end of a segment, as one party computed it: both states, and the metrics (FP32 bits) by name."""

    global_state: State
    local_state: State
    metrics: Mapping[str, int]

    def tensors(self) -> Iterator[tuple[str, Array]]:
        """Yield the tensors of both states with the names that they have in the job's programs."""
        for prefix, state in (("global", self.global_state), ("local", self.local_state)):
            for name in sorted(state):
                yield f"{prefix}.{name}", state[name]


def distances(start: SegmentEnd, reference: SegmentEnd, other: SegmentEnd) -> dict[str, Distance]:
    """Return the distance of each tensor and each metric of ``other`` from the reference.

    ``start`` holds the states at the segment's start. The scale of a tensor is its way from there to the reference; the
    scale of a metric is its value in the reference. The states have the tensors of one job.
    """
    first, last = dict(start.tensors()), dict(other.tensors())
    found = {name: _distance(first[name], tensor, last[name]) for name, tensor in reference.tensors()}
    for name, bits in reference.metrics.items():
        here, there = (np.array(metric_values((each,))[0], np.float32) for each in (bits, other.metrics[name]))
        found[f"metric.{name}"] = _distance(np.zeros((), np.float32), here, there)
    return found


def is_same_work(tolerance: Tolerance, start: SegmentEnd, reference: SegmentEnd, other: SegmentEnd) -> bool:
    """Return whether the end of a segment is within a job's thresholds of the reference.

    States at which the job stopped have no metrics. They agree only with others that have none, and only the tensors
    of their states count.
    """
    if reference.metrics.keys() != other.metrics.keys():
        return False
    thresholds = thresholds_of(tolerance)
    if not reference.metrics:
        thresholds = {name: each for name, each in thresholds.items() if not name.startswith("metric.")}
    return within(distances(start, reference, other), thresholds)


def _distance(start: Array, reference: Array, other: Array) -> Distance:
    if reference.dtype != np.float32:
        return SAME if np.array_equal(reference, other) else FAR
    if not np.isfinite(reference).all() or not np.isfinite(other).all():
        return FAR
    if np.array_equal(reference, other):
        return SAME
    largest, total = [0.0, 0.0], [0.0, 0.0]
    flat = [array.reshape(-1) for array in (start, reference, other)]
    for at in range(0, len(flat[1]), _BLOCK):
        before, here, there = (array[at : at + _BLOCK].astype(np.float64) for array in flat)
        for which, array in enumerate((np.abs(there - here), np.abs(here - before))):
            largest[which] = max(largest[which], float(array.max()))
            total[which] += _tree_sum(array)
    return Distance(largest=_parts(*largest), mean=_parts(*total))


def _tree_sum(array: Array) -> float:
    """Return the sum of a vector as a halving tree, so that it does not depend on the machine."""
    while len(array) > 1:
        half = (len(array) + 1) // 2
        shorter = array[:half].copy()
        shorter[: len(array) - half] += array[half:]
        array = shorter
    return float(array[0])


def _parts(difference: float, update: float) -> int:
    """Return a difference in parts of an update. FP64 numbers are fractions, so this is exact."""
    (above, below), (whole, unit) = difference.as_integer_ratio(), update.as_integer_ratio()
    return parts_of(above * unit, whole * below)
