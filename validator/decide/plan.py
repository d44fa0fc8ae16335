"""Who serves which slot: the job fixes the slots of a round, the validator only chooses who trains each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Worker:
    """A provider that may take work now, with its measured speed in FLOP/s; of a newcomer nothing was accepted yet."""

    address: str
    speed: int
    newcomer: bool = False


def plan_slots(
    slots: Sequence[int],
    workers: Sequence[Worker],
    waiting: Mapping[str, int],
    last: Mapping[int, str],
    room: Mapping[str, int] = MappingProxyType({}),
) -> dict[int, str]:
    """Return the provider of each of ``slots``, which all take the same work; nothing where nobody is there.

    Those in ``room`` take so many slots and no more; a slot is left out where all are of these, and have no room.

    Each slot, in the order given, goes to the provider that is done with it first, after all that it has to train
    before: ``waiting`` shares, and what it is given here. So faster ones get more slots, a slow one perhaps none, and
    the last slot ends as early as it can. Of equals the one serves it that served it ``last`` (slot to address: it
    holds the slot's local state), else the one that comes first by address.
    """
    left = dict(room)
    speeds = {w.address: max(1, w.speed) for w in workers if left.get(w.address, 1) > 0}
    queues = {address: waiting.get(address, 0) + 1 for address in speeds}

    def end(address: str) -> Fraction:
        """Return when one more share of a provider would end, in units of a share's work."""
        return Fraction(queues[address], speeds[address])

    ends = [(end(address), address) for address in speeds]
    heapify(ends)
    plan: dict[int, str] = {}
    for slot in slots:
        # An entry of a provider that was given a share out of turn, below, or has no room any more, is outdated.
        while ends and (ends[0][1] not in speeds or ends[0][0] != end(ends[0][1])):
            heappop(ends)
        if not ends:
            break
        soonest, chosen = ends[0]
        known = last.get(slot, "")
        if known in speeds and end(known) == soonest:
            chosen = known
        plan[slot] = chosen
        queues[chosen] += 1
        heappush(ends, (end(chosen), chosen))
        if chosen in left:
            left[chosen] -= 1
            if not left[chosen]:
                del speeds[chosen]
    return plan
