"""What makes the auction look at the whole book again."""

from chain.state_machine.context import Context
from chain.state_machine.market.tables import BIDS_OF, SWEEP, Sweep
from chain.state_machine.registry.tables import VALIDATORS


def mark_book_changed(ctx: Context) -> None:
    """Let the auction try every open order again, because a bid changed or room came free."""
    sweep = SWEEP.get(ctx.store)
    if sweep is None:
        SWEEP.put(ctx.store, Sweep(0, b"", again=False))
    elif sweep.order_id:
        # It is under way; one that has not begun will see this change too.
        SWEEP.update(ctx.store, again=True)


def mark_if_bidder(ctx: Context, owner: str) -> None:
    """Let the auction try again where the bond account of a bidding validator grew."""
    # Nearly everybody is none, and is told apart without a scan.
    if VALIDATORS.get(ctx.store, owner) is None:
        return
    if next(BIDS_OF.keys(ctx.store, owner), None) is not None:
        mark_book_changed(ctx)
