"""MsgWithdrawBid: take a bid out of the book."""

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.market.bids import close_bid, get_own_bid
from domain.messages import MsgWithdrawBid
from domain.records import Bid


def check_state(ctx: Context, message: MsgWithdrawBid) -> Bid:
    """The bid is the signer's and has not expired."""
    return get_own_bid(ctx, message.bid_id, message.validator)


def apply(ctx: Context, message: MsgWithdrawBid, bid: Bid) -> None:
    """Close the bid; running assignments go on."""
    close_bid(ctx, bid, "withdrawn")


HANDLER = Handler(MsgWithdrawBid, check_state, apply)
