"""MsgWithdrawBid: take a bid out of the book."""

from chain.state_machine.context import Context
from chain.state_machine.market.handlers.change_bid import get_own_bid
from chain.state_machine.market.orders import close_bid
from domain.messages import MsgWithdrawBid
from domain.records import Bid


def check_state(ctx: Context, message: MsgWithdrawBid) -> Bid:
    """The bid is the signer's and has not expired."""
    return get_own_bid(ctx, message.bid_id, message.validator)


def apply(ctx: Context, message: MsgWithdrawBid, bid: Bid) -> None:
    """Close the bid; running assignments go on."""
    close_bid(ctx, bid, "withdrawn")
