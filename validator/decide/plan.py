"""How a round is split over providers: ranges in whole segments, in proportion to measured speed."""

from collections.abc import Sequence
from dataclasses import dataclass

from domain.limits import SLOTS_MAX


@dataclass(frozen=True, slots=True)
class Worker:
    """A provider that may take work now: address, speed in FLOP/s, and how many slots it is granted at a time."""

    address: str
    speed: int
    slots: int


@dataclass(frozen=True, slots=True)
class Part:
    """A slot's range of a round, in samples, and who gets it."""

    slot: int
    first: int
    count: int
    provider: str


def split_round(
    samples: int, unit: int, units_max: int, workers: Sequence[Worker], slots_max: int = SLOTS_MAX
) -> tuple[Part, ...]:
    """Split ``samples`` (a multiple of ``unit``) into at most ``slots_max`` ranges of 1 to ``units_max`` units.

    Nothing where that cannot be. Each worker gets units in proportion to its speed (largest remainder, at least one
    while there are any), cut into as many slots as ``units_max`` demands. Slots are numbered in the order of the
    samples, and workers are taken in the order given, so that a worker tends to keep its slot from round to round.
    """
    total = samples // unit
    # Each worker may have one range that is not full, so a crowd makes more ranges than there may be.
    crowd_max = slots_max + 1 - -(-total // units_max)
    chosen = list(workers)[: max(0, min(total, crowd_max))]
    if not chosen:
        return ()
    shares = _apportion(total, [max(1, worker.speed) for worker in chosen])
    parts: list[Part] = []
    start = 0
    for worker, share in zip(chosen, shares, strict=True):
        pieces = -(-share // units_max)
        for piece in range(pieces):
            size = share // pieces + (1 if piece < share % pieces else 0)
            parts.append(Part(len(parts), start * unit, size * unit, worker.address))
            start += size
    return tuple(parts)


def _apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Divide ``total`` in proportion to ``weights``: at least one each, the rest by largest remainder."""
    spare, whole = total - len(weights), sum(weights)
    shares = [1 + spare * weight // whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda i: (-(spare * weights[i] % whole), i))
    for i in by_remainder[: total - sum(shares)]:
        shares[i] += 1
    return shares


def pick_worker(workers: Sequence[Worker], load: dict[str, int], failures: dict[str, int]) -> str:
    """Return who takes over a failed range: fewest failures, least loaded, fastest; empty if nobody is there."""
    if not workers:
        return ""
    best = min(
        workers,
        key=lambda w: (failures.get(w.address, 0), load.get(w.address, 0), -w.speed, w.address),
    )
    return best.address
