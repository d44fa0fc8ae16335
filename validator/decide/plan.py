"""Who serves which slot: the job fixes the slots of a round, the validator only chooses who trains each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush


@dataclass(frozen=True, slots=True)
class Worker:
    """A provider that may take work now: its address, and its measured speed in FLOP/s."""

    address: str
    speed: int


def plan_slots(
    slots: Sequence[int],
    workers: Sequence[Worker],
    waiting: Mapping[str, int],
    last: Mapping[int, str],
) -> dict[int, str]:
    """Return the provider of each of ``slots``, which all take the same work; nothing where nobody is there.

    Each slot, in the order given, goes to the provider that is done with it first, after all that it has to train
    before: ``waiting`` shares, and what it is given here. So faster ones get more slots, a slow one perhaps none, and
    the last slot ends as early as it can. Of equals the one serves it that served it ``last`` (slot to address: it
    holds the slot's local state), else the one that comes first by address.
    """
    if not workers:
        return {}
    speeds = {worker.address: max(1, worker.speed) for worker in workers}
    queues = {address: waiting.get(address, 0) + 1 for address in speeds}

    def end(address: str) -> Fraction:
        """Return when one more share of a provider would end, in units of a share's work."""
        return Fraction(queues[address], speeds[address])

    ends = [(end(address), address) for address in speeds]
    heapify(ends)
    plan: dict[int, str] = {}
    for slot in slots:
        # An entry of a provider that was given a share out of turn, below, is outdated.
        while ends[0][0] != end(ends[0][1]):
            heappop(ends)
        soonest, chosen = ends[0]
        known = last.get(slot, "")
        if known in speeds and end(known) == soonest:
            chosen = known
        plan[slot] = chosen
        queues[chosen] += 1
        heappush(ends, (end(chosen), chosen))
    return plan
