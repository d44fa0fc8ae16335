"""What a complete lot draws: the segments of the shares of a commitment, or the seats and places of an audit."""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.proof import audits
from chain.state_machine.proof.lots import close_lot, get_hashes
from chain.state_machine.proof.shares import SHARES_LOT, get_shares_of_lot, put_share, share_id
from chain.state_machine.tables import ORDERS
from domain.records import Lot
from pol.rules.lots import draw, seed


def apply_lot(ctx: Context, lot: Lot) -> None:
    """Draw what the lot was opened for, once."""
    close_lot(ctx, lot)
    if lot.purpose == SHARES_LOT:
        draw_segments(ctx, lot)
    else:
        audits.draw_seats(ctx, lot)


def draw_segments(ctx: Context, lot: Lot) -> None:
    """Draw the segments of every share that this commitment put on chain and nobody rejected since."""
    hashes = get_hashes(lot)
    for share in get_shares_of_lot(ctx, lot):
        claim = share.claim
        count = ORDERS.must(ctx.store, claim.order_id).params.segments_drawn
        drawn = draw(seed(SHARES_LOT, share_id(claim), hashes), claim.segments, count)
        put_share(ctx, replace(share, drawn=drawn))
        ctx.emit(
            "share.drawn",
            ("order", claim.order_id),
            ("attempt", claim.attempt),
            ("round", claim.round),
            ("slot", claim.slot),
            ("issue", claim.issue),
            ("segments", ",".join(map(str, drawn))),
        )
