"""Due work: the processing of queue entries whose time has come.

An entry may be out of date, because its record may have changed since the entry was scheduled. So each effect reads the
record again. An effect never raises a Refusal.

A block has gas for due work (``due_gas``), separate from the gas that transactions declare. Lots and each lane of the
queue have their own shares of this gas, so that a flood in one lane does not delay the other lanes or the lots. A lane
runs its entries strictly in their order. If an entry needs more gas than its lane still has, it waits for the next
block. The first entry of a lane in a block always runs, so that no entry waits forever. If work may have any size, it
is split into steps, and the entry has the number of the next step.
"""

from chain.state_machine.context import Context
from chain.state_machine.gas import DUE_GAS, LANE_PERCENT, take_due_gas
from chain.state_machine.kinds import LANES
from chain.state_machine.queue import cancel, get_due, is_scheduled
from chain.state_machine.rules import Rules

_AT_ONCE = 64  # Number of entries that are read from the queue at once.


def apply_due(ctx: Context, rules: Rules) -> None:
    """Apply the due entries of each lane, up to the lane's share of the block's gas.

    This function may run several times in a block; the runs share the gas.
    """
    for lane in LANES:
        _apply_lane(ctx, rules, lane)


def _apply_lane(ctx: Context, rules: Rules, lane: int) -> None:
    while entries := get_due(ctx, lane, _AT_ONCE):
        for entry in entries:
            effect = rules.effects[entry.kind]
            # An earlier entry may have cancelled this one.
            if not is_scheduled(ctx, entry.time, effect.due, *entry.parts):
                continue
            weight = DUE_GAS + (effect.weight(ctx, entry) if effect.weight is not None else 0)
            if not take_due_gas(ctx, f"lane {lane}", LANE_PERCENT[lane], weight):
                return
            cancel(ctx, entry.time, effect.due, *entry.parts)
            effect.apply(ctx, entry)
