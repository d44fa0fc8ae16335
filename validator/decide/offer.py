"""The best offer of a cluster for a bid: how many slots its providers train at once, and the speed of a slot."""

from collections.abc import Iterable

from domain.limits import SLOTS_MAX
from domain.registry.records import Provider


def best_offer(providers: Iterable[Provider], slots: int = 0) -> tuple[int, int]:
    """Return (slots, slot speed in FLOP/s) of the fastest providers; (0, 0) if too few have a certified speed.

    Each provider trains one slot at a time, so the slowest provider determines the slot speed. If ``slots`` is 0, take
    the number of slots that gives the most work per second. In this case, a slow provider is left out if including it
    would lower the work per second.
    """
    certified = (provider.capability.speed for provider in providers if provider.capability)
    speeds = sorted((speed for speed in certified if speed), reverse=True)[:SLOTS_MAX]
    offers = [(number, speed) for number, speed in enumerate(speeds, start=1)]
    if slots:
        offers = offers[slots - 1 : slots]
    return max(offers, key=lambda offer: offer[0] * offer[1], default=(0, 0))
