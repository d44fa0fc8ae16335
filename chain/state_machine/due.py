"""Due work: the processing of queue entries whose time has come.

An entry may be out of date, because its record has changed since. So each effect reads the record again. No effect can
refuse.

A block has gas for due work (``due_gas``), separate from the gas that transactions declare. Lots and each lane of the
queue have their own shares of it, so that a flood in one does not delay the others. A lane runs its entries strictly in
their order. An entry that needs more gas than its lane has left waits for the next block. The first entry of a lane in
a block always runs, so that none waits forever. Work of unlimited size is split into steps, with the step in the entry.
"""

from chain.state_machine.context import Context
from chain.state_machine.gas import DUE_GAS, LANE_PERCENT, take_due_gas
from chain.state_machine.kinds import LANES
from chain.state_machine.queue import cancel, get_due, is_scheduled
from chain.state_machine.rules import Rules

_AT_ONCE = 64  # Number of entries that are read from the queue at once.


def apply_due(ctx: Context, rules: Rules) -> None:
    """Apply the due entries of each lane, up to the lane's share of the block's gas.

    A block may call it several times.
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
