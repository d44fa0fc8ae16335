"""The least slot speed in closed form, against the time that it and the next lower speed take."""

from dataclasses import replace
from fractions import Fraction
from math import ceil
from random import Random

from matching_engine.conditions import CONDITIONS, UNBOUNDED, AtLeastFor
from matching_engine.records import AuctionOrder
from tests.property.matching_twin import random_order

ORDERS = 5_000
FASTEST = 2_000
"""A slot at this speed does each part of these orders' work in one second, which no higher speed improves."""


def small_order(random: Random) -> AuctionOrder:
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


def is_in_time(order: AuctionOrder, at_once: int, speed: int) -> bool:
    """Tell whether a slot speed above 0 is enough: slots in turns, then the aggregation, round after round."""
    turns = ceil(Fraction(order.slots, at_once))
    round_seconds = ceil(Fraction(turns * order.share_work + order.outer_work, speed))
    accept = order.accept_seconds + ceil(Fraction(order.trial_work, speed))
    return accept + order.rounds * round_seconds + order.verify_seconds <= order.seconds_left


def check_least_speed(order: AuctionOrder, at_once: int, speed: int) -> None:
    """Check that no lower speed is enough. A higher speed never takes longer, so the next lower one decides."""
    if speed == UNBOUNDED:
        assert not is_in_time(order, at_once, FASTEST), order
    else:
        assert is_in_time(order, at_once, speed), order
        assert speed == 1 or not is_in_time(order, at_once, speed - 1), order


def test_the_least_slot_speed_is_in_time_and_the_next_lower_one_is_not() -> None:
    (condition,) = (one for one in CONDITIONS if isinstance(one, AtLeastFor))
    bounded = 0
    for number in range(ORDERS):
        random = Random(number)
        order, at_once = small_order(random), random.randint(1, 7)
        speed = condition.want(order, 0)(at_once)
        check_least_speed(order, at_once, speed)
        bounded += speed < UNBOUNDED
    assert ORDERS // 4 < bounded < ORDERS
