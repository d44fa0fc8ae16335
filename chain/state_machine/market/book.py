"""What makes the auction look at the whole book again."""

from dataclasses import replace

from chain.state_machine import keys
from chain.state_machine.context import Context
from chain.state_machine.internal import Sweep
from chain.state_machine.tables import SWEEP, VALIDATORS


def mark_book_changed(ctx: Context) -> None:
    """Let the auction try every open order again, because a bid changed or room came free."""
    sweep = SWEEP.get(ctx.store)
    if sweep is None:
        SWEEP.put(ctx.store, Sweep(0, b"", again=False))
    elif sweep.order_id:  # it is under way; one that has not begun will see this change too
        SWEEP.put(ctx.store, replace(sweep, again=True))


def mark_if_bidder(ctx: Context, owner: str) -> None:
    """Let the auction try again where the bond account of a bidding validator grew."""
    if VALIDATORS.get(ctx.store, owner) is None:  # nearly everybody, and without a scan
        return
    if next(ctx.store.scan_keys(keys.bid_of(owner)), None) is not None:
        mark_book_changed(ctx)
