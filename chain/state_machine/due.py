"""What happens by itself: the tables from entries of the queue and from complete lots to their effects.

An entry may be out of date, because what it was about went on; each effect looks at the record again. None can refuse.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from chain.state_machine.context import Context
from chain.state_machine.ledger.balances import on_withdrawal
from chain.state_machine.market.attempts import on_accept, on_order, on_progress
from chain.state_machine.market.bids import on_bid
from chain.state_machine.market.orders import on_close, on_time_to_live
from chain.state_machine.proof.audits import draw_seats, on_audit_draw
from chain.state_machine.proof.lots import close_lot, get_hashes, observe_block
from chain.state_machine.proof.reports import on_report
from chain.state_machine.proof.settlement import on_window
from chain.state_machine.proof.shares import draw_segments
from chain.state_machine.proof.tables import LOTS, AuditSubject, Lot, SharesSubject
from chain.state_machine.queue import Due, Entry, get_due, remove
from domain.block import Block


def apply_lots(ctx: Context, block: Block) -> None:
    """Let every open lot see the block, and draw those that have all that they waited for."""
    for lot in observe_block(ctx, block):
        apply_lot(ctx, lot)


def apply_due(ctx: Context) -> None:
    """Apply what is due, at most ``deadlines_per_block`` entries."""
    for entry in get_due(ctx, ctx.block.params.deadlines_per_block):
        # Else one before it cancelled it.
        if remove(ctx, entry):
            EFFECTS[entry.kind](ctx, entry)


def apply_lot(ctx: Context, lot: Lot) -> None:
    """Draw what the lot was opened for, once."""
    close_lot(ctx, lot)
    DRAWS[type(lot.subject)](ctx, lot.subject, get_hashes(lot))


def on_lot(ctx: Context, entry: Entry) -> None:
    """Draw with the blocks that there are, because the lot has waited long enough."""
    lot = LOTS.get(ctx.store, entry.text(0), entry.parts[1])
    if lot is not None and get_hashes(lot):
        apply_lot(ctx, lot)


EFFECTS: Mapping[Due, Callable[[Context, Entry], None]] = MappingProxyType(
    {
        Due.LOT: on_lot,
        Due.AUDIT_DRAW: on_audit_draw,
        Due.WINDOW: on_window,
        Due.REPORT: on_report,
        Due.ACCEPT: on_accept,
        Due.PROGRESS: on_progress,
        Due.TIME_TO_LIVE: on_time_to_live,
        Due.ORDER: on_order,
        Due.CLOSE: on_close,
        Due.BID: on_bid,
        Due.WITHDRAWAL: on_withdrawal,
    }
)

DRAWS: Mapping[type, Callable[[Context, Any, tuple[bytes, ...]], None]] = MappingProxyType(
    {SharesSubject: draw_segments, AuditSubject: draw_seats}
)
"""What the hashes of a lot draw, by what it is about."""
