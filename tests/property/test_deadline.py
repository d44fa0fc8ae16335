"""The least slot speed in closed form, against the time that a speed takes and a search for the least one."""

from dataclasses import replace
from fractions import Fraction
from math import ceil
from random import Random

from matching_engine.conditions import CONDITIONS, UNBOUNDED, AtLeastFor
from matching_engine.records import Asked
from tests.property.matching_twin import random_order

ORDERS = 5_000
FASTEST = 2_000
"""A slot that is as fast does all the work of these orders in one second."""


def small_order(random: Random) -> Asked:
    return replace(
        random_order(random, ["v"]),
        rounds=random.randint(1, 6),
        slots=random.randint(1, 6),
        share_work=random.choice((0, 1, 7, random.randint(0, 200))),
        outer_work=random.choice((0, 1, random.randint(0, 200))),
        trial_work=random.choice((0, 1, random.randint(0, 200))),
        seconds_left=random.randint(0, 90),
        accept_seconds=random.randint(0, 9),
        verify_seconds=random.randint(0, 20),
    )


def is_in_time(order: Asked, at_once: int, speed: int) -> bool:
    """Tell whether a slot speed above 0 is enough: slots in turns, then the aggregation, round after round."""
    turns = ceil(Fraction(order.slots, at_once))
    round_seconds = ceil(Fraction(turns * order.share_work + order.outer_work, speed))
    accept = order.accept_seconds + ceil(Fraction(order.trial_work, speed))
    return accept + order.rounds * round_seconds + order.verify_seconds <= order.seconds_left


def least_speed(order: Asked, at_once: int) -> int:
    """Return the least speed that is enough, trying one after another."""
    speeds = range(1, FASTEST + 1)
    return next((speed for speed in speeds if is_in_time(order, at_once, speed)), UNBOUNDED)


def test_the_least_slot_speed_is_that_of_a_search() -> None:
    (condition,) = (one for one in CONDITIONS if isinstance(one, AtLeastFor))
    found = 0
    for number in range(ORDERS):
        random = Random(number)
        order, at_once = small_order(random), random.randint(1, 7)
        expected = least_speed(order, at_once)
        assert condition.want(order, 0)(at_once) == expected, order
        found += expected < UNBOUNDED
    assert ORDERS // 4 < found < ORDERS
