"""What happens by itself: the tables from entries of the queue and from complete lots to their effects and weights.

An entry may be out of date, because what it was about went on; each effect looks at the record again. None can refuse.

A block has gas for what is due (``due_gas``), apart from what transactions declare. Lots and each lane of the queue
have shares of their own, so that a flood in one holds up no other; a lane takes its entries strictly in their order.
One that is heavier than what is left of its share waits for the next block; the first one of a block runs however heavy
it is, so that nothing waits for ever. What could grow without end is due in steps, with the step in the entry.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from chain.state_machine.context import Context
from chain.state_machine.gas import DUE_GAS, LANE_PERCENT, LOTS_PERCENT
from chain.state_machine.ledger.balances import on_withdrawal
from chain.state_machine.market.book import on_bid
from chain.state_machine.market.orders import on_close, on_time_to_live, weigh_end
from chain.state_machine.proof.legs import (
    on_accept,
    on_order,
    on_progress,
    weigh_order,
    weigh_progress,
)
from chain.state_machine.proof.lots import close_lot, get_late_beacon, put_off_lot, take_complete
from chain.state_machine.proof.panels import (
    draw_stage,
    on_stage,
    on_void,
    weigh_stage,
    weigh_stage_draw,
)
from chain.state_machine.proof.room import on_room, weigh_room
from chain.state_machine.proof.rounds import weigh_void
from chain.state_machine.proof.settlement import on_bonds, on_window, weigh_bonds, weigh_window
from chain.state_machine.proof.shares import draw_segments, weigh_segments
from chain.state_machine.proof.tables import (
    LOTS,
    Lot,
    PanelSubject,
    SharesSubject,
    lot_key,
)
from chain.state_machine.queue import LANES, Due, Entry, cancel, get_due, is_scheduled

_AT_ONCE = 64  # entries that are read together
_LOTS = -1  # what lots have of a block's gas, counted beside the lanes


def apply_lots(ctx: Context) -> None:
    """Draw the lots that this block's beacon completes, as far as the gas for draws goes."""
    for lot in take_complete(ctx):
        # Else one before it dropped it.
        if LOTS.has(ctx.store, *lot_key(lot.subject)):
            weight = DUE_GAS + DRAWS[type(lot.subject)].weight(ctx, lot.subject)
            if not _take_gas(ctx, _LOTS, LOTS_PERCENT, weight):
                return
            apply_lot(ctx, lot, ctx.revealed)


def apply_due(ctx: Context) -> None:
    """Apply what is due, as far as each lane's share of the block's gas goes; a block may call it several times."""
    for lane in LANES:
        _apply_lane(ctx, lane)


def _apply_lane(ctx: Context, lane: int) -> None:
    while entries := get_due(ctx, lane, _AT_ONCE):
        for entry in entries:
            # One before it may have cancelled it.
            if not is_scheduled(ctx, entry.time, entry.kind, *entry.parts):
                continue
            effect = EFFECTS[entry.kind]
            weight = DUE_GAS + (effect.weight(ctx, entry) if effect.weight is not None else 0)
            if not _take_gas(ctx, lane, LANE_PERCENT[lane], weight):
                return
            cancel(ctx, entry.time, entry.kind, *entry.parts)
            effect.apply(ctx, entry)


def _take_gas(ctx: Context, lane: int, percent: int, weight: int) -> bool:
    """Take gas from what a lane has in this block, and tell whether there was enough; for the first one there is."""
    used = ctx.due_gas.get(lane, 0)
    if used and used + weight > ctx.block.params.due_gas * percent // 100:
        return False
    ctx.due_gas[lane] = used + weight
    return True


def apply_lot(ctx: Context, lot: Lot, beacon: bytes) -> None:
    """Draw what the lot was opened for, once."""
    close_lot(ctx, lot)
    DRAWS[type(lot.subject)].apply(ctx, lot.subject, beacon)


def on_lot(ctx: Context, entry: Entry) -> None:
    """Draw with the beacon that there is, because the lot has waited long enough; without any it goes on waiting."""
    lot = LOTS.get(ctx.store, entry.text(0), entry.parts[1])
    if lot is None:
        return
    beacon = get_late_beacon(ctx, lot)
    if beacon:
        apply_lot(ctx, lot, beacon)
    else:
        put_off_lot(ctx, lot)


def weigh_lot(ctx: Context, entry: Entry) -> int:
    """Return what the draw weighs."""
    lot = LOTS.get(ctx.store, entry.text(0), entry.parts[1])
    return 0 if lot is None else DRAWS[type(lot.subject)].weight(ctx, lot.subject)


@dataclass(frozen=True, slots=True)
class Effect:
    """What an entry does, and the gas that it weighs beyond what every entry does."""

    apply: Callable[[Context, Entry], None]
    weight: Callable[[Context, Entry], int] | None = None


@dataclass(frozen=True, slots=True)
class Draw:
    """What the beacon of a lot draws, and the gas that it weighs."""

    apply: Callable[[Context, Any, bytes], None]
    weight: Callable[[Context, Any], int]


EFFECTS: Mapping[Due, Effect] = MappingProxyType(
    {
        Due.LOT: Effect(on_lot, weigh_lot),
        Due.WINDOW: Effect(on_window, weigh_window),
        Due.VOID: Effect(on_void, weigh_void),
        Due.BONDS: Effect(on_bonds, weigh_bonds),
        Due.STAGE: Effect(on_stage, weigh_stage),
        Due.ROOM: Effect(on_room, weigh_room),
        Due.ACCEPT: Effect(on_accept, weigh_end),
        Due.PROGRESS: Effect(on_progress, weigh_progress),
        Due.TIME_TO_LIVE: Effect(on_time_to_live, weigh_end),
        Due.ORDER: Effect(on_order, weigh_order),
        Due.CLOSE: Effect(on_close, weigh_end),
        Due.BID: Effect(on_bid),
        Due.WITHDRAWAL: Effect(on_withdrawal),
    }
)

DRAWS: Mapping[type, Draw] = MappingProxyType(
    {
        SharesSubject: Draw(draw_segments, weigh_segments),
        PanelSubject: Draw(draw_stage, weigh_stage_draw),
    }
)
"""By what the lot is about."""
