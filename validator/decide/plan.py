"""Who serves which slot: the job fixes the slots of a round, the validator only chooses who trains each of them."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush
from types import MappingProxyType

SPREAD = 3
"""How many times as long as planned a round may take so that an idle provider has a slot, too."""


@dataclass(frozen=True, slots=True)
class FreeProvider:
    """A provider that may take work now, with its measured speed in FLOP/s; of a newcomer nothing was accepted yet."""

    address: str
    speed: int
    newcomer: bool = False


def plan_slots(
    slots: Sequence[int],
    workers: Sequence[FreeProvider],
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


def spread_slots(
    plan: Mapping[int, str],
    workers: Sequence[FreeProvider],
    waiting: Mapping[str, int],
    unshown: Collection[str],
    room: Mapping[str, int] = MappingProxyType({}),
) -> dict[int, str]:
    """Return the plan with a slot for idle providers, taken from those whose speed nothing has shown.

    A certified speed may come from a lucky moment, or from a machine that has other work now. A provider that is
    ``unshown`` and has several shares to train gives its last slot to one that has none, the fastest of these first, as
    long as that one is done within ``SPREAD`` times what the whole plan takes.
    """
    spread = dict(plan)
    speeds = {worker.address: max(1, worker.speed) for worker in workers}
    planned = Counter(spread.values())
    total = Counter({name: waiting.get(name, 0) + planned[name] for name in speeds})
    longest = max((Fraction(total[name], speeds[name]) for name in planned), default=Fraction(0))
    idle = [name for name in speeds if not total[name] and room.get(name, 1) > 0]
    for name in sorted(idle, key=lambda name: (-speeds[name], name)):
        givers = [slot for slot, giver in spread.items() if giver in unshown and total[giver] > 1]
        if not givers or Fraction(1, speeds[name]) > SPREAD * longest:
            break
        slot = max(givers, key=lambda slot: (total[spread[slot]], slot))
        total[spread[slot]] -= 1
        total[name] += 1
        spread[slot] = name
    return spread
