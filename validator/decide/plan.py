"""The plan of slots: the job fixes the slots of a round, and the validator chooses the provider of each slot."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush
from types import MappingProxyType

from domain.amount import ceil_div
from validator.decide.admission import UNCOVERED, Backing

SPREAD = 3
"""Factor by which a round may take longer than planned, so that an idle provider also gets a slot."""


@dataclass(frozen=True, slots=True)
class FreeProvider:
    """A provider that may take work now, with its speed in FLOP/s; a newcomer has no accepted share yet.

    ``backing`` says what its tasks state about its bond and about the job bond. If it is ``cautious``, it takes only
    tasks that these bonds cover. It trains ``slots`` shares at once, each with an equal part of its speed. If it has a
    credential in force, ``attested_bond`` (uassay) is what is free in its bond account, else 0.
    """

    address: str
    speed: int
    newcomer: bool = False
    backing: Backing = UNCOVERED
    cautious: bool = False
    slots: int = 1
    attested_bond: int = 0

    def seconds(self, shares: int, work: int = 1) -> Fraction:
        """Return the time until the provider would finish ``shares`` shares of ``work`` FLOPs each."""
        return Fraction(ceil_div(shares, self.slots) * self.slots * work, max(1, self.speed))


def plan_slots(
    slots: Sequence[int],
    workers: Sequence[FreeProvider],
    waiting: Mapping[str, int],
    last: Mapping[int, str],
    room: Mapping[str, int] = MappingProxyType({}),
) -> dict[int, str]:
    """Return the address of the provider to which each of ``slots`` is given, by slot.

    All slots need the same work. The plan is empty if there are no workers. ``room`` limits the number of slots that a
    provider may have. A slot is left out if no provider has room.

    Each slot, in this order, goes to the provider that would finish it first, after its ``waiting`` shares and the
    slots that this plan has given to it. So a faster provider gets more slots, a slow provider perhaps gets none, and
    the last slot ends as early as possible. If several providers would finish the slot equally early, it goes to the
    provider that served it last, because that provider has the slot's local state. ``last`` has that provider's address
    by slot. If that provider is not one of these, the slot goes to the one of these whose address sorts first.
    """
    free_slots = dict(room)
    free = {worker.address: worker for worker in workers if free_slots.get(worker.address, 1) > 0}
    queues = {address: waiting.get(address, 0) + 1 for address in free}

    def end(address: str) -> Fraction:
        """Return the time until a provider would finish one more share (seconds), divided by the work of a share."""
        return free[address].seconds(queues[address])

    ends = [(end(address), address) for address in free]
    heapify(ends)
    plan: dict[int, str] = {}
    for slot in slots:
        # An entry is outdated if its provider got a slot out of turn (because of ``last``), or has no room left.
        while ends and (ends[0][1] not in free or ends[0][0] != end(ends[0][1])):
            heappop(ends)
        if not ends:
            break
        soonest, chosen = ends[0]
        known = last.get(slot, "")
        if known in free and end(known) == soonest:
            chosen = known
        plan[slot] = chosen
        queues[chosen] += 1
        heappush(ends, (end(chosen), chosen))
        if chosen in free_slots:
            free_slots[chosen] -= 1
            if not free_slots[chosen]:
                del free[chosen]
    return plan


def spread_slots(
    plan: Mapping[int, str],
    workers: Sequence[FreeProvider],
    waiting: Mapping[str, int],
    unshown: Collection[str],
    room: Mapping[str, int] = MappingProxyType({}),
) -> dict[int, str]:
    """Return ``plan`` with a slot for each idle provider, taken from busy providers without a result in this order.

    A certified speed may come from a lucky moment, or the machine may have other work to do now. So an ``unshown``
    provider with several shares to train gives its last slot to an idle provider, the fastest idle one first. The idle
    provider must finish within ``SPREAD`` times the time of the whole plan.
    """
    spread = dict(plan)
    known = {worker.address: worker for worker in workers}
    planned = Counter(spread.values())
    total = Counter({name: waiting.get(name, 0) + planned[name] for name in known})
    longest = max((known[name].seconds(total[name]) for name in planned), default=Fraction(0))
    idle = [name for name in known if not total[name] and room.get(name, 1) > 0]
    for name in sorted(idle, key=lambda name: (-known[name].speed, name)):
        givers = [slot for slot, giver in spread.items() if giver in unshown and total[giver] > 1]
        if not givers or known[name].seconds(1) > SPREAD * longest:
            break
        slot = max(givers, key=lambda slot: (total[spread[slot]], slot))
        total[spread[slot]] -= 1
        total[name] += 1
        spread[slot] = name
    return spread
