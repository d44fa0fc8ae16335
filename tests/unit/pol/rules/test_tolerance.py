"""Distances and thresholds are integers, and what cannot be measured never passes."""

import pytest

from pol.rules.tolerance import (
    FAR,
    LEAST,
    NEVER,
    PARTS,
    SAME,
    THRESHOLD_MAX,
    Distance,
    Threshold,
    base_of,
    first_outside,
    furthest,
    is_loose,
    parts_of,
    threshold_of,
    within,
)


@pytest.mark.parametrize(
    ("difference", "update", "parts"),
    [
        (0, 0, 0),
        (0, 5, 0),
        (1, 0, NEVER),
        (5, 5, PARTS),
        (1, PARTS, 1),
        (1, PARTS + 1, 1),
        (2, PARTS + 1, 2),
        (1, 10**400, 1),
        (256, 1, NEVER),
        (255, 1, 255 * PARTS),
        (10**400, 1, NEVER),
    ],
)
def test_parts_are_rounded_up_and_end_at_never(difference: int, update: int, parts: int) -> None:
    assert parts_of(difference, update) == parts


def test_each_tensor_has_to_be_within_both_thresholds() -> None:
    thresholds = {"a": Threshold(largest=10, mean=5), "b": Threshold(largest=0, mean=0)}
    assert within({"a": Distance(largest=10, mean=5), "b": SAME}, thresholds)
    assert first_outside({"a": Distance(largest=11, mean=0), "b": SAME}, thresholds) == "a"
    assert first_outside({"a": Distance(largest=0, mean=6), "b": SAME}, thresholds) == "a"
    assert first_outside({"a": SAME, "b": Distance(largest=1, mean=0)}, thresholds) == "b"


def test_a_missing_tensor_is_outside() -> None:
    thresholds = {"a": Threshold(largest=10, mean=5)}
    assert first_outside({}, thresholds) == "a"
    assert first_outside({"a": SAME, "b": SAME}, thresholds) == "b"


def test_no_threshold_admits_what_is_never_the_same() -> None:
    widest = Threshold(largest=THRESHOLD_MAX, mean=THRESHOLD_MAX)
    assert not widest.admits(FAR)
    assert not widest.admits(Distance(largest=NEVER, mean=0))
    assert not widest.admits(Distance(largest=0, mean=NEVER))
    assert threshold_of(Distance(largest=NEVER, mean=0), 1) is None
    assert threshold_of(Distance(largest=0, mean=NEVER), 1) is None
    assert threshold_of(Distance(largest=NEVER - 1, mean=NEVER - 1), 16) == widest


def test_a_threshold_is_a_multiple_of_what_was_measured_or_of_the_least() -> None:
    assert threshold_of(SAME, 4) == Threshold(largest=4 * LEAST.largest, mean=4 * LEAST.mean)
    measured = Distance(largest=LEAST.largest + 1, mean=LEAST.mean + 7)
    assert base_of(measured) == measured
    assert threshold_of(measured, 3) == Threshold(largest=3 * measured.largest, mean=3 * measured.mean)


def test_the_furthest_is_taken_for_each_measure() -> None:
    assert furthest([Distance(largest=1, mean=9), Distance(largest=8, mean=2)]) == Distance(largest=8, mean=9)
    assert furthest([]) == SAME


def test_a_loose_threshold() -> None:
    tight = Threshold(largest=8 * LEAST.largest, mean=8 * LEAST.mean)
    assert not is_loose(tight, SAME, 8)
    assert is_loose(tight, SAME, 7)
    assert is_loose(Threshold(largest=0, mean=8 * LEAST.mean + 1), SAME, 8)
    assert not is_loose(Threshold(largest=0, mean=8 * LEAST.mean + 1), Distance(largest=0, mean=LEAST.mean + 1), 8)
