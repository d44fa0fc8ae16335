"""Standing bids: whose they are, and how they leave the book."""

from chain.state_machine.context import Context
from chain.state_machine.market.book import mark_book_changed
from chain.state_machine.market.tables import BIDS, BIDS_OF
from chain.state_machine.queue import Due, Entry, cancel
from domain.errors import DEADLINE_PASSED, NOT_YOURS, Refusal
from domain.events import BidClosed
from domain.records import Bid


def get_own_bid(ctx: Context, bid_id: bytes, validator: str) -> Bid:
    """Return a standing bid of the validator's."""
    bid = BIDS.need(ctx.store, bid_id)
    if bid.validator != validator:
        raise Refusal(NOT_YOURS, "bid_id", "is somebody else's bid", "name one of yours")
    if ctx.clock >= bid.expires_at:
        raise Refusal(DEADLINE_PASSED, "bid_id", "the bid has expired", "place a new one")
    return bid


def close_bid(ctx: Context, bid: Bid, reason: str) -> None:
    """Take a bid out of the book; running assignments go on."""
    BIDS.delete(ctx.store, bid.id)
    BIDS_OF.delete(ctx.store, bid.validator, bid.id)
    cancel(ctx, bid.expires_at, Due.BID, bid.id)
    mark_book_changed(ctx)
    ctx.emit(BidClosed(bid.id, bid.validator, reason))


def on_bid(ctx: Context, entry: Entry) -> None:
    """Take an expired bid out of the book."""
    bid = BIDS.get(ctx.store, entry.parts[0])
    if bid is not None and ctx.clock >= bid.expires_at:
        close_bid(ctx, bid, "expired")
