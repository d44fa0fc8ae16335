"""MsgChangeBid: change price and capacity of a bid, and prolong it."""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.market.book import mark_book_changed
from chain.state_machine.queue import Due, cancel, schedule
from chain.state_machine.tables import BIDS
from domain.errors import DEADLINE_PASSED, NOT_YOURS, Refusal
from domain.messages import MsgChangeBid
from domain.records import Bid


def check_state(ctx: Context, message: MsgChangeBid) -> Bid:
    """The bid is the signer's and has not expired."""
    return get_own_bid(ctx, message.bid_id, message.validator)


def get_own_bid(ctx: Context, bid_id: bytes, validator: str) -> Bid:
    """Return a standing bid of the validator's."""
    bid = BIDS.need(ctx.store, bid_id)
    if bid.validator != validator:
        raise Refusal(NOT_YOURS, "bid_id", "is somebody else's bid", "name one of yours")
    if ctx.clock >= bid.expires_at:
        raise Refusal(DEADLINE_PASSED, "bid_id", "the bid has expired", "place a new one")
    return bid


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
    ctx.emit("bid.changed", ("bid", bid.id), ("validator", bid.validator), ("price", message.price))
