"""What a bid can promise for the providers that a validator has."""

from domain.limits import SLOTS_MAX
from domain.registry.records import Capability, Provider
from validator.decide.offer import best_offer


def cluster(*speeds: int) -> list[Provider]:
    """Return a provider for each certified speed; 0 where none is certified."""
    return [
        Provider(
            f"p{index}",
            "v0",
            bytes(33),
            Capability("cpu", speed, 1, 1, 99) if speed else None,
            0,
            0,
        )
        for index, speed in enumerate(speeds)
    ]


def test_equal_providers_train_a_slot_each() -> None:
    assert best_offer(cluster(7, 7, 7)) == (3, 7)
    assert best_offer(cluster(5, 7, 6)) == (3, 5)


def test_who_would_hold_up_the_others_is_left_out() -> None:
    assert best_offer(cluster(10, 1, 9)) == (2, 9)
    assert best_offer(cluster(10, 5)) == (1, 10)  # as much work a second, and each slot sooner
    assert best_offer(cluster(10, 5), slots=2) == (2, 5)


def test_what_is_not_certified_is_not_offered() -> None:
    assert best_offer(cluster(0, 4)) == (1, 4)
    assert best_offer(cluster(0, 0)) == best_offer(cluster(3), slots=2) == (0, 0)


def test_no_more_slots_are_offered_than_an_order_may_have() -> None:
    assert best_offer(cluster(*[2] * (SLOTS_MAX + 5))) == (SLOTS_MAX, 2)
