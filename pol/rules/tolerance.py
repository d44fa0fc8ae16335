"""Distances between two end states of a segment, and the thresholds within which they count as the same work.

A distance is measured per tensor, relative to the way that this tensor went in the segment, from the state at its start
to the **reference**: the end state that a checker computed itself. So a claim cannot make its own scale larger, and a
claim that hardly moves is as far away as the whole update. Each tensor has two distances: of the element that differs
most, and of the mean element. The first finds a change of a few elements; the second has far less noise, and finds a
change of many.

Distances and thresholds are integers, in parts of 2^-24 of the update. Their measurement is arithmetic in FP64 with a
fixed order (``pol/replay/distances.py``); everything here is integers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from domain import bounds
from domain.amount import ceil_div

TIER_NAME: Final = "tolerance"
"""The name of the tier in which results agree within thresholds."""
FP32, TF32, BF16 = "fp32", "tf32", "bf16"
PRECISIONS: Final = (FP32, TF32, BF16)
"""The formats of the operands of products in hardware arithmetic. Everything else is FP32, and integers stay exact."""
PARTS: Final = 1 << 24
"""The distance of a state in which the tensor did not move at all."""
NEVER: Final = 1 << 32
"""The distance that no threshold admits: of a state that is not finite, or that has other integers, or that moved a
tensor which the reference left as it was; and of everything that is further than 256 updates.
"""
THRESHOLD_MAX: Final = NEVER - 1
LEAST_LARGEST: Final = PARTS >> 7
LEAST_MEAN: Final = PARTS >> 14
"""The smallest distances that thresholds are derived from. An optimizer that divides by the size of the gradient makes
rounding visible where a gradient is nearly zero: about one honest element in k differs by more than 1/k of what is
usual. A profile of a few segments has not seen these, so no threshold may be tighter.
"""
MARGIN: Final = 8
"""The margin of a profile, if none is chosen: four times what honest runs of other segments needed at most
(``python -m benchmarks tolerance``).
"""
MARGIN_MAX: Final = 1 << 16
LOOSE: Final = 4
"""A threshold is loose if it is more than this many times the margin above what honest runs were measured to have."""


@dataclass(frozen=True, slots=True)
class Distance:
    """The distance of a tensor from the reference, in parts of the update: of the furthest element, and of the mean."""

    largest: Annotated[int, bounds.Range(0, NEVER)]
    mean: Annotated[int, bounds.Range(0, NEVER)]


@dataclass(frozen=True, slots=True)
class Threshold:
    """The largest distance of a tensor with which a state still counts as the same work."""

    largest: Annotated[int, bounds.Range(0, THRESHOLD_MAX)]
    mean: Annotated[int, bounds.Range(0, THRESHOLD_MAX)]

    def admits(self, distance: Distance) -> bool:
        """Return whether a distance is within this threshold."""
        return distance.largest <= self.largest and distance.mean <= self.mean


SAME: Final = Distance(largest=0, mean=0)
LEAST: Final = Distance(largest=LEAST_LARGEST, mean=LEAST_MEAN)
FAR: Final = Distance(largest=NEVER, mean=NEVER)


def parts_of(difference: int, update: int) -> int:
    """Return a difference in parts of an update, rounded up. Both are magnitudes in the same unit."""
    if difference == 0:
        return 0
    return NEVER if update == 0 else min(NEVER, ceil_div(difference * PARTS, update))


def first_outside(distances: Mapping[str, Distance], thresholds: Mapping[str, Threshold]) -> str | None:
    """Return the first tensor, in name order, that is further than its threshold; None if there is none.

    A tensor without a threshold, and a threshold without a tensor, are outside.
    """
    for name in sorted({*distances, *thresholds}):
        if name not in distances or name not in thresholds or not thresholds[name].admits(distances[name]):
            return name
    return None


def within(distances: Mapping[str, Distance], thresholds: Mapping[str, Threshold]) -> bool:
    """Return whether a state counts as the same work: every tensor is within its threshold."""
    return first_outside(distances, thresholds) is None


def furthest(distances: Iterable[Distance]) -> Distance:
    """Return the largest of some distances, separately for both measures."""
    measured = tuple(distances)
    return Distance(
        largest=max((each.largest for each in measured), default=0),
        mean=max((each.mean for each in measured), default=0),
    )


def base_of(measured: Distance) -> Distance:
    """Return the distance whose multiple is a threshold: the largest of honest runs, or the least that is used."""
    return furthest((LEAST, measured))


def threshold_of(measured: Distance, margin: int) -> Threshold | None:
    """Return the threshold with a margin over the largest distance of honest runs; None if none can admit it."""
    if NEVER in (measured.largest, measured.mean):
        return None
    base = base_of(measured)
    return Threshold(
        largest=min(THRESHOLD_MAX, margin * base.largest),
        mean=min(THRESHOLD_MAX, margin * base.mean),
    )


def is_loose(threshold: Threshold, measured: Distance, factor: int) -> bool:
    """Return whether a threshold is more than ``factor`` times what the distances of honest runs call for."""
    base = base_of(measured)
    return threshold.largest > factor * base.largest or threshold.mean > factor * base.mean
