"""What happens by itself: the entries of the queue whose time has come.

An entry may be out of date, because what it was about went on; each effect looks at the record again. None can refuse.

A block has gas for what is due (``due_gas``), apart from what transactions declare. Lots and each lane of the queue
have shares of their own, so that a flood in one holds up no other; a lane takes its entries strictly in their order.
One that is heavier than what is left of its share waits for the next block; the first one of a block runs however heavy
it is, so that nothing waits for ever. What could grow without end is due in steps, with the step in the entry.
"""

from chain.state_machine.context import Context
from chain.state_machine.gas import DUE_GAS, LANE_PERCENT, take_due_gas
from chain.state_machine.kinds import LANES
from chain.state_machine.queue import cancel, get_due, is_scheduled
from chain.state_machine.rules import Rules

_AT_ONCE = 64  # entries that are read together


def apply_due(ctx: Context, rules: Rules) -> None:
    """Apply what is due, as far as each lane's share of the block's gas goes; a block may call it several times."""
    for lane in LANES:
        _apply_lane(ctx, rules, lane)


def _apply_lane(ctx: Context, rules: Rules, lane: int) -> None:
    while entries := get_due(ctx, lane, _AT_ONCE):
        for entry in entries:
            effect = rules.effects[entry.kind]
            # One before it may have cancelled it.
            if not is_scheduled(ctx, entry.time, effect.due, *entry.parts):
                continue
            weight = DUE_GAS + (effect.weight(ctx, entry) if effect.weight is not None else 0)
            if not take_due_gas(ctx, f"lane {lane}", LANE_PERCENT[lane], weight):
                return
            cancel(ctx, entry.time, effect.due, *entry.parts)
            effect.apply(ctx, entry)
