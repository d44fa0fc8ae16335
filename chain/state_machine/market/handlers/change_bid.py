"""MsgChangeBid: change price and capacity of a bid, and prolong it."""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.market.bids import get_own_bid
from chain.state_machine.market.book import mark_book_changed
from chain.state_machine.market.tables import BIDS
from chain.state_machine.queue import Due, cancel, schedule
from domain.events import BidChanged
from domain.messages import MsgChangeBid
from domain.records import Bid


def check_state(ctx: Context, message: MsgChangeBid) -> Bid:
    """The bid is the signer's and has not expired."""
    return get_own_bid(ctx, message.bid_id, message.validator)


def apply(ctx: Context, message: MsgChangeBid, bid: Bid) -> None:
    """Replace price, capacity left to sell and expiry; the book sees the bid as new."""
    cancel(ctx, bid.expires_at, Due.BID, bid.id)
    changed = replace(
        bid,
        offer=replace(bid.offer, price=message.price),
        capacity=message.capacity,
        expires_at=ctx.clock + message.duration,
        placed_height=ctx.height,
    )
    BIDS.put(ctx.store, changed)
    schedule(ctx, changed.expires_at, Due.BID, bid.id)
    mark_book_changed(ctx)
    ctx.emit(BidChanged(bid.id, bid.validator, message.price))


HANDLER = Handler(MsgChangeBid, check_state, apply)
